"""Compare docs/errors.md and docs/command-line.md with the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from authorizerd.cli import import_config, output
from authorizerd.cli import main as command_line
from authorizerd.cli.acls import command as acl_command
from authorizerd.cli.change import applying, planning, releases
from authorizerd.cli.commands import SUBCOMMANDS
from authorizerd.cli.doctor import command as doctor
from authorizerd.cli.grants import command as grants
from authorizerd.cli.log import check_log
from authorizerd.cli.policy import command as policy_command
from authorizerd.cli.transfer import command as transfer
from authorizerd.replay import messages
from tests.support.printed import run_main

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "acl", "actors", "cli", "config", "daemon", "image", "kafka_client", "management", "metadata",
    "protocol", "tls",
)  # fmt: skip
LEVELS = {
    "warning": "warning", "error": "error", "exception": "error", "critical": "critical",
}  # fmt: skip
ARGUMENTS = 2
"""argparse's exit code for invalid arguments."""


def rows(document: str, columns: int, begin: str = "| `") -> list[list[str]]:
    """Return the rows of every table that has ``columns`` columns, without the headings."""
    lines = (ROOT / "docs" / document).read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith(begin)]
    assert all(all(row) for row in cells)
    return [row for row in cells if len(row) == columns]


def names(document: str, columns: int) -> list[str]:
    return [row[0].strip("`") for row in rows(document, columns)]


def exit_code_rows() -> list[tuple[str, int]]:
    """Return each command's codes. The first row is that of all commands but those it names."""
    table = [row for row in rows("command-line.md", 3, "| ") if row[1].isdigit()]
    (others, code, _), *table = table
    assert others.startswith("all but ")
    listed = [
        (name, int(code)) for names, code, _ in table for name in re.findall("`(.*?)`", names)
    ]
    names = {name for name, _ in listed} - {*re.findall("`(.*?)`", others)}
    return listed + [(name, int(code)) for name in names]


def error_classes() -> Iterator[str]:
    """Yield the name of each exception class in the modules named ``*errors.py``."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*errors.py")]
    for path in [*files, *(ROOT / "ops/replay").rglob("errors.py")]:
        if path.name != "error_codes.py":  # Kafka's codes
            body = ast.parse(path.read_text()).body
            classes = [each.name for each in body if isinstance(each, ast.ClassDef)]
            yield from (name for name in classes if name.endswith("Error"))


def logged() -> Iterator[tuple[str, str]]:
    """Yield the format and level of each logging call at WARNING or above, also in ``partial``."""
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
    """The page lists each class once, and no class that does not exist."""
    assert sorted(names("errors.md", 3)) == sorted(set(error_classes()))


def test_every_warning_is_explained() -> None:
    """The page lists each message word for word with its level, and no others."""
    explained = [(row[0].strip("`"), row[1]) for row in rows("errors.md", 4)]
    assert len(explained) == len(set(explained))
    assert set(explained) == set(logged())
    assert len(explained) > 20


def test_every_exit_code_is_explained() -> None:
    """A command's codes are 0, the ``EXIT_`` constants of its module, and argparse's code."""
    documented: dict[str, set[int]] = {}
    for command, code in exit_code_rows():
        documented.setdefault(command, set()).add(code)
    general = {0, command_line.EXIT_FAULT, ARGUMENTS}
    expected = {
        **dict.fromkeys(("serve", "format", "token", "reset-copy", "docs"), general),
        **dict.fromkeys(("backup", "restore", "features", "history", "review", "shell"), general),
        **dict.fromkeys(("explain", "who-can", "what-can", "can"), general | {output.EXIT_DENIED}),
        "test": general | exit_codes(policy_command),
        "verify": general | {messages.EXIT_DENIED, messages.EXIT_NO_EVIDENCE},
        "routes check": general | {output.EXIT_DENIED},
        "routes preset": general,
        "import-config": general | {import_config.EXIT_INCOMPLETE},
        "acls": {0} | exit_codes(acl_command),
        "acls plan": general | exit_codes(planning),
        "acls compare-releases": general | exit_codes(releases),
        **dict.fromkeys(("acls export", "acls import"), general | exit_codes(transfer)),
        "acls apply": general | exit_codes(applying),
        "acls grant": general | exit_codes(grants),
        "acls grants": general,
        "sync": general | {applying.EXIT_BREAKS, applying.EXIT_MOVED},
        "acls remove": general | {applying.EXIT_MOVED},  # a removal has no checks
        "check-log": {0} | exit_codes(check_log),
        "doctor": {0} | exit_codes(doctor),
        "replay": exit_codes(messages),
    }
    assert documented == expected


def exit_codes(module: object) -> set[int]:
    return {value for name, value in vars(module).items() if name.startswith("EXIT_")}


def test_only_the_examined_modules_define_exit_codes() -> None:
    """If another module defines exit codes, ``test_every_exit_code_is_explained`` misses them."""
    pattern = re.compile(r"^EXIT_\w+: Final", re.MULTILINE)
    holders = {
        path.relative_to(ROOT / "cli").as_posix()
        for path in (ROOT / "cli").rglob("*.py")
        if pattern.search(path.read_text())
    }
    assert holders == {
        "acls/command.py", "change/applying.py", "change/planning.py", "change/releases.py",
        "grants/command.py",
        "log/check_log.py", "doctor/command.py", "import_config.py", "main.py", "policy/command.py",
        "output.py", "probe/command.py", "transfer/command.py",
    }  # fmt: skip


def test_every_command_in_the_help_has_exit_codes() -> None:
    """``worker`` has none: the help does not list it, because only the daemon runs it."""
    listed = re.findall(r"^    ([a-z-]+)(?: |$)", run_main("--help").out, re.MULTILINE)
    listed.remove("routes")  # it is only a prefix
    listed += [f"{first} {name}" for first, names in SUBCOMMANDS.items() for name in names]
    assert sorted(listed) == sorted({command for command, _ in exit_code_rows()})
