"""Find and read the files of audit logs on this machine.

**Invariant:** an input selects the same files as in ``replay ingest``, and a file gives the same
lines. An input that only Spark can find or read raises ``NeedsSparkError``. A file that cannot be
read to its end raises an error that names it. A log is a copy only if another log begins with all
of its lines, except that its last line may be incomplete: ``x.log`` next to ``x.log.gz``, or an
earlier state of a growing log.
"""

from __future__ import annotations

import hashlib
import io
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Final

from authorizerd.management.plan.traffic import TrafficFile
from authorizerd.replay.errors import NeedsSparkError, TrafficError
from authorizerd.replay.ingest.inputs import find_files, needs_hadoop
from authorizerd.replay.ingest.parse.logs import (
    BLOCK_BYTES,
    PIECE_BYTES,
    UNSUPPORTED_SUFFIXES,
    DamagedArchiveError,
    find_suffix,
    read_log,
)
from authorizerd.replay.options import is_uri

FILES_MAX: Final = 10_000
PACKED_FACTOR: Final = 20
"""Audit logs repeat the same requests, so they compress to about a twentieth of their size."""

_OPENING_LINES: Final = 1_000
_IN_EVENTS: Final = b"rincipal"
"""Occurs in events of every format. Other first lines, such as headers, are alike in all logs."""


def find_logs(inputs: Iterable[str]) -> tuple[Path, ...]:
    """Return the files that the inputs name, and all files below directories, in order, each once.

    Raises:
        NeedsSparkError: an input is a URI, Parquet, or a glob with braces or brackets, or there are
            too many files.
        TrafficError: an input is missing or unreadable, has no files, or has files of the wrong
            kind.
    """
    found: dict[Path, Path] = {}  # in order, by the absolute path
    for text in inputs:
        try:
            files = list(find_input(text))
        except OSError as error:
            raise TrafficError(f"{error.filename}: {error.strerror}") from error
        if not files:
            raise TrafficError(f"{text}: no files found (names that begin with _ or . are skipped)")
        for file in files:
            _check(file)
            found.setdefault(file.absolute(), file)
        if len(found) > FILES_MAX:
            raise NeedsSparkError(f"{text}: more than {FILES_MAX:,} files")
    return tuple(found.values())


def find_input(text: str) -> Iterator[Path]:
    """Yield the files of an input: a path or a glob, and all files below directories.

    Raises:
        NeedsSparkError: it is a URI, or a glob with braces or brackets.
    """
    if is_uri(text):
        raise NeedsSparkError(f"{text}: expected a path on this machine, found a URI")
    if needs_hadoop(text):
        raise NeedsSparkError(f"{text}: expected a glob with only * and ?")
    yield from find_files(text)


def _check(file: Path) -> None:
    """Raise an error if the file is missing, or is not a log."""
    try:
        mode = file.stat().st_mode
    except OSError as error:
        raise TrafficError(f"{file}: {error.strerror}") from error
    name = file.name.lower()
    if name.endswith(UNSUPPORTED_SUFFIXES):
        raise TrafficError(f"{file}: this archive format is not supported: unpack the file first")
    if name.endswith(".parquet"):
        raise NeedsSparkError(f"{file}: expected an audit log, found Parquet")
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise TrafficError(f"{file}: expected a file or a pipe")


def estimate_bytes(files: Iterable[Path]) -> int:
    """Return the size of all files, unpacked.

    Raises:
        OSError: a file has vanished.
    """
    return sum(
        file.stat().st_size * (PACKED_FACTOR if find_suffix(file.name) else 1) for file in files
    )


class LogReader(io.RawIOBase):
    """Reads the lines of one file; ``file`` describes it once they are read."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._hash = hashlib.sha256()
        self._bytes = 0

    @property
    def file(self) -> TrafficFile:
        return TrafficFile(path=str(self._path), bytes=self._bytes, sha256=self._hash.hexdigest())

    def lines(self) -> Iterator[list[bytes]]:
        """Yield the lines, some at a time; raises as ``blocks``."""
        for block in self.blocks(PIECE_BYTES):
            yield bytes(block).split(b"\n")

    def blocks(self, block_bytes: int = BLOCK_BYTES) -> Iterator[memoryview]:
        """Yield the lines in blocks; see ``read_log``. Blocks.

        Raises:
            DamagedArchiveError: an archive is damaged after these lines.
            TrafficError: the file cannot be read, or needs pyarrow.
        """
        try:
            with open(self._path, "rb", buffering=0) as self._file:
                read = io.BufferedReader(self, PIECE_BYTES)
                try:
                    yield from read_log(self._path.name, read, block_bytes)
                finally:
                    # The digest includes what follows an archive in its file.
                    rest = bytearray(PIECE_BYTES)
                    while self.readinto(rest):
                        pass
        except OSError as error:
            raise TrafficError(f"{self._path}: {error.strerror or error}") from error
        except ModuleNotFoundError as error:
            raise TrafficError(
                f"{self._path}: unpacking .zst needs pyarrow: install authorizerd[replay-local], "
                "or unpack the file first"
            ) from error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - as in the base class
        """Read a piece of the file, and count it."""
        size = self._file.readinto(buffer) or 0
        self._hash.update(memoryview(buffer)[:size])
        self._bytes += size
        return size


def find_copies(files: Iterable[Path]) -> dict[Path, Path]:
    """Return the logs that need not be read, each with the log that has its lines. Blocks.

    Raises:
        TrafficError: a log cannot be read.
    """
    copies: dict[Path, Path] = {}
    alike: dict[bytes, list[Path]] = defaultdict(list)
    for path in files:
        if not path.is_file():  # a pipe can be read only once
            continue
        opening = islice(_read_lines(path), _OPENING_LINES)
        first = next((line for line in opening if _IN_EVENTS in line), None)
        if first is None:
            continue
        for other in alike[first]:
            shorter = _find_shorter(path, other)
            if shorter is not None:
                copies[shorter] = path if shorter is other else other
            if shorter is path:
                break
        else:
            alike[first].append(path)
        alike[first] = [other for other in alike[first] if other not in copies]
    return copies


def _find_shorter(path: Path, other: Path) -> Path | None:
    """Return whichever log the other one begins with, ``path`` if they are equal, else None."""
    pairs = zip_longest(_read_lines(path), _read_lines(other), fillvalue=b"")
    for line, beside in pairs:
        if line != beside:
            after, beside_after = next(pairs, (b"", b""))
            if beside.startswith(line) and not after:
                return path
            return other if line.startswith(beside) and not beside_after else None
    return path


def _read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines that are not blank; stop at damage in an archive."""
    with suppress(DamagedArchiveError):
        for lines in LogReader(path).lines():
            yield from filter(None, map(bytes.rstrip, lines))
