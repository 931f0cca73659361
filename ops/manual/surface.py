"""What can be typed: every command with its options, as values that pages are made of.

**Invariant:** it is read from the parsers that read the command line, so nothing is said that is
not so.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A flag, or an operand, which has no ``names``; ``value`` is empty where none follows."""

    names: tuple[str, ...]
    value: str
    help: str
    choices: tuple[str, ...] = ()
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Describe a command: ``words`` precede the options, ``commands`` are its subcommands."""

    words: tuple[str, ...]
    help: str
    options: tuple[Option, ...] = ()
    commands: tuple[str, ...] = ()


def commands_of(
    parser: argparse.ArgumentParser, words: tuple[str, ...], help: str = ""
) -> Iterator[Command]:
    """Yield the parser's command, then those below it; one without help is not for typing."""
    below = {}
    options = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            listed = {each.dest: each.help or "" for each in action._choices_actions}
            below = {name: (action.choices[name], text) for name, text in listed.items() if text}
        else:
            options.append(_option(parser, action))
    yield Command(
        words=words,
        help=help or parser.description or "",
        options=tuple(options),
        commands=tuple(below),
    )
    for name, (inner, text) in below.items():
        yield from commands_of(inner, (*words, name), text)


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> Option:
    formatter = parser._get_formatter()
    choices = tuple(map(str, action.choices or ()))
    takes_value = action.nargs != 0
    value = action.metavar or ("|".join(choices) if choices else action.dest.upper())
    return Option(
        names=tuple(action.option_strings),
        value=str(value) if takes_value else "",
        help=formatter._expand_help(action) if action.help else "",
        choices=choices,
        is_required=action.required,
    )
