"""Numbers as options give them: each within its bounds, or refused by name."""

from __future__ import annotations

import argparse
import math

NAMES_MAX_LIMIT = 100_000


def ratio(text: str) -> float:
    """Return a number from 0 to 1."""
    number = _number(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return number


def days(text: str) -> float:
    """Return a number of days above 0."""
    number = _number(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days above 0")
    return number


def names_max(text: str) -> int:
    """Return how many names may be listed: from 0 to ``NAMES_MAX_LIMIT``."""
    number = _number(text)
    if not (number.is_integer() and 0 <= number <= NAMES_MAX_LIMIT):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a whole number from 0 to {NAMES_MAX_LIMIT}"
        )
    return int(number)


def _number(text: str) -> float:
    """Return the number, or one that is within no bounds."""
    try:
        return float(text)
    except ValueError:
        return math.nan
