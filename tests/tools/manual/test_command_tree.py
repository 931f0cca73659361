"""The parser of the whole command line."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tools.manual.command_tree import UnsafeTextError, command_tree, each_command, prepare


def test_tree_has_every_command_with_its_flags() -> None:
    commands = dict(each_command(command_tree()))
    assert list(commands) == [
        "authorizerd",
        *(f"authorizerd {name}" for name in ("serve", "format", "token", "import-config")),
        *(f"authorizerd {name}" for name in ("reset-copy", "backup", "restore")),
        *("authorizerd features", "authorizerd acls", "authorizerd acls plan"),
        *("authorizerd acls apply", "authorizerd acls remove", "authorizerd acls compare-releases"),
        *("authorizerd acls export", "authorizerd acls import"),
        "authorizerd check-log",
        *("authorizerd doctor", "authorizerd replay"),
        *(f"authorizerd replay {name}" for name in ("ingest", "whatif", "usage", "load", "report")),
        "authorizerd replay package",
        *(f"authorizerd {name}" for name in ("explain", "who-can", "what-can", "can", "test")),
        *(f"authorizerd {name}" for name in ("history", "shell")),
    ]
    flags = {flag for action in commands["authorizerd doctor"] for flag in action.option_strings}
    assert flags == {"-h", "--help", "--config", "--override", "--json"}
    assert "--allow-principal" in {each.option_strings[0] for each in commands["authorizerd acls"]}
    assert not commands["authorizerd check-log"][1].option_strings


def test_internal_commands_are_removed_and_paths_are_marked() -> None:
    parser = argparse.ArgumentParser(prog="it")
    commands = parser.add_subparsers()
    commands.add_parser("internal")
    run = commands.add_parser("run", help="run it", add_help=False)
    run.add_argument("--file", type=Path)
    run.add_argument("--name")
    prepare(parser)
    (_, (name, actions)) = each_command(parser)
    assert name == "it run"
    assert [hasattr(action, "complete") for action in actions] == [True, False]


@pytest.mark.parametrize("text", ["a\\fBb", ".so /etc/passwd", "'quoted' first"])
@pytest.mark.parametrize("is_command", [False, True])
def test_text_that_cannot_be_quoted_is_rejected(text: str, is_command: bool) -> None:
    parser = argparse.ArgumentParser()
    inner = parser.add_subparsers().add_parser("run", help=text if is_command else "run it")
    inner.add_argument("--flag", help="a flag" if is_command else text)
    with pytest.raises(UnsafeTextError, match="expected no backslash"):
        prepare(parser)
