"""Short ways to add a flag to a parser, or to a group of its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TypeAlias

Flags: TypeAlias = argparse._ActionsContainer
"""A parser, or a group of its arguments."""


def add_switch(parser: Flags, flag: str, help: str, **settings: Any) -> None:  # noqa: ANN401 - as argparse
    parser.add_argument(flag, action="store_true", help=help, **settings)


def add_value(
    parser: Flags,
    flag: str,
    parse: Callable[[str], object],
    metavar: str,
    help: str,
    **settings: Any,  # noqa: ANN401 - as argparse
) -> None:
    """Add a flag whose text is parsed. Without the flag, it is None, or the default."""
    parser.add_argument(flag, type=parse, metavar=metavar, help=help, **settings)
