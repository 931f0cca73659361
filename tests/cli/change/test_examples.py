"""The examples of ``acls plan`` and ``acls apply`` for CI systems and on the page."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.plan.document import Plan
from authorizerd.management.plan.selector import Managed
from tests.support.daemon_process import ROOT, running
from tests.support.programs import output_of, run_program
from tools.example.log import write_log

LINE = (
    "[2026-11-21 16:26:26,966] DEBUG Principal = {} is Allowed operation = {} from host = "
    "10.0.0.7 on resource = Topic:LITERAL:{} for request = Fetch with resourceRefCount = 1 "
    "(kafka.authorizer.logger)\n"
)
BY_ALICE = LINE.format("User:alice", "READ", "orders")
BY_ROBOT = LINE.format("User:robot", "WRITE", "status")  # the plan takes this away


TEXT: Final = (ROOT / "docs/change.md").read_text()
FIELDS: Final = (ROOT / "docs/documents.md").read_text()
BLOCKS: Final = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
JOBS: Final = yaml.safe_load(BLOCKS[2])
(JOB,) = JOBS["jobs"].values()
(SCRIPT,) = [step["run"] for step in JOB["steps"] if "acls plan" in step.get("run", "")]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a daemon with the ACLs of the example."""
    folder = tmp_path_factory.mktemp("daemon")
    write_log(folder / "log")
    with running(folder, folder / "log", super_users="User:ANONYMOUS") as daemon:
        yield daemon.ready["listeners"]["PLAINTEXT"]


@pytest.mark.parametrize(("traffic", "test", "code"), [
    (BY_ALICE, "alice may READ topic orders", 0),
    (BY_ALICE, "nobody but $super_users may ALTER the cluster", 0),
    (BY_ALICE + BY_ROBOT, "alice may READ topic orders", 1),
    (BY_ALICE, "zoe may READ topic orders", 1),
    ("no audit line\n", "alice may READ topic orders", 1),
])  # fmt: skip
def test_script_stops_what_would_break(
    traffic: str, test: str, code: int, address: str, tmp_path: Path
) -> None:
    for folder in ("acls", "policies", "traffic"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "tools/example/desired.yaml", tmp_path / "acls")
    (tmp_path / "policies" / "access.yaml").write_text(json.dumps({"tests": [test]}))
    (tmp_path / "traffic" / "a.log").write_text(traffic)
    assert JOBS[True] == "pull_request"  # YAML 1.1 reads the key "on" as true
    assert set(JOB["env"]) == {"KAFKA", "CLIENT_PROPERTIES"}
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KAFKA": address,
        "CLIENT_PROPERTIES": "security.protocol=PLAINTEXT\n",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    # The options with which GitHub's runners start bash.
    bash = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", SCRIPT)
    done = run_program(*bash, cwd=tmp_path, env=environment)
    assert done.returncode == code, done.stderr
    assert (tmp_path / "plan.json").exists() is ("Principal" in traffic)
    summary = (tmp_path / "summary.md").read_text()
    assert ("recorded traffic: " in summary) is ("Principal" in traffic)


def test_job_states_the_settings_that_brokers_hide() -> None:
    assert "--super-users 'User:" in SCRIPT
    assert "--allow-everyone-if-no-acl-found false" in SCRIPT


def test_page_shows_the_example() -> None:
    assert BLOCKS[0] == (ROOT / "tools/example/desired.yaml").read_text()


def test_block_of_what_is_managed_is_valid() -> None:
    scope = FORMATS["yaml"].read(BLOCKS[1]).scope
    assert scope is not None
    assert scope.entries[2] == Managed(
        principal="User:alice", resource_type="TOPIC", resource_name="orders", pattern_type="ANY"
    )


def test_job_shows_the_end_of_a_large_plan(tmp_path: Path) -> None:
    """The totals, the warnings and the failed checks are behind the diff."""
    (command,) = re.findall(r"^ +(\{ echo .*\}) >", TEXT, re.MULTILINE)
    (tmp_path / "plan.txt").write_text("+   ALLOW\n" * 20_000 + "totals\n")
    shown = output_of("bash", "-c", command, cwd=tmp_path)
    assert shown.endswith("totals\n```\n")
    assert len(shown) < 65_536, "the limit of GitHub's comments"


def test_every_field_of_a_plan_is_described() -> None:
    fields = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", FIELDS, re.MULTILINE)
    named = {name for cell in fields for name in re.findall(r"`(\w+)`", cell)}
    assert set(Plan.__struct_fields__) <= named
