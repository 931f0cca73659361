"""All that is installed is pinned and hashed, and the linter's security rules are in force."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.named_tests import ROOT

LOCKS: Final = sorted(ROOT.glob("requirements*.lock"))
INSTALLERS: Final = (
    *("Makefile", ".ci/run", ".ci/nightly", "ops/container/Containerfile"),
    *("ops/container/build.sh", "tools/release/bundle.py"),
)
"""The files whose commands install or download something."""
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

PRODUCT: Final = (
    *("acl", "actors", "cli", "config", "daemon", "image", "kafka_client", "management"),
    *("metadata", "protocol", "tls", "ops", "tools", "clients/python/src"),
)
PINNED: Final = re.compile(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==[0-9][^ ]*( ; .+)? \\")
HASH: Final = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def test_every_requirements_file_has_a_lock() -> None:
    names = {path.stem for path in ROOT.glob("requirements*.in")}
    assert {path.stem for path in LOCKS} == names
    assert len(names) == 11


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_locked_package_has_a_hash(lock: Path) -> None:
    """A line is a version with its hashes, or a comment. None names an index or an address."""
    lines = [line for line in lock.read_text().splitlines() if not re.match(r" *#", line)]
    assert len(lines) > 4
    has_hash = True
    for line in lines:
        if HASH.fullmatch(line):
            has_hash = True
        else:
            assert has_hash, "the package before this line has no hash"
            assert PINNED.fullmatch(line), line
            has_hash = False
    assert has_hash


@pytest.mark.parametrize("name", INSTALLERS)
def test_nothing_is_installed_without_a_hash(name: str) -> None:
    """pip gets a lock with hashes, or no index at all. Other downloads have an exact version."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    variable = re.search(r"^INSTALL := (.*)$", text, re.MULTILINE)
    if variable is not None:
        text = text.replace("$(INSTALL)", variable[1]).replace(variable[0], "")
    for command in text.splitlines():
        if re.search(r"pip\W+(install|wheel|download)", command) and not command.startswith("#"):
            assert "--require-hashes" in command or "--no-index" in command, command
        if "go install" in command:
            assert re.search(r"@v\d+\.\d+\.\d+$", command), command
        assert not re.search(r"\b(curl|wget|npm (install|ci)|apt(-get)? install)\b", command), (
            command
        )


def test_ci_runs_only_targets_of_the_makefile() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    (defaults,) = re.findall(r"set -- ([a-z -]+);", script)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(defaults.split()) == {"check", "docs", "test", "test-replay"} <= targets
    # It installs what the locks have, and by .ci/tools Debian's packages, which apt verifies.
    commands = re.findall(r"^(?:\w+=\$\()?(make|\.ci/\w+)\b", script, re.MULTILINE)
    assert commands == [".ci/tools", "make", "make"]
    # A command of a workflow is one of these scripts, or such a target.
    for workflow in WORKFLOWS:
        for command in re.findall(r"^ +- run: (.*)$", workflow.read_text(), re.MULTILINE):
            assert re.fullmatch(r"\.ci/(run|nightly) \S+ matrix\.\w+ }}|make [a-z-]+", command)


@pytest.mark.parametrize(
    "path", [*WORKFLOWS, *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_actions_are_pinned_to_a_commit(path: Path) -> None:
    """A tag of an action can be moved; a comment says which version the commit is."""
    for action in re.findall(r"^ +(?:- )?uses: (.*)$", path.read_text(), re.MULTILINE):
        assert re.fullmatch(r"[a-z-]+/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_security_rules_are_in_force() -> None:
    """Ruff's rules S are those of bandit."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert "S" in lint["select"]
    assert [rule for rule in lint["ignore"] if rule.startswith("S")] == ["S101"]
    relaxed = {place for place, rules in lint["per-file-ignores"].items() if set(rules) & {"S"}}
    assert relaxed == {"tests/**"}


def suppressed() -> Iterator[tuple[str, str]]:
    """Yield each place in the product that suppresses a security rule, and its line."""
    for package in PRODUCT:
        for path in (ROOT / package).rglob("*.py"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if re.search(r"# *(noqa:.*\bS\d|nosec)", line):
                    yield f"{path.relative_to(ROOT)}:{number}", line


def test_suppressed_security_findings_have_reasons() -> None:
    places = dict(suppressed())
    assert len(places) > 10
    for place, line in places.items():
        assert re.search(r"# noqa: [A-Z]+\d+(, [A-Z]+\d+)* - \S", line), place
