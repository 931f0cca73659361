"""Values of options that several commands take: numbers, paths and URIs.

**Invariant:** a path without a scheme belongs to this machine only if the master does. It is then
made absolute, since Spark would resolve it against the working directory of its own processes.
For any other master the path stays unchanged, and the cluster's default file system resolves it.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from pathlib import Path
from typing import Final

NAMES_MAX_LIMIT: Final = 100_000

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_GLOB: Final = re.compile(r"[*?\[{]")


class PathError(Exception):
    """A path that a command cannot use; the text names it."""


def placed(text: str, *, is_local: bool) -> str:
    """Return a path as a job is to read it: absolute on this machine, unchanged elsewhere."""
    return str(Path(text).absolute()) if is_local and not is_uri(text) else text


def is_uri(text: str) -> bool:
    return _SCHEME.match(text) is not None


def placed_input(text: str, *, is_local: bool) -> str:
    """Return an input's path as ``placed`` does.

    Raises:
        PathError: it is one of this machine, no glob, and not there or not to be read.
    """
    path = placed(text, is_local=is_local)
    if is_local and not is_uri(path) and not _GLOB.search(path):
        if not Path(path).exists():
            raise PathError(f"{text}: no such file or directory")
        if not os.access(path, os.R_OK):
            raise PathError(f"{text}: permission denied")
    return path


def placed_output(text: str, *, is_local: bool, overwrite: bool) -> str:
    """Return an output directory's path as ``placed`` does.

    Raises:
        PathError: it is one of this machine and holds something, or is a file. Where the job
            runs it looks once more, for the places that cannot be seen from here.
    """
    path = placed(text, is_local=is_local)
    if is_local and not is_uri(path):
        if Path(path).exists() and not Path(path).is_dir():
            raise PathError(f"--out: {text}: not a directory")
        if not overwrite and Path(path).is_dir() and any(Path(path).iterdir()):
            raise PathError(f"--out: {text}: not empty; --overwrite replaces the results in it")
    return path


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
