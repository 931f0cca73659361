"""The types of the fields of Kafka's messages, as annotations and as bytes.

Source: Kafka protocol guide, "Protocol Primitive Types".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from authorizerd.acl.steps import Steps
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.body_reader import (
    UUID_ZERO,
    BodyReader,
    byte_string,
    nullable_byte_string,
    nullable_string,
    string,
)
from authorizerd.protocol.kafka.chunked_output import Output

Read: TypeAlias = Callable[[BodyReader, str], Any]
Write: TypeAlias = Callable[[Any], bytes]


class Plain(NamedTuple):
    """A type without arrays. A value is read from at least ``bytes_min`` bytes."""

    read: Read
    write: Write
    bytes_min: int


class Stepped(NamedTuple):
    """A type whose values are read and written in steps. An item of an array has a least size."""

    read: Callable[[BodyReader, str], Steps[Any]]
    write: Callable[[Any, Output], Steps[None]]
    bytes_min: int
    item_bytes_min: int = 1


Compiled: TypeAlias = Plain | Stepped


class CustomType(Protocol):
    """A type of its own, as the metadata of an annotation."""

    def compile(self, version: int, *, flexible: bool) -> Compiled:
        """Return the encoding in a version."""


def _read_duration(reader: BodyReader, what: str) -> timedelta:
    return timedelta(milliseconds=reader.int32(what))


def _write_duration(duration: timedelta) -> bytes:
    # Round, since the product of floats can be just below the whole number.
    return struct.pack(">i", round(duration.total_seconds() * 1000))


def _read_long_duration(reader: BodyReader, what: str) -> timedelta:
    start = reader.position
    duration_ms = reader.int64(what)
    try:
        return timedelta(milliseconds=duration_ms)
    except OverflowError:
        raise DecodeError(
            f"{what}: a duration of {duration_ms} ms is out of range", start
        ) from None


def _write_long_duration(duration: timedelta) -> bytes:
    return struct.pack(">q", round(duration.total_seconds() * 1000))


def _read_uint16(reader: BodyReader, what: str) -> int:
    return reader.int16(what) & 0xFFFF


def _write_uuid(id: UUID | None) -> bytes:
    return (id or UUID_ZERO).bytes


INT8_BYTES: Final = {code: struct.pack(">b", code) for code in range(-128, 128)}

_FIXED: Final[Mapping[str, Plain]] = {
    "bool": Plain(BodyReader.boolean, struct.Struct(">?").pack, 1),
    "int8": Plain(BodyReader.int8, INT8_BYTES.__getitem__, 1),
    "int16": Plain(BodyReader.int16, struct.Struct(">h").pack, 2),
    "uint16": Plain(_read_uint16, struct.Struct(">H").pack, 2),
    "int32": Plain(BodyReader.int32, struct.Struct(">i").pack, 4),
    "int64": Plain(BodyReader.int64, struct.Struct(">q").pack, 8),
    "float64": Plain(BodyReader.float64, struct.Struct(">d").pack, 8),
    "duration": Plain(_read_duration, _write_duration, 4),
    "long duration": Plain(_read_long_duration, _write_long_duration, 8),
    "uuid": Plain(BodyReader.uuid, _write_uuid, 16),
}
_TEXTS: Final[Mapping[tuple[str, bool], tuple[Read, Callable[..., bytes], int]]] = {
    ("string", False): (BodyReader.string, string, 2),
    ("string", True): (BodyReader.nullable_string, nullable_string, 2),
    ("bytes", False): (BodyReader.byte_string, byte_string, 4),
    ("bytes", True): (BodyReader.nullable_byte_string, nullable_byte_string, 4),
    ("range", False): (BodyReader.byte_range, byte_string, 4),
    ("range", True): (BodyReader.nullable_byte_range, nullable_byte_string, 4),
}


def find_type(kind: str, *, flexible: bool, nullable: bool) -> Plain:
    """Return how a type of the annotations below is read and written."""
    if kind in _FIXED:
        return _FIXED[kind]
    read, write, bytes_min = _TEXTS[kind, nullable]
    return Plain(read, partial(write, flexible=flexible), 1 if flexible else bytes_min)


boolean: TypeAlias = Annotated[bool, "bool"]
int8: TypeAlias = Annotated[int, "int8"]
int16: TypeAlias = Annotated[int, "int16"]
uint16: TypeAlias = Annotated[int, "uint16"]
int32: TypeAlias = Annotated[int, "int32"]
int64: TypeAlias = Annotated[int, "int64"]
float64: TypeAlias = Annotated[float, "float64"]
text: TypeAlias = Annotated[str, "string"]
data: TypeAlias = Annotated[bytes, "bytes"]
byte_range: TypeAlias = Annotated[Any, "range"]
"""Bytes that are not copied when they are read: the bounds of a byte string in the message."""
duration: TypeAlias = Annotated[timedelta, "duration"]
long_duration: TypeAlias = Annotated[timedelta, "long duration"]
uuid: TypeAlias = Annotated[UUID | None, "uuid"]
"""An id. Zeros are None, Kafka's null."""
