"""The names of the levels of metadata.version that a log of the daemon may get."""

from __future__ import annotations

import argparse
from typing import Final

METADATA_VERSIONS: Final = {"4.3-IV0": 30, "4.3": 30, "4.4-IV1": 32, "4.4-IV2": 33, "4.4": 33}
"""Levels by their names, as kafka-storage and kafka-features read them. No release has 4.4-IV0."""


def metadata_version(text: str) -> int:
    """Return the level of this name.

    Raises:
        ArgumentTypeError: there is no such level, or the daemon does not write it.
    """
    level = METADATA_VERSIONS.get(text)
    if level is None:
        names = ", ".join(METADATA_VERSIONS)
        raise argparse.ArgumentTypeError(f"expected one of {names}, found {text!r}")
    return level


def name_metadata_version(level: int) -> str:
    """Return the name of a level with its number."""
    named = (name for name, each in METADATA_VERSIONS.items() if each == level)
    return f"{next(named, 'level')} ({level})"
