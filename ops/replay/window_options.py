"""The options for the window of recorded traffic that a command evaluates."""

from __future__ import annotations

import argparse
import math
from contextlib import suppress
from typing import Final

from authorizerd.cli.program.flag_values import parse_duration, parse_moment

_DAY_MS: Final = 86_400_000


def add_window_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--lookback`` and ``--since``."""
    window = parser.add_mutually_exclusive_group()
    window.add_argument(
        "--lookback",
        type=_parse_lookback,
        metavar="TIME",
        help="evaluate only the time before the last event, such as 30d or 12h; a number is in "
        "days; default all",
    )
    window.add_argument(
        "--since",
        type=parse_moment,
        metavar="TIME",
        help="evaluate only events since a time in ISO 8601, in UTC unless it has a zone",
    )


def _parse_lookback(text: str) -> float:
    """Return a number of days."""
    with suppress(argparse.ArgumentTypeError):
        return parse_duration(text) * 1000 / _DAY_MS
    with suppress(ValueError):
        days = float(text)
        if 0 < days < math.inf:
            return days
    raise argparse.ArgumentTypeError(
        f"expected a time such as 30d or 12h, or a number of days above 0, found {text!r}"
    )
