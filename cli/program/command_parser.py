"""The parser of command-line arguments. It reports an error in two lines: the error, then a hint.

**Invariant:** a command without help is internal, and no error suggests it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

EXIT_USAGE = 2

_MISSING: Final = "the following arguments are required"
_SECRET_OPTIONS: Final = frozenset(("--add-scram", "--conf", "--override"))
_HIDDEN: Final = "quote each argument; see --help"
"""Shown instead of words that may be part of a password."""


class CommandParser(argparse.ArgumentParser):
    """A parser that reports an error in one line, and names ``--help`` in a second line.

    Its subparsers, from ``add_subparsers``, are of the same class.
    """

    exit_code = EXIT_USAGE
    _words: Sequence[str] = ()

    def parse_known_args(self, words: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - as argparse
        self._words = sys.argv[1:] if words is None else words
        return super().parse_known_args(words, namespace)

    def _list_unknown_options(self) -> list[str]:
        names = [word.partition("=")[0] for word in self._words if word.startswith("--")]
        known = self._option_string_actions
        return [name for name in names if not any(each.startswith(name) for each in known)]

    def error(self, message: str) -> NoReturn:
        """Exit with ``exit_code``; only ``--help`` lists the options.

        An unknown option is reported rather than a missing argument: a typo may be the cause.
        """
        unknown = self._list_unknown_options() if message.startswith(_MISSING) else ()
        if unknown:
            is_secret = not _SECRET_OPTIONS.isdisjoint(self._words)
            message = f"unrecognized arguments: {_HIDDEN if is_secret else ' '.join(unknown)}"
        self.exit(
            self.exit_code, f"{self.prog}: {message}\nRun '{self.prog} --help' for the options.\n"
        )

    def parse_words(self, words: Sequence[str] | None) -> argparse.Namespace:
        """Return the arguments, or exit and name the unknown words.

        If an argument may be secret, the words are not shown: they may be part of a password that
        the shell split.
        """
        parsed: argparse.Namespace
        parsed, unknown = self.parse_known_args(words)
        if unknown:
            is_secret = hasattr(parsed, "add_scram") or any(
                getattr(parsed, name, None) for name in ("override", "conf")
            )
            # Commands that answer questions set ``refuse``, whose error names the command. They may
            # set ``advice`` for flags that belong to other commands.
            refuse = getattr(parsed, "refuse", self.error)
            flag = unknown[0].partition("=")[0]
            if flag in getattr(parsed, "advice", ()):
                refuse(f"{flag}: {parsed.advice[flag]}")
            shown = _HIDDEN if is_secret else " ".join(unknown)
            if hasattr(parsed, "topic") and not unknown[0].startswith("-"):
                shown += ": name a resource with its flag, such as --topic NAME"
            if not is_secret and all(map(os.path.lexists, unknown)):
                shown += ": if the shell expanded a *, quote it"
            refuse(f"unrecognized arguments: {shown}")
        return parsed

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401 - as argparse
        if not isinstance(action, argparse._SubParsersAction) or value in action.choices:
            super()._check_value(action, value)
            return
        # argparse has no public way to distinguish commands with help from internal ones.
        names = [choice.dest for choice in action._choices_actions if choice.help]
        close = get_close_matches(value, names, n=1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        known = ", ".join(names)
        # Pass None: otherwise argparse would put the argument's name before the text.
        raise argparse.ArgumentError(
            None, f"unknown command '{value}'{meant}: expected one of {known}"
        )


class CheckParser(CommandParser):
    """A parser that exits with 1 for invalid arguments, because 2 means that faults were found."""

    exit_code = 1


class LazyParser(CommandParser):
    """The parser of one command; its arguments are added when the command is chosen."""

    def __init__(
        self,
        *,
        add_arguments: Callable[[argparse.ArgumentParser], None] | None = None,
        **settings: Any,  # noqa: ANN401 - those of argparse
    ) -> None:
        super().__init__(**settings)
        self._add_arguments = add_arguments

    def complete(self) -> None:
        add_arguments, self._add_arguments = self._add_arguments, None
        if add_arguments is not None:
            add_arguments(self)

    def parse_known_args(self, *words: Any, **settings: Any) -> Any:  # noqa: ANN401 - as argparse
        self.complete()
        return super().parse_known_args(*words, **settings)
