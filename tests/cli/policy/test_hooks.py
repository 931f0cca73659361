"""The hooks for pre-commit, with the configuration of docs/policy-tests.md."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.programs import run_program

ROOT = Path(__file__).parents[3]
HOOKS = {each["id"]: each for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
PAGE = (ROOT / "docs/policy-tests.md").read_text().partition("## With pre-commit\n")[2]
(CONFIGURATION,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(CONFIGURED,) = yaml.safe_load(CONFIGURATION)["repos"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("acls.yaml", "desired.yaml"):
        shutil.copy(ROOT / "tools/example" / name, tmp_path)
    return tmp_path


def test_page_configures_every_hook() -> None:
    assert [each["id"] for each in CONFIGURED["hooks"]] == [*HOOKS]


@pytest.mark.parametrize("configured", CONFIGURED["hooks"], ids=lambda each: each["id"])
def test_hook_fails_if_a_policy_test_fails(configured: dict[str, list[str]], folder: Path) -> None:
    hook = HOOKS[str(configured["id"])]
    for file in ("access.yaml", "acls.yaml"):
        assert re.search(hook["files"], file)
    command = [*shlex.split(hook["entry"]), *configured["args"]]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for assertion, passes in (("alice may READ", True), ("alice may not READ", False)):
        (folder / "access.yaml").write_text(f"tests: [{assertion} topic orders]\n")
        done = run_program(*command, cwd=folder, env={**os.environ, "PATH": path})
        assert (done.returncode == 0) is passes, done.stderr
        assert (" 1 passed, 0 failed" in done.stdout) is passes
