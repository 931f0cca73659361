"""The files that are made of the parsers. They are made here since nothing but tests may know both
the daemon's parsers and what stands around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from authorizerd.cli import check_log
from authorizerd.cli import main as command_line
from authorizerd.cli.acls.arguments import FLAGS
from authorizerd.cli.doctor import command as doctor
from authorizerd.replay import command_line as replay
from ops.manual.completion import bash_completion, fish_completion, zsh_completion
from ops.manual.page import man_page
from ops.manual.surface import Command, Option, commands_of

ROOT: Final = Path(__file__).parents[3]
WORDS: Final = ("authorizerd",)


def all_commands() -> list[Command]:
    """Return every command: those with parsers of their own in the places of their names."""
    own = {
        "acls": [_acls()],
        **{
            name: list(commands_of(parser, (*WORDS, name)))
            for name, parser in (
                ("check-log", check_log.new_parser()),
                ("doctor", doctor.new_parser()),
                ("replay", replay.new_parser()),
            )
        },
    }
    commands = []
    for command in commands_of(command_line.new_parser(), WORDS):
        commands += own.get(command.words[-1], [command])
    return commands


def _acls() -> Command:
    options = [
        Option(names=(f"--{name}",), value=flag.argument.value.strip(" []"), help=flag.help)
        for name, flag in FLAGS.items()
    ]
    text = "list, add and remove ACLs, with the flags of kafka-acls"
    return Command(words=(*WORDS, "acls"), help=text, options=tuple(options))


def exit_codes() -> list[list[str]]:
    """Return the rows of docs/exit-codes.md, which a test holds."""
    lines = (ROOT / "docs/exit-codes.md").read_text().splitlines()
    rows = [line.strip("| ").replace("`", "").split(" | ") for line in lines]
    return [row for row in rows if len(row) == 3 and row[1].isdigit()]


def written() -> Mapping[str, str]:
    """Return each file's path in the project, and its content."""
    commands = all_commands()
    return {
        "docs/authorizerd.1": man_page(commands, exit_codes()),
        "ops/completion/authorizerd.bash": bash_completion(commands),
        "ops/completion/authorizerd.zsh": zsh_completion(commands),
        "ops/completion/authorizerd.fish": fish_completion(commands),
    }
