"""The steps of a repair, which are inspected before they are made.

**Invariant:** a step is made completely or not at all, and is durable when it returns.
``PlannedStorage`` shows the directory as a plan would leave it, so that the result can be inspected
before anything changes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

from authorizerd.metadata.storage import Storage

EPOCH_AT: Final = 12
"""The position of the epoch in a batch. No CRC covers it."""

PART_SUFFIX: Final = ".part"
PIECE_SIZE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove a file. ``is_covered``: the remaining files contain the same state."""

    path: Path
    is_covered: bool = False

    def __str__(self) -> str:
        return f"remove {self.path}"


@dataclass(frozen=True, slots=True)
class Cut:
    """End a file before ``position``."""

    path: Path
    position: int

    def __str__(self) -> str:
        return f"cut {self.path} to {self.position} bytes"


@dataclass(frozen=True, slots=True)
class SetEpoch:
    """Overwrite the epoch of the batch at ``position``."""

    path: Path
    position: int
    epoch: int

    def __str__(self) -> str:
        return f"write epoch {self.epoch} into the batch at byte {self.position} of {self.path}"


@dataclass(frozen=True, slots=True)
class MoveTail:
    """Move the bytes of ``source`` from ``position`` on into a segment of their own, ``path``."""

    path: Path
    source: Path
    position: int

    def __str__(self) -> str:
        return f"move the bytes of {self.source} from byte {self.position} on to {self.path}"


Step = Drop | Cut | SetEpoch | MoveTail


@dataclass(frozen=True, slots=True)
class _Piece:
    """A range of an existing file that will appear in another, with some bytes replaced."""

    source: Path
    start: int
    end: int
    patches: tuple[tuple[int, bytes], ...] = ()


class PlannedStorage(Storage):
    """The contents of ``storage`` after the planned steps. For reading only."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._dropped: set[Path] = set()
        self._pieces: dict[Path, _Piece] = {}

    def plan(self, step: Step) -> None:
        """Show the directory as ``step`` will leave it."""
        match step:
            case Drop(path):
                self._dropped.add(path)
                self._pieces.pop(path, None)
            case Cut(path, position):
                piece = self._piece(path)
                end = piece.start + position
                self._pieces[path] = _Piece(piece.source, piece.start, end, piece.patches)
            case SetEpoch(path, position, epoch):
                piece = self._piece(path)
                patch = (position + EPOCH_AT, epoch_bytes(epoch))
                patches = (*piece.patches, patch)
                self._pieces[path] = _Piece(piece.source, piece.start, piece.end, patches)
            case MoveTail(path, source, position):
                piece = self._piece(source)
                patches = tuple((at - position, data) for at, data in piece.patches)
                start = piece.start + position
                self._pieces[path] = _Piece(piece.source, start, piece.end, patches)
                self._dropped.discard(path)

    def _piece(self, path: Path) -> _Piece:
        return self._pieces.get(path) or _Piece(path, 0, self._storage.size(path))

    def place(self, path: Path, position: int) -> tuple[Path, int]:
        """Return the existing file, and the position in it, that a read at ``position`` uses."""
        piece = self._piece(path)
        return piece.source, piece.start + position

    def names(self, directory: Path) -> list[str]:
        names = set(self._storage.names(directory))
        names |= {path.name for path in self._pieces if path.parent == directory}
        return sorted(names - {path.name for path in self._dropped if path.parent == directory})

    def exists(self, path: Path) -> bool:
        return path in self._pieces or (path not in self._dropped and self._storage.exists(path))

    def is_file(self, path: Path) -> bool:
        return path in self._pieces or (path not in self._dropped and self._storage.is_file(path))

    def drop_cache(self, path: Path) -> None:
        """Do nothing: planned contents are not in the page cache."""

    def size(self, path: Path) -> int:
        piece = self._piece(path)
        return piece.end - piece.start

    def open(self, path: Path) -> BinaryIO:
        file = self._storage.open(self._piece(path).source)
        if path not in self._pieces:
            return file
        return cast(BinaryIO, io.BufferedReader(_PieceFile(file, self._piece(path))))


class _PieceFile(io.RawIOBase):
    """A range of a file, readable as a file of its own."""

    def __init__(self, file: BinaryIO, piece: _Piece) -> None:
        self._file = file
        self._piece = piece
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        assert whence == io.SEEK_SET, "the log's readers seek from the start"
        self._position = offset
        return offset

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece, start = self._piece, self._position
        self._file.seek(piece.start + start)
        left = max(piece.end - piece.start - start, 0)
        data = bytearray(self._file.read(min(left, len(buffer))))
        for at, patch in piece.patches:
            for index, byte in enumerate(patch, at - start):
                if 0 <= index < len(data):
                    data[index] = byte
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def epoch_bytes(epoch: int) -> bytes:
    return epoch.to_bytes(4, "big", signed=True)


def make(step: Step, storage: Storage) -> None:
    """Make a step, durably.

    Raises:
        OSError: it is not known whether the step is done. The caller must not make a later one.
    """
    match step:
        case Drop(path):
            storage.remove(path)
            storage.sync_directory(path.parent)
        case Cut(path, position):
            storage.truncate(path, position)
        case SetEpoch(path) | MoveTail(path):
            _write(path, step, storage)


def _write(path: Path, step: SetEpoch | MoveTail, storage: Storage) -> None:
    """Write ``path`` as the step leaves it, under a temporary name until it is complete."""
    # Copy from the planned view, so that the file is exactly what was inspected.
    planned = PlannedStorage(storage)
    planned.plan(step)
    part = path.with_name(path.name + PART_SUFFIX)
    copy(planned, path, part, storage, like=step.source if isinstance(step, MoveTail) else path)
    storage.rename(part, path)
    storage.sync_directory(path.parent)


def copy(
    source_storage: Storage, source: Path, target: Path, storage: Storage, *, like: Path
) -> None:
    """Overwrite ``target`` with ``source``. The contents become durable, the name does not.

    The new file has the owner, the group and the permissions of ``like``.
    """
    # Files are opened for appending, so an earlier attempt would stay at the beginning.
    if target.name in storage.names(target.parent):
        storage.remove(target)
    with (
        closing(source_storage.open(source)) as read,
        closing(storage.append_to(target, like)) as written,
    ):
        for piece in _pieces(read, source_storage.size(source)):
            written.append([piece])
        written.sync()


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    file.seek(0)
    while size > 0:
        piece = file.read(min(size, PIECE_SIZE))
        if not piece:
            raise OSError(f"{size} bytes could not be read")
        yield piece
        size -= len(piece)
