"""Unpack the lines of compressed logs as a stream: gzip, bzip2, xz, Zstandard.

**Invariant:** everything before the damage in a damaged archive is kept. The damage itself becomes
a line that is set aside, so that it is counted and its file is named. Memory is bounded.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import pyarrow

from authorizerd.replay.ingest.parse.event import LINE_BYTES_MAX, Reason

PIECE_BYTES: Final = 1024 * 1024
LINES_MAX: Final = 10_000

Lines = tuple[list[bytes], Reason | None]


class _Unpacked(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class _Zstandard:
    """Adapt pyarrow's reader, which has no ``read1``."""

    def __init__(self, packed: bytes) -> None:
        self._stream = pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), "zstd")

    def read1(self, size: int, /) -> bytes:
        data: bytes = self._stream.read(size)
        return data


_READERS: Final[dict[str, Callable[[bytes], _Unpacked]]] = {
    ".gz": lambda packed: gzip.GzipFile(fileobj=io.BytesIO(packed)),
    ".bz2": lambda packed: bz2.BZ2File(io.BytesIO(packed)),
    ".xz": lambda packed: lzma.LZMAFile(io.BytesIO(packed)),  # noqa: SIM115 - bytes in memory
    ".zst": _Zstandard,
    ".zstd": _Zstandard,
}
SUFFIXES: Final = tuple(_READERS)
_DAMAGE_ERRORS: Final = (OSError, EOFError, zlib.error, lzma.LZMAError, pyarrow.ArrowException)


def unpack_lines(name: str, packed: bytes) -> Iterator[Lines]:
    """Yield the lines of the archive ``name``, at most ``LINES_MAX`` at a time.

    If the archive is damaged, the last item is the unfinished line before the damage, with its
    reason.
    """
    suffix = next(suffix for suffix in SUFFIXES if name.endswith(suffix))
    pending = b""
    try:
        unpacked = _READERS[suffix](packed)
        while piece := unpacked.read1(PIECE_BYTES):
            *lines, pending = (pending + piece).split(b"\n")
            # A line that is too long is set aside anyway, so only its beginning is kept.
            pending = pending[: LINE_BYTES_MAX + 1]
            for start in range(0, len(lines), LINES_MAX):
                yield lines[start : start + LINES_MAX], None
    except _DAMAGE_ERRORS:
        yield [pending], Reason.BROKEN_ARCHIVE
        return
    if pending:
        yield [pending], None
