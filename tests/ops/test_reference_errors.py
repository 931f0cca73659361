"""The documents of errors and exit codes, held against the code that they speak of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizerd.cli import check_log
from authorizerd.cli import explain as explain_command
from authorizerd.cli import main as command_line
from authorizerd.cli.acls import command as acl_command
from authorizerd.cli.doctor import command as doctor
from authorizerd.cli.main import main
from authorizerd.replay import messages

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "acl",
    "actors",
    "cli",
    "config",
    "daemon",
    "image",
    "kafka_client",
    "metadata",
    "protocol",
)
LEVELS = {
    "warning": "warning", "error": "error", "exception": "error", "critical": "critical",
}  # fmt: skip
ARGUMENTS = 2
"""argparse's own."""


def rows(document: str, columns: int) -> list[list[str]]:
    """Return the cells of every table with so many columns, heads left out."""
    lines = (ROOT / "docs" / document).read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    assert all(all(row) for row in cells)
    return [row for row in cells if len(row) == columns]


def names(document: str, columns: int) -> list[str]:
    return [row[0].strip("`") for row in rows(document, columns)]


def error_classes() -> Iterator[str]:
    """Yield the class names of every module of errors."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*errors.py")]
    for path in [*files, *(ROOT / "ops/replay").rglob("errors.py")]:
        if path.name != "error_codes.py":  # Kafka's codes
            body = ast.parse(path.read_text()).body
            classes = [each.name for each in body if isinstance(each, ast.ClassDef)]
            yield from (name for name in classes if name.endswith("Error"))


def logged() -> Iterator[tuple[str, str]]:
    """Yield format and level of each call that logs at WARNING or above, partial ones too."""
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                words = [node.func, *node.args]
                is_partial = isinstance(node.func, ast.Name) and node.func.id == "partial"
                yield from _logged_by(words[1:] if is_partial else words)


def _logged_by(words: list[ast.expr]) -> Iterator[tuple[str, str]]:
    match words:
        case [ast.Attribute(value=logger, attr=attribute), ast.Constant(value=str(text)), *_]:
            if attribute in LEVELS and "logger" in ast.unparse(logger).lower():
                yield text, LEVELS[attribute]
        case _:
            pass


def test_every_error_is_explained() -> None:
    """Each class once, and none that is not there."""
    assert sorted(names("errors.md", 3)) == sorted(set(error_classes()))


def test_every_warning_is_explained() -> None:
    """Each message to the letter, with its level, and none that nobody logs."""
    explained = [(row[0].strip("`"), row[1]) for row in rows("errors.md", 4)]
    assert len(explained) == len(set(explained))
    assert set(explained) == set(logged())
    assert len(explained) > 20


def test_every_exit_code_is_explained() -> None:
    """The codes of each command are those of its module's constants, success and argparse's."""
    documented: dict[str, set[int]] = {}
    for command, code, _ in rows("exit-codes.md", 3):
        documented.setdefault(command.strip("`"), set()).add(int(code))
    general = {0, command_line.EXIT_FAULT, ARGUMENTS}
    expected = {
        **dict.fromkeys(("serve", "format", "token"), general),
        "explain": general | {explain_command.EXIT_DENIED},
        "acls": {0} | exit_codes(acl_command),
        "check-log": {0} | exit_codes(check_log),
        "doctor": {0} | exit_codes(doctor),
        "replay": exit_codes(messages),
    }
    assert documented == expected


def exit_codes(module: object) -> set[int]:
    return {value for name, value in vars(module).items() if name.startswith("EXIT_")}


def test_exit_codes_stand_where_they_are_collected_from() -> None:
    """A module that begins to have codes of its own shows up here."""
    pattern = re.compile(r"^EXIT_\w+: Final", re.MULTILINE)
    holders = {
        path.relative_to(ROOT / "cli").as_posix()
        for path in (ROOT / "cli").rglob("*.py")
        if pattern.search(path.read_text())
    }
    assert holders == {
        "acls/command.py",
        "check_log.py",
        "doctor/command.py",
        "explain.py",
        "main.py",
    }


def test_the_commands_are_those_of_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """None is forgotten; ``worker`` is nobody's but the daemon's."""
    with pytest.raises(SystemExit):
        main(["--help"])
    listed = re.findall(r"^    ([a-z-]+)(?: |$)", capsys.readouterr().out, re.MULTILINE)
    assert sorted(listed) == sorted(set(names("exit-codes.md", 3)))
