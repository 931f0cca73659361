"""Find the audit logs of a command that Spark would otherwise ingest, and estimate their size.

**Invariant:** the files are those that ``replay ingest`` finds for the same inputs. An input that
only Spark can find or read raises ``NeedsSparkError``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import Final

from authorizerd.replay.ingest.parse.archives import SUFFIXES
from authorizerd.replay.local.errors import NeedsSparkError, TrafficError
from authorizerd.replay.local.files import find_files, is_hidden
from authorizerd.replay.options import is_uri

PACKED_FACTOR: Final = 20
"""Audit logs repeat the same requests, so archives of them have a twentieth of their size."""

_GLOB: Final = re.compile(r"[*?]")
_GLOB_OF_HADOOP: Final = re.compile(r"[\[{\\]")


def find_logs(inputs: Sequence[str]) -> tuple[Path, ...]:
    """Return the files of absolute paths and globs, in order, each once.

    Raises:
        NeedsSparkError: an input is a URI, Parquet, or a glob with braces or brackets.
        TrafficError: an input matches no file, or a file that cannot be read.
    """
    return find_files([path for text in inputs for path in _matches(text)])


def estimate_bytes(files: Sequence[Path]) -> int:
    """Return the size of all files, unpacked.

    Raises:
        TrafficError: a file has vanished.
    """
    try:
        return sum(
            file.stat().st_size * (PACKED_FACTOR if file.name.lower().endswith(SUFFIXES) else 1)
            for file in files
        )
    except OSError as error:
        raise TrafficError(f"{error.filename}: {error.strerror}") from error


def _matches(text: str) -> Iterator[str]:
    """Yield the files and directories that an input matches."""
    if is_uri(text):
        raise NeedsSparkError(f"{text}: expected a path on this machine, found a URI")
    if Path(text).exists():
        found = [text]
    elif _GLOB_OF_HADOOP.search(text):
        raise NeedsSparkError(f"{text}: expected a glob of * and ? only")
    else:
        found = sorted(glob(text)) if _GLOB.search(text) else []
    # As an ingest follows links before "..", so a file that is named in two ways is read once.
    paths = [Path(path).resolve() if ".." in Path(path).parts else Path(path) for path in found]
    shown = [str(path) for path in paths if path.is_dir() or not is_hidden(path)]
    if not shown:
        raise TrafficError(f"{text}: no files found (names that begin with _ or . are skipped)")
    yield from shown
