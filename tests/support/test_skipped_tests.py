"""A skipped test fails in CI, unless the list permits it."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support import skipped_tests
from tests.support.missing_packages import PACKAGES, missing_packages, read_skips
from tests.support.named_tests import ROOT
from tests.support.programs import run_program

MODULE = """
import pytest

@pytest.mark.skipif(True, reason={reason!r})
def test_marked() -> None: ...

def test_skipped_while_it_runs() -> None:
    pytest.skip({reason!r})

@pytest.fixture
def tool() -> None:
    pytest.skip({reason!r})

def test_without_its_tool(tool: None) -> None: ...

@pytest.mark.xfail(strict=True)
def test_expected_to_fail() -> None:
    assert False
"""
SKIPPED_AS_A_WHOLE = "import pytest\npytest.importorskip('no_such_module', reason={reason!r})\n"


def run(folder: Path, module: str, required: str | None) -> tuple[int, str]:
    """Return the exit code and the output of the tests of ``module``."""
    (folder / "test_it.py").write_text(module)
    # Without hypothesis and trio, it starts in half the time.
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop(skipped_tests.REQUIRE_TOOLS, None)
    if required is not None:
        environment[skipped_tests.REQUIRE_TOOLS] = required
    plugins = ("-p", "tests.support.skipped_tests", "-p", "no:cacheprovider")
    words = ("-m", "pytest", "-c", os.devnull, *plugins, "test_it.py")
    done = run_program(sys.executable, *words, cwd=folder, env=environment)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("reason", "required", "failed"),
    [
        ("no such tool", "1", 3),
        ("no such tool", None, 0),
        ("helm is not installed: build it", "packages", 0),
        ("zsh is not installed", "1", 0),
        ("zsh is not installed", "packages", 3),
    ],
)
def test_only_listed_reasons_are_permitted(
    tmp_path: Path, reason: str, required: str | None, failed: int
) -> None:
    code, printed = run(tmp_path, MODULE.format(reason=reason), required)
    last = printed.splitlines()[-1]
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", last)}
    assert code == (1 if failed else 0), printed
    # A test that is skipped before it runs is an error.
    assert counts.get("failed", 0) + counts.get("errors", 0) == failed
    assert counts.get("skipped", 0) == 3 - failed
    assert counts["xfailed"] == 1
    if failed:
        assert f"tests/skips.toml does not permit it: {reason}" in printed


def test_module_that_is_skipped_as_a_whole_fails(tmp_path: Path) -> None:
    module = SKIPPED_AS_A_WHOLE.format(reason="no such library")
    code, printed = run(tmp_path, module, "1")
    assert code == pytest.ExitCode.INTERRUPTED
    assert "tests/skips.toml does not permit it: no such library" in printed
    assert run(tmp_path, module, None)[0] == pytest.ExitCode.NO_TESTS_COLLECTED


def test_each_row_says_why_or_how_to_install() -> None:
    skips = read_skips()
    assert {frozenset(row) for row in skips["permitted"]} == {frozenset(("reason", "why"))}
    expected = {frozenset(("reason", "program", "package"))}
    assert {frozenset(row) for row in skips[PACKAGES]} == expected
    assert skipped_tests.is_permitted(skips[PACKAGES][0]["reason"], "1")


def test_missing_packages_are_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == "promtool" else name)
    assert missing_packages() == ["prometheus"]
