"""The names of the levels of metadata.version that a log of the daemon may get."""

from __future__ import annotations

import argparse
from typing import Final

from authorizerd.image.features import METADATA_VERSION_KNOWN, METADATA_VERSION_NAMES

METADATA_VERSIONS: Final = {METADATA_VERSION_NAMES[level]: level for level in (30, 32, 33)} | {
    "4.3": 30,
    "4.4": METADATA_VERSION_KNOWN,
}
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
    return f"{METADATA_VERSION_NAMES.get(level, 'level')} ({level})"
