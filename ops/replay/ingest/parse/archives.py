"""Unpack the lines of compressed logs as a stream: gzip, bzip2, xz, Zstandard.

**Invariant:** everything before the damage in a damaged archive is kept. The damage itself becomes
a line that is set aside, so that it is counted and its file is named. Memory is bounded.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Final, Protocol

from authorizerd.replay.ingest.parse.event import LINE_BYTES_MAX, Reason

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
PIECE_BYTES: Final = 1024 * 1024
LINES_MAX: Final = 10_000
XZ_MEMORY_MAX: Final = 256 * 1024 * 1024
"""``xz -9`` needs 65 MiB. The header of a file can ask for 4 GiB."""

Lines = tuple[list[bytes], Reason | None]
BinaryFile = IO[bytes]


class _Unpacked(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class _Zstandard:
    """Adapt pyarrow's reader, which has no ``read1``."""

    def __init__(self, packed: BinaryFile) -> None:
        # Imported here, because the base install reads the other kinds without pyarrow.
        import pyarrow

        self._errors = pyarrow.ArrowException
        self._stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(packed, "r"), "zstd")

    def read1(self, size: int, /) -> bytes:
        try:
            data: bytes = self._stream.read(size)
        except self._errors as error:
            raise OSError(str(error)) from error
        return data


class _Xz:
    """Unpack xz within ``XZ_MEMORY_MAX``, which ``lzma.LZMAFile`` cannot."""

    def __init__(self, packed: BinaryFile) -> None:
        self._packed = packed
        self._stream = self._new_stream()
        self._waiting = b""

    @staticmethod
    def _new_stream() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(memlimit=XZ_MEMORY_MAX)

    def read1(self, size: int, /) -> bytes:
        data = b""
        while not data:
            if self._stream.eof:
                # Another stream may follow, after zeros.
                self._waiting = self._stream.unused_data.lstrip(b"\0")
                while not self._waiting:
                    if not (piece := self._packed.read(PIECE_BYTES)):
                        return b""
                    self._waiting = piece.lstrip(b"\0")
                self._stream = self._new_stream()
            elif self._stream.needs_input and not self._waiting:
                self._waiting = self._packed.read(PIECE_BYTES)
                if not self._waiting:
                    raise EOFError("the archive ends before its last stream does")
            data = self._stream.decompress(self._waiting, size)
            self._waiting = b""
        return data


_READERS: Final[dict[str, Callable[[BinaryFile], _Unpacked]]] = {
    ".gz": lambda packed: gzip.GzipFile(fileobj=packed),
    ".bz2": lambda packed: bz2.BZ2File(packed),
    ".xz": _Xz,
    ".zst": _Zstandard,
    ".zstd": _Zstandard,
}
SUFFIXES: Final = tuple(_READERS)
UNSUPPORTED_SUFFIXES: Final = (
    ".tar",
    ".tgz",
    ".tar.gz",
    ".tar.xz",
    ".tar.zst",
    ".zip",
    ".7z",
    ".lz4",
    ".snappy",
)
_DAMAGE_ERRORS: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)


def unpack_lines(name: str, packed: BinaryFile) -> Iterator[Lines]:
    """Yield the lines of the archive ``name``, at most ``LINES_MAX`` at a time.

    If the archive is damaged, the last item is the unfinished line before the damage, with its
    reason.

    Raises:
        ModuleNotFoundError: Zstandard needs pyarrow, which is not installed.
    """
    suffix = next(suffix for suffix in SUFFIXES if name.endswith(suffix))
    lines = LineSplitter()
    try:
        unpacked = _READERS[suffix](packed)
        while piece := unpacked.read1(PIECE_BYTES):
            yield from ((some, None) for some in lines.split(piece))
    except _DAMAGE_ERRORS:
        yield [lines.pending], Reason.BROKEN_ARCHIVE
        return
    if lines.pending:
        yield [lines.pending], None


class LineSplitter:
    """Splits pieces of a file into lines; ``pending`` is the unfinished line at the end."""

    def __init__(self) -> None:
        self.pending = b""

    def split(self, piece: bytes) -> Iterator[list[bytes]]:
        """Yield the lines that ``piece`` completes, at most ``LINES_MAX`` at a time."""
        *lines, pending = (self.pending + piece).split(b"\n")
        # A line that is too long is set aside anyway, so only its beginning is kept.
        self.pending = pending[: LINE_BYTES_MAX + 1]
        for start in range(0, len(lines), LINES_MAX):
            yield lines[start : start + LINES_MAX]
