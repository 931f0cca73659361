"""Read logs as blocks of whole lines: plain files, parts of them, and compressed files.

**Invariant:** consecutive parts of a plain file give each of its lines once, in order. Everything
before the damage in an archive is kept. Memory is bounded.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import IO, Final, Protocol

from authorizerd.acl.audit.recorded.event import LINE_BYTES_MAX

BLOCK_BYTES: Final = 32 * 1024 * 1024
"""More than a line. In larger blocks, more lines repeat a text, which is parsed only once."""
PIECE_BYTES: Final = 1024 * 1024
XZ_MEMORY_MAX: Final = 256 * 1024 * 1024
"""``xz -9`` needs 65 MiB. The header of a file can ask for 4 GiB."""

BinaryFile = IO[bytes]

_SEARCHED_BYTES: Final = 64 * 1024


class DamagedArchiveError(Exception):
    """An archive that is damaged after some lines; ``line`` is the unfinished one at the damage."""

    def __init__(self, line: bytes) -> None:
        super().__init__("the archive is damaged")
        self.line = line


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
    *(".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.zst", ".zip", ".7z", ".lz4", ".snappy"),
)
_DAMAGE_ERRORS: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)


def find_suffix(name: str) -> str | None:
    """Return the suffix of an archive's name, in lower case; None for a plain log."""
    return next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), None)


def read_log(name: str, file: BinaryFile, block_bytes: int = BLOCK_BYTES) -> Iterator[memoryview]:
    """Yield the lines of a log in blocks, like ``read_part``; its name tells the compression.

    Raises:
        DamagedArchiveError: the archive is damaged after these lines.
        ModuleNotFoundError: Zstandard needs pyarrow, which is not installed.
        OSError: a plain file cannot be read.
    """
    suffix = find_suffix(name)
    archive = None if suffix is None else _Archive(_READERS[suffix], file)
    read = partial(file.read, block_bytes) if archive is None else archive.read
    line = yield from _split(read, block_bytes, begins=True)
    if archive is not None and archive.is_damaged:
        raise DamagedArchiveError(line)
    if line:
        yield memoryview(line)


def read_part(file: BinaryFile, begin: int, end: int) -> Iterator[memoryview]:
    """Yield the lines of a plain file that begin in its bytes from ``begin`` to ``end``.

    A block has lines with line feeds between them. Only the beginning of a line longer than a block
    is kept, since the line is set aside anyway.
    """
    at, last = _find_line(file, begin), _find_line(file, end)
    file.seek(at)
    line = yield from _split(
        lambda: file.read(min(BLOCK_BYTES, last - file.tell())), BLOCK_BYTES, begins=at == 0
    )
    if line:
        yield memoryview(line)


class _Archive:
    """An archive up to its end, or up to its damage."""

    def __init__(self, reader: Callable[[BinaryFile], _Unpacked], file: BinaryFile) -> None:
        self._reader = partial(reader, file)
        self._unpacked: _Unpacked | None = None
        self.is_damaged = False

    def read(self) -> bytes:
        try:
            self._unpacked = self._unpacked or self._reader()
            return self._unpacked.read1(PIECE_BYTES)
        except _DAMAGE_ERRORS:
            self.is_damaged = True
            return b""


def _split(
    read: Callable[[], bytes], block_bytes: int, *, begins: bool
) -> Generator[memoryview, None, bytes]:
    """Yield blocks of what ``read`` returns until it is empty, and return the unfinished line.

    At the beginning of a log, a byte order mark is left out, as Spark does.
    """
    pieces: list[bytes] = []
    waiting = 0
    while True:
        pieces.append(read())
        waiting += len(pieces[-1])
        if waiting >= block_bytes or not pieces[-1]:
            data = b"".join(pieces)
            if begins:
                data, begins = data.removeprefix(BOM_UTF8), False
            end = data.rfind(b"\n")
            if end >= 0:
                yield memoryview(data)[:end]  # without a copy, which would cost as much as reading
            line = data[end + 1 : end + 2 + LINE_BYTES_MAX]
            if not pieces[-1]:
                return line
            pieces, waiting = [line], len(line)


def _find_line(file: BinaryFile, at: int) -> int:
    """Return the position of the first line that begins at or after ``at``, or the file's end."""
    if not at:
        return 0
    place = at - 1
    file.seek(place)
    while piece := file.read(_SEARCHED_BYTES):
        found = piece.find(b"\n")
        if found >= 0:
            return place + found + 1
        place += len(piece)
    return place
