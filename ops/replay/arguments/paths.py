"""Paths and URIs of events and results.

**Invariant:** a path without a scheme is this machine's only where the master is; it is made
absolute there, since Spark would take it from wherever its own processes were started. Elsewhere it
is left to the cluster, whose default file system it names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

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
