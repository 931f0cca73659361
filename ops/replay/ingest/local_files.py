"""Find the files of logs on this machine, as Hadoop's file systems list them for Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from glob import glob
from pathlib import Path
from typing import Final

_GLOB: Final = re.compile(r"[*?]")
_GLOB_OF_HADOOP: Final = re.compile(r"[\[{\\]")


def needs_hadoop(text: str) -> bool:
    """Return True for a glob with braces, brackets or a backslash, which only Hadoop expands."""
    # A name may contain these characters, so first look for a file of that exact name.
    return _GLOB_OF_HADOOP.search(text) is not None and not Path(text).exists()


def find_files(text: str) -> Iterator[Path]:
    """Yield the files that a path or a glob names, and those below directories, in order.

    Hidden files are left out. A path that does not exist is yielded unchanged.
    """
    is_glob = _GLOB.search(text) is not None and not Path(text).exists()
    for path in map(Path, sorted(glob(text)) if is_glob else [text]):
        # The name .. looks hidden, and Hadoop removes it without following links.
        yield from _find_below(path.resolve() if ".." in path.parts else path)


def _find_below(path: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    if path.name.startswith(("_", ".")) or path.name.endswith("._COPYING_"):
        return  # Spark skips it as well
    if not path.is_dir():
        yield path
    elif (folder := path.resolve()) not in above:  # a link to a folder above adds no files
        for below in sorted(path.iterdir()):
            yield from _find_below(below, above | {folder})
