"""Our tagged field of the ACL requests and responses: a log offset.

A request carries the offset that its sender has seen, and a response the offset of what it shows or
of what was written. Kafka reads unknown tagged fields and ignores them, so its brokers answer
without this one. Only versions with tagged fields can have it: see ``Api.is_flexible``.

KIP-482 reserves no range of tags for others. Kafka's own tags are contiguous from 0 in each
structure, and vendors of Kafka use those from 10000. Ours is "ACL" in ASCII, far from both.

Source: KIP-482; docs/acl-offsets.md specifies the field for other clients.
"""

from __future__ import annotations

import struct
from typing import Final

from authorizerd.acl.change_guard import ANY_OFFSET
from authorizerd.protocol import primitives as wire
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import NO_TAGS
from authorizerd.protocol.kafka.body_reader import BodyReader

OFFSET_TAG: Final = int.from_bytes(b"ACL")

_OFFSET: Final = struct.Struct(">q")
_HEAD: Final = (
    wire.unsigned_varint(1) + wire.unsigned_varint(OFFSET_TAG) + wire.unsigned_varint(_OFFSET.size)
)


def read_offset_tag(reader: BodyReader) -> int | None:
    """Read the tagged fields at the end of a message. Return our offset, or None without the field.

    Raises:
        DecodeError: the field occurs twice, or is not an int64 of at least ``ANY_OFFSET``.
    """
    if not reader.flexible:
        return None
    offset: int | None = None
    for tag, start, end in reader.tags():
        if tag != OFFSET_TAG:
            continue
        if offset is not None:
            raise DecodeError(f"tag {OFFSET_TAG}: expected at most one, found another", start)
        if end - start != _OFFSET.size:
            raise DecodeError(
                f"tag {OFFSET_TAG}: expected an int64 of {_OFFSET.size} bytes, found"
                f" {end - start} bytes",
                start,
            )
        (offset,) = _OFFSET.unpack_from(reader.buffer, start)
        if offset < ANY_OFFSET:
            raise DecodeError(
                f"tag {OFFSET_TAG}: expected an offset, or {ANY_OFFSET} for any, found {offset}",
                start,
            )
    return offset


def encode_end(offset: int | None, *, flexible: bool) -> bytes:
    """Return the end of a message: its tagged fields, with the offset unless it is None.

    A version without tagged fields has no end, so the offset is left out.
    """
    if not flexible:
        return b""
    return NO_TAGS if offset is None else _HEAD + _OFFSET.pack(offset)
