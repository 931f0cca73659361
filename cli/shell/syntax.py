"""The words of a command of the metadata shell: its name, its flags and its arguments.

The errors are those of Kafka's shell, so that scripts that read them keep working.

Source: Kafka 4.3 Commands; argparse4j 0.7 ArgumentParserImpl.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

_NUMBER: Final = re.compile(r"-[0-9]+", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INTEGERS: Final = range(-(2**31), 2**31)
_HELP: Final = "--help"


class ShellError(Exception):
    """The shell does not accept the command; the text says why."""


class Syntax(NamedTuple):
    """The arguments that a command expects.

    Attributes:
        help: one sentence, for ``help`` and ``man``.
        argument: the name of its arguments; empty if it has none.
        about: the meaning of its arguments. least: how many arguments it needs.
        most: how many it accepts; None if any number.
        is_interactive: True if it is useless outside the interactive shell.
    """

    help: str
    argument: str = ""
    about: str = ""
    least: int = 0
    most: int | None = None
    is_interactive: bool = False

    @property
    def usage(self) -> str:
        """Return the arguments in the form of a usage line."""
        if not self.argument:
            return ""
        many = self.most is None
        if self.least:
            return f" {self.argument} [{self.argument} ...]" if many else f" {self.argument}"
        return f" [{self.argument} [{self.argument} ...]]" if many else f" [{self.argument}]"


class Call(NamedTuple):
    """A command and its arguments. ``asks_help`` is True if a flag asks for help."""

    name: str
    arguments: tuple[str, ...] = ()
    asks_help: bool = False


def parse_call(words: Sequence[str], commands: Mapping[str, Syntax]) -> Call | None:
    """Return the command that the words name, or None if there is none."""
    kept = list(words)
    while kept and not kept[-1]:
        kept.pop()
    if not kept:
        return None
    name = _read_name(kept, commands)
    syntax = commands[name]
    arguments, asks_help = _read_arguments(kept[1:])
    if asks_help:
        return Call(name, asks_help=True)
    if len(arguments) < syntax.least:
        raise ShellError("too few arguments")
    most = (syntax.most if syntax.most is not None else len(arguments)) if syntax.argument else 0
    if len(arguments) > most:
        raise ShellError(f"unrecognized arguments: '{' '.join(arguments[most:])}'")
    return Call(name, tuple(arguments))


def _read_name(words: Sequence[str], commands: Iterable[str]) -> str:
    first = words[0]
    if first == "--":
        raise _unrecognized(words[1]) if len(words) > 1 else ShellError("too few arguments")
    if _is_flag(first):
        raise _unrecognized(first)
    if first in commands:
        return first
    meant = sorted(name for name in commands if name.startswith(first))
    if len(meant) > 1:
        raise ShellError(f"ambiguous command: {first} could match {', '.join(meant)}")
    if meant:
        raise ShellError(f"invalid choice: '{first}': did you mean '{meant[0]}'?")
    choices = ", ".join(f"'{name}'" for name in sorted(commands))
    raise ShellError(f"invalid choice: '{first}' (choose from {choices})")


def _read_arguments(words: Sequence[str]) -> tuple[list[str], bool]:
    """Return the arguments, and whether a flag asks for help, which ends parsing."""
    arguments: list[str] = []
    for position, word in enumerate(words):
        if word == "--":
            return arguments + list(words[position + 1 :]), False
        if not _is_flag(word):
            arguments.append(word)
            continue
        flag, has_value, value = word.partition("=")
        if not (word.startswith("-h") or (len(flag) > len("--") and _HELP.startswith(flag))):
            raise _unrecognized(word)
        if has_value:
            raise ShellError(f"argument -h/--help: ignore implicit argument '{value}'")
        return [], True
    return arguments, False


def _is_flag(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word)


def _unrecognized(word: str) -> ShellError:
    return ShellError(f"unrecognized arguments: '{word}'")


def parse_integer(text: str, argument: str) -> int:
    if _INTEGER.fullmatch(text) and len(text) < 16 and int(text) in _INTEGERS:
        return int(text)
    raise ShellError(
        f"argument {argument}: could not convert '{text}' to Integer (For input string: \"{text}\")"
    )
