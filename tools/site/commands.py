"""The page of all commands and options, generated from the command line's parsers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Final

from tools.manual.command_tree import command_tree

_INTRODUCTION: Final = """\
# Commands

Look up a command or an option here. `authorizerd COMMAND --help` prints the same, and
[exit codes](command-line.md#exit-codes) has what each command's exit code means.
"""
_CODE: Final = re.compile(r"(`[^`]*`)")
_SYNTAX: Final = re.compile(r"([*_<\[\\])")


def commands_page() -> str:
    """Return the page as Markdown."""
    return "\n".join([_INTRODUCTION, *_sections(command_tree(), "")])


def _sections(parser: argparse.ArgumentParser, summary: str) -> Iterator[str]:
    """Yield the lines about a command, and then those about the commands below it."""
    yield f"## `{parser.prog}`\n"
    if summary:
        yield f"{summary[0].upper()}{escape(summary[1:])}.\n"
    below = None
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = action
        elif action.help != argparse.SUPPRESS:
            yield _item(action)
    yield ""
    if below is not None:
        summaries = {choice.dest: choice.help or "" for choice in below._choices_actions}
        for name, inner in below.choices.items():
            yield from _sections(inner, summaries[name])


def _item(argument: argparse.Action) -> str:
    """Return one line about an argument: its names, its value and its help."""
    names = argument.option_strings or [""]
    value = "" if argument.nargs == 0 else f" {_value(argument)}"
    shown = ", ".join(f"`{(name + value).strip()}`" for name in names)
    return f"- {shown}: {escape((argument.help or '') % vars(argument))}".removesuffix(": ")


def _value(argument: argparse.Action) -> str:
    if argument.metavar is not None:
        metavar = argument.metavar
        shown = metavar if isinstance(metavar, str) else " ".join(metavar)
    elif argument.choices is not None:
        shown = "|".join(map(str, argument.choices))
    else:
        shown = argument.dest.upper().replace("_", "-")
    return f"{shown}…" if argument.nargs in ("*", "+") else shown


def escape(text: str) -> str:
    """Return a text that Markdown shows literally, except for code in backticks."""
    parts = _CODE.split(text)
    return "".join(part if part[:1] == "`" else _SYNTAX.sub(r"\\\1", part) for part in parts)
