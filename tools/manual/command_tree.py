"""Build one parser of the whole command line, for the manual page and the completions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import shtab

from authorizerd.acl.model import OPERATIONS, RESOURCE_TYPES, Operation, ResourceType
from authorizerd.cli import main as command_line
from authorizerd.cli.acls.arguments import FLAGS, Argument
from authorizerd.cli.commands import ACLS_COMMANDS, add_commands
from authorizerd.cli.docs.pages import page_paths
from authorizerd.cli.doctor import command as doctor
from authorizerd.cli.log import check_log
from authorizerd.cli.log.format import METADATA_VERSIONS
from authorizerd.cli.program.command_parser import LazyParser
from authorizerd.cli.routes.preset import read_presets
from authorizerd.replay import cli as replay
from authorizerd.replay.options import parse_file, parse_path

_PATHS: Final = frozenset(("acls", "command-config", "log-dir"))
"""Arguments that name a file but are read as text; all others that name a file have a type."""
_TYPES: Final = (Path, parse_file, parse_path)

_WORDS: Final[Mapping[str, Iterable[str]]] = {
    "operation": [Operation(each).name for each in OPERATIONS],
    "resource-pattern-type": ["LITERAL", "PREFIXED", "ANY", "MATCH"],
    "resource_type": [ResourceType(each).name for each in RESOURCE_TYPES],
    "metadata": METADATA_VERSIONS,
    "release_version": METADATA_VERSIONS,
    "page": page_paths(),
}
"""The words of arguments that are read as text."""
_PRESETS: Final = "authorizerd routes preset"


class UnsafeTextError(ValueError):
    """A help text that a shell or troff would partly read as syntax."""


def command_tree() -> argparse.ArgumentParser:
    """Return a parser with every command and flag; nothing is parsed with it.

    Some commands parse their own arguments. Here their parsers replace the placeholders of
    ``cli.main``. Internal commands, which have no help text, are left out.

    Raises:
        UnsafeTextError: a help text cannot be quoted for all shells and troff.
    """
    parser = command_line.new_parser()
    commands = _subcommands(parser)
    commands.update(
        {
            "acls": _acls_parser(),
            "check-log": check_log.new_parser(),
            "doctor": doctor.new_parser(),
            "replay": replay.new_parser(),
        }
    )
    prepare(parser)
    return parser


def prepare(parser: argparse.ArgumentParser) -> None:
    """Remove internal commands, check all texts, and mark the arguments that name files."""
    if isinstance(parser, LazyParser):
        parser.complete()
    for action in parser._actions:
        check_text(action.help or "")
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name in [name for name in action.choices if not texts.get(name)]:
                del action.choices[name]
            for name, inner in action.choices.items():
                check_text(texts[name])
                inner.description = None  # the command's help says the same
                prepare(inner)
        elif action.type in _TYPES or action.dest in _PATHS:
            vars(action)["complete"] = shtab.FILE


def offer_words(command: str, action: argparse.Action) -> None:
    """Set the choices of a command's argument for completion, where the parser has none."""
    if action.dest in _WORDS:
        action.choices = [*_WORDS[action.dest]]
    elif command == _PRESETS and action.dest == "name":
        action.choices = [*read_presets()]


def check_text(text: str) -> None:
    """Check that a text can be quoted.

    fish reads a backslash between single quotes. troff reads a line that begins with a dot or a
    quote as a request.

    Raises:
        UnsafeTextError: the text cannot be quoted.
    """
    if "\\" in text or text.startswith((".", "'")):
        raise UnsafeTextError(
            f"help text {text!r}: expected no backslash, and no dot or quote at the beginning"
        )


def each_command(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, list[argparse.Action]]]:
    """Yield each command's words, as one string, and its arguments."""
    yield (
        parser.prog,
        [
            action
            for action in parser._actions
            if not isinstance(action, argparse._SubParsersAction)
        ],
    )
    for inner in _subcommands(parser).values():
        yield from each_command(inner)


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            choices: dict[str, argparse.ArgumentParser] = action.choices
            return choices
    return {}


def _acls_parser() -> argparse.ArgumentParser:
    """Return a parser of the flags of ``acls``; the command itself does not use it."""
    parser = argparse.ArgumentParser(prog="authorizerd acls", add_help=False)
    for name, flag in FLAGS.items():
        if flag.argument is Argument.NONE:
            parser.add_argument(f"--{name}", action="store_true", help=flag.help)
            continue
        parser.add_argument(
            f"--{name}",
            action="append",
            dest=name,
            metavar="VALUE",
            nargs="?" if flag.argument is Argument.OPTIONAL else None,
            help=flag.help,
        )
    add_commands(parser, ACLS_COMMANDS)
    return parser
