"""A second reader of a metadata log, written from the description of Kafka's formats.

It shares no code with the daemon. It remembers what it has read, also of files that are gone.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final, TypeAlias

from crc32c import crc32c

from authorizerd.acl.model import Acl

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Offset, length, epoch, magic, CRC, attributes, last delta, two times, producer, count."""
_LENGTH_END: Final = 12
_CRC_END: Final = 21
_CONTROL: Final = 0x20
_ADDED: Final = 18
_REMOVED: Final = 19
_ABORTED: Final = 25
_TAIL_SECONDS: Final = 0.2


class UnreadableLogError(Exception):
    """The log is not as the formats say, or a part of it was never seen."""


@dataclass(frozen=True, slots=True)
class Change:
    """An ACL was added; or removed, if ``acl`` is None."""

    acl_id: str
    acl: Acl | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatch:
    """Changes that become visible together. The batch ends at byte ``end`` of its segment."""

    first_offset: int
    last_offset: int
    changes: tuple[Change, ...]
    segment: str
    end: int


ReadLog: TypeAlias = Callable[[], tuple[Sequence[LogBatch], Sequence[LogBatch]]]
"""Return the whole log, and the batches that were in it last time and are not now."""


class LogReader:
    """The batches that a log in ``folder`` has had, in order. ``read`` adds new ones."""

    def __init__(self, folder: Path) -> None:
        self.batches: list[LogBatch] = []
        self._folder = folder
        self._segment = ""
        self._data = b""
        """The bytes of the newest segment that were read as batches."""

    def read(self) -> list[LogBatch]:
        """Read what was appended; return the batches that are no longer at the end of the log."""
        lost: list[LogBatch] = []
        for path in sorted(self._folder.glob("*.log")):
            if path.name >= self._segment:
                with suppress(FileNotFoundError):  # it was retired just now
                    data = path.read_bytes()
                    if path.name > self._segment:
                        self._segment, self._data = path.name, b""
                    lost += self._read_segment(data)
        return lost

    def _read_segment(self, data: bytes) -> list[LogBatch]:
        kept = len(self._data) if data.startswith(self._data) else _common(self._data, data)
        lost: list[LogBatch] = []
        while self._end() > kept:
            lost.append(self.batches.pop())
        for batch in read_batches(data, self._segment, self._end()):
            expected = self.batches[-1].last_offset + 1 if self.batches else batch.first_offset
            if batch.first_offset != expected:
                raise UnreadableLogError(f"offset {batch.first_offset} follows {expected - 1}")
            self.batches.append(batch)
        self._data = data[: self._end()]
        return lost

    def _end(self) -> int:
        last = self.batches[-1] if self.batches else None
        return last.end if last is not None and last.segment == self._segment else 0


@contextmanager
def tailing(folder: Path) -> Iterator[ReadLog]:
    """Read a log all the time until the block ends, because the daemon removes its old files."""
    reader, lost, lock, ended = LogReader(folder), list[LogBatch](), Lock(), Event()

    def read() -> tuple[Sequence[LogBatch], Sequence[LogBatch]]:
        with lock:
            gone = [*lost, *reader.read()]
            lost.clear()
            return [*reader.batches], gone

    def follow() -> None:
        while not ended.wait(_TAIL_SECONDS):
            with lock, suppress(UnreadableLogError):  # the next ``read`` raises it again
                lost.extend(reader.read())

    thread = Thread(target=follow)
    thread.start()
    try:
        yield read
    finally:
        ended.set()
        thread.join()


def read_batches(data: bytes, segment: str, start: int = 0) -> Iterator[LogBatch]:
    """Yield the batches from ``start`` on, up to an unfinished write at the end."""
    while len(data) - start >= _HEADER.size:
        fields = _HEADER.unpack_from(data, start)
        first_offset, length, _, magic, crc, attributes, last_delta, *_, count = fields
        end = start + _LENGTH_END + length
        if end > len(data) or length <= 0:
            return
        if magic != 2 or crc != crc32c(data[start + _CRC_END : end]):
            if end < len(data):
                raise UnreadableLogError(f"{segment}: byte {start} begins no batch")
            return
        changes = [
            change
            for value in _values(data, start + _HEADER.size, count)
            if not attributes & _CONTROL and (change := _read_change(value)) is not None
        ]
        last_offset = first_offset + last_delta
        yield LogBatch(
            first_offset=first_offset, last_offset=last_offset, changes=tuple(changes),
            segment=segment, end=end,
        )  # fmt: skip
        start = end


def _values(data: bytes, position: int, count: int) -> Iterator[bytes]:
    """Yield the value of each record: length, attributes, two deltas, key, value, headers."""
    for _ in range(count):
        length, position = _signed(data, position)
        end = position + length
        position += 1
        for _ in range(2):
            _, position = _signed(data, position)
        key, position = _signed(data, position)
        size, position = _signed(data, position + max(key, 0))
        yield data[position : position + size]
        position = end


def _read_change(value: bytes) -> Change | None:
    """Return the change of an ACL in a record, or None for another record."""
    _, position = _unsigned(value, 0)
    kind, position = _unsigned(value, position)
    version, position = _unsigned(value, position)
    if kind == _ABORTED:  # its records, which were read, are void
        raise UnreadableLogError("expected no aborted transaction")
    if kind not in (_ADDED, _REMOVED):
        return None
    if version != 0:
        raise UnreadableLogError(f"expected version 0 of a record of an ACL, found {version}")
    acl_id, position = value[position : position + 16].hex(), position + 16
    if kind == _REMOVED:
        return Change(acl_id, None)
    resource_type, position = value[position], position + 1
    name, position = _text(value, position)
    pattern_type, position = value[position], position + 1
    principal, position = _text(value, position)
    host, position = _text(value, position)
    operation, permission = value[position : position + 2]
    return Change(
        acl_id, Acl(resource_type, name, pattern_type, principal, host, operation, permission)
    )


def _text(data: bytes, position: int) -> tuple[str, int]:
    size, position = _unsigned(data, position)
    end = position + size - 1
    return data[position:end].decode(), end


def _signed(data: bytes, position: int) -> tuple[int, int]:
    """Return a zigzag varint, and the position after it."""
    value, position = _unsigned(data, position)
    return value >> 1 ^ -(value & 1), position


def _unsigned(data: bytes, position: int) -> tuple[int, int]:
    """Return a varint, and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position


def _common(first: bytes, second: bytes) -> int:
    """Return how many bytes the beginnings have in common."""
    different = (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(different, min(len(first), len(second)))
