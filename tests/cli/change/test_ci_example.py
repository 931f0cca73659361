"""The job of GitHub Actions in docs/change.md: its script, run against a real daemon."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.daemon_process import ROOT, running
from tools.example.log import write_log

PAGE = ROOT / "docs/change.md"
LINE = (
    "[2026-11-21 16:26:26,966] DEBUG Principal = {} is Allowed operation = {} from host = "
    "10.0.0.7 on resource = Topic:LITERAL:{} for request = Fetch with resourceRefCount = 1 "
    "(kafka.authorizer.logger)\n"
)
BY_ALICE = LINE.format("User:alice", "READ", "orders")
BY_ROBOT = LINE.format("User:robot", "WRITE", "status")  # the plan takes this away


def job(page: Path) -> dict[str, Any]:
    """Return the page's only job."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    (text,) = (block for block in blocks if "\njobs:\n" in block)
    workflow = yaml.safe_load(text)
    assert workflow[True] == "pull_request"  # YAML 1.1 reads the key "on" as true
    (found,) = workflow["jobs"].values()
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a daemon with the ACLs of the example."""
    folder = tmp_path_factory.mktemp("daemon")
    write_log(folder / "log")
    with running(folder, folder / "log", super_users="User:ANONYMOUS") as daemon:
        yield daemon.ready["listeners"]["PLAINTEXT"]


@pytest.mark.parametrize(
    ("traffic", "test", "code"),
    [
        (BY_ALICE, "alice may READ topic orders", 0),
        (BY_ALICE, "nobody but $super_users may ALTER the cluster", 0),
        (BY_ALICE + BY_ROBOT, "alice may READ topic orders", 1),
        (BY_ALICE, "zoe may READ topic orders", 1),
        ("no audit line\n", "alice may READ topic orders", 1),
    ],
)
def test_script_stops_what_would_break(
    traffic: str, test: str, code: int, address: str, tmp_path: Path
) -> None:
    for folder in ("acls", "policies", "traffic"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "tools/example/desired.yaml", tmp_path / "acls")
    (tmp_path / "policies" / "access.yaml").write_text(json.dumps({"tests": [test]}))
    (tmp_path / "traffic" / "a.log").write_text(traffic)
    found = job(PAGE)
    assert set(found["env"]) == {"KAFKA", "CLIENT_PROPERTIES"}
    (script,) = [step["run"] for step in found["steps"] if "acls plan" in step.get("run", "")]
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "KAFKA": address,
        "CLIENT_PROPERTIES": "security.protocol=PLAINTEXT\n",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    # The options with which GitHub's runners start bash.
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert (tmp_path / "plan.json").exists() is ("Principal" in traffic)
    summary = (tmp_path / "summary.md").read_text()
    assert ("recorded traffic: " in summary) is ("Principal" in traffic)


def test_job_states_the_settings_that_brokers_hide() -> None:
    (script,) = [step["run"] for step in job(PAGE)["steps"] if "acls plan" in step.get("run", "")]
    assert "--super-users 'User:" in script
    assert "--allow-everyone-if-no-acl-found false" in script
