"""A fast reader of a batch's metadata records, which decodes common ACL records inline.

**Invariant:** the inline path returns what ``decode_value`` would return. It handles a record only
if every length stays within the record and the record ends where it says. It leaves any other
record to ``read_record`` and ``decode_value``, which report faults. (Slicing alone never fails.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, TypeAlias

from authorizerd.acl.model import Acl, AclAdded, AclRemoved
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.records.batch import HEADER_SIZE, RecordBatch, read_record
from authorizerd.protocol.records.metadata import (
    ID_SIZE,
    MetadataRecord,
    RecordType,
    decode_value,
    record_type,
)
from authorizerd.protocol.records.nodes import decode_node

RECORDS_PER_SLICE: Final = 128
_TEXTS_KEPT: Final = 4096
"""The maximum number of cached principals and hosts, and of cached entries."""
_TEXTS_DROPPED: Final = 128
"""The number of oldest entries that are dropped at once. Dropping all would block the thread for
longer, since objects that were created long ago are in no CPU cache."""

_Entry: TypeAlias = tuple[int, str, str, int, int]
"""The fields of an ACL after its name: pattern type, principal, host, operation, permission."""

_ADDED_START: Final = bytes((1, RecordType.ACCESS_CONTROL_ENTRY, 0))
_REMOVED_START: Final = bytes((1, RecordType.REMOVE_ACCESS_CONTROL_ENTRY, 0))
_REMOVED_SIZE: Final = 3 + ID_SIZE + 1


class Texts:
    """Caches principals and hosts by their UTF-8 bytes, and the ends of ACL records by theirs.

    Names are not cached: a checkpoint has its ACLs in no order, so a bounded cache would find few
    of its names, and take longer than decoding them.
    """

    __slots__ = ("_by_bytes", "_entries")

    def __init__(self) -> None:
        self._by_bytes: dict[bytes, str] = {}
        self._entries: dict[bytes, _Entry] = {}

    def decode(self, encoded: bytes) -> str:
        """Return the text. Raise UnicodeDecodeError if the bytes are invalid."""
        text = self._by_bytes.get(encoded)
        if text is None:
            if len(self._by_bytes) >= _TEXTS_KEPT:
                _drop_oldest(self._by_bytes)
            text = self._by_bytes[encoded] = encoded.decode()
        return text

    def decode_entry(self, encoded: bytes) -> _Entry | None:
        """Return the fields of an ACL record that follow its name, or None if they are not plain.

        Many ACLs differ only in their id and name, so these bytes recur.

        Raises:
            IndexError: the fields end too early.
            UnicodeDecodeError: a text is invalid.
        """
        entry = self._entries.get(encoded)
        if entry is None:
            entry = _entry_in_line(encoded, self)
            if entry is not None:
                if len(self._entries) >= _TEXTS_KEPT:
                    _drop_oldest(self._entries)
                self._entries[encoded] = entry
        return entry


def _drop_oldest(cache: dict[bytes, Any]) -> None:
    for encoded in list(islice(cache, _TEXTS_DROPPED)):
        del cache[encoded]


def read_records(
    batch: RecordBatch, texts: Texts, skipped_types: set[int] | None = None
) -> Iterator[list[MetadataRecord]]:
    """Yield the batch's records in order, in slices of at most ``RECORDS_PER_SLICE``.

    Skipped types are left out, so a slice may be short or empty. A node's registration counts as
    skipped, because most of it is, but the part that ``decode_node`` keeps is among the records.

    Args:
        skipped_types: the set to which the skipped types are added.

    Raises:
        DecodeError: a record is invalid. ``position`` counts from the batch's start.
    """
    data = batch.data
    position = HEADER_SIZE
    left = batch.count
    while left:
        size = min(left, RECORDS_PER_SLICE)
        left -= size
        records: list[MetadataRecord] = []
        for _ in range(size):
            following = _read_one(data, position, texts, records)
            if following < 0:
                following = -following
                if skipped_types is not None:
                    skipped_types.add(_type_of(data, position))
            position = following
        yield records
    if position != len(data):
        raise DecodeError("bytes follow the last record of the batch", position)


def _read_one(data: bytes, position: int, texts: Texts, records: list[MetadataRecord]) -> int:
    """Append the record at ``position``, and return the position of the next record.

    The result is negative if the record was skipped, at least in part, because of its type.
    """
    found = _value_in_line(data, position)
    if found is None:
        record = read_record(data, position)
        start, end, following = record.value_start, record.value_end, record.next
    else:
        start, end, following = found
    kind = data[start : start + 3]
    acl: MetadataRecord | None = None
    if kind == _ADDED_START:
        acl = _added_in_line(data, start + 3, end, texts)
    elif kind == _REMOVED_START and end - start == _REMOVED_SIZE and data[end - 1] == 0:
        acl = AclRemoved(data[start + 3 : start + 3 + ID_SIZE])
    if acl is None:
        acl = decode_value(data, start, end)
    if acl is None:
        node = decode_node(data, start, end)
        if node is not None:
            records.append(node)
        return -following
    records.append(acl)
    return following


def _type_of(data: bytes, position: int) -> int:
    record = read_record(data, position)
    return record_type(data, record.value_start, record.value_end)


def _value_in_line(  # noqa: C901 - the loader's hot path: two varints are read inline
    data: bytes, position: int
) -> tuple[int, int, int] | None:
    """Return a value's bounds and the next record's start, or None if the record is not plain.

    A plain record has sizes of at most two bytes, a null key, and no headers.
    """
    try:
        size = data[position]
        position += 1
        if size > 127:
            if data[position] > 127:
                return None
            size = size & 127 | data[position] << 7
            position += 1
        following = position + (size >> 1)
        position = times = position + 1  # past the attributes
        while data[position] > 127:  # timestamp delta
            position += 1
        offsets = position = position + 1
        while data[position] > 127:  # offset delta
            position += 1
        if offsets - times > 9 or position - offsets > 3:
            return None  # the general reader decides whether such a long varint is valid
        if data[position + 1] != 1:  # the key's length: -1
            return None
        size_of_value = data[position + 2]
        position += 3
        if size_of_value > 127:
            if data[position] > 127:
                return None
            size_of_value = size_of_value & 127 | data[position] << 7
            position += 1
        end = position + (size_of_value >> 1)
        # Sizes are zigzag-encoded, so an odd one is negative.
        if size & 1 or size_of_value & 1 or end + 1 != following or data[end] != 0:
            return None
    except IndexError:
        return None
    return position, end, following


def _added_in_line(data: bytes, position: int, end: int, texts: Texts) -> AclAdded | None:
    """Return the ACL whose fields are from ``position`` to ``end``, or None if not plain."""
    try:
        name_start = position + ID_SIZE + 2
        resource_type = data[name_start - 2]
        name_size = data[name_start - 1]
        # A size of 0 is null, which the general decoder rejects. The top bit of a size marks a size
        # of several bytes, and the top bit of a type a negative type.
        if not name_size or (name_size | resource_type) > 127:
            return None
        pattern_at = name_start + name_size - 1
        # If a size is wrong, the rest of the record is not an entry, or is empty.
        entry = texts.decode_entry(data[pattern_at:end])
        if entry is None:
            return None
        pattern_type, principal, host, operation, permission_type = entry
        return AclAdded(
            data[position : position + ID_SIZE],
            Acl(
                resource_type,
                data[name_start:pattern_at].decode(),
                pattern_type,
                principal,
                host,
                operation,
                permission_type,
            ),
        )
    except (IndexError, UnicodeDecodeError):
        return None


def _entry_in_line(data: bytes, texts: Texts) -> _Entry | None:
    """Return the fields of an ACL record after its name, which ``data`` must contain exactly."""
    # Follow the sizes unchecked. If one is wrong, the tests below reject the record.
    pattern_type, principal_size = data[0], data[1]
    host_size_at = 1 + principal_size
    host_size = data[host_size_at]
    operation_at = host_size_at + host_size
    if operation_at + 3 != len(data) or data[operation_at + 2] != 0:
        return None
    operation, permission_type = data[operation_at], data[operation_at + 1]
    if (
        (principal_size | host_size) > 127
        or not (principal_size and host_size)
        or (pattern_type | operation | permission_type) > 127
    ):
        return None
    principal = texts.decode(data[2:host_size_at])
    host = texts.decode(data[host_size_at + 1 : operation_at])
    return pattern_type, principal, host, operation, permission_type
