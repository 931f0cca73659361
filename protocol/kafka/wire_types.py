"""Declare messages as classes: the types of fields, as annotations and as bytes.

A message is one class with the fields of all versions, in wire order. The annotation of a field
gives its type: one of those at the end of this module, another class, or an array of either.
``Only`` in the annotation says which versions have the field. A field that a version lacks is read
as its default, and is not written.

Source: Kafka protocol guide, "Protocol Primitive Types"; Kafka's message definitions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache, partial
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    Protocol,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

import msgspec

from authorizerd.acl.steps import Steps
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.body_reader import (
    UUID_ZERO,
    BodyReader,
    byte_string,
    compact_nullable_string,
    compact_string,
    nullable_byte_string,
    nullable_string,
    string,
)
from authorizerd.protocol.kafka.chunked_output import Output

Read: TypeAlias = Callable[[BodyReader, str], Any]
Write: TypeAlias = Callable[[Any], bytes]

ReadMany: TypeAlias = Callable[[BodyReader, int, list[Any]], bool]
"""A function that quickly reads up to a number of items of a flexible version.

It returns False if the next item is unusual.
"""


class InSteps(NamedTuple):
    """How a value with arrays is read and written in steps, unless ``is_small`` returns True."""

    read: Callable[[BodyReader, str], Steps[Any]]
    write: Callable[[Any, Output], Steps[None]]
    is_small: Callable[[Any], bool]


class Type(NamedTuple):
    """How a value of at least ``bytes_min`` bytes is read and written at once.

    ``in_steps`` is None if it has no arrays.
    """

    read: Read
    write: Write
    bytes_min: int
    in_steps: InSteps | None = None


class CustomType(Protocol):
    """A custom type, given as the metadata of an annotation."""

    def compile(self, version: int, *, flexible: bool) -> Type:
        """Return the encoding in a version."""


def _duration(read: Callable[[BodyReader, str], int], packed: struct.Struct) -> Type:
    none = bytes(packed.size)

    def read_duration(reader: BodyReader, what: str) -> timedelta:
        start = reader.position
        duration_ms = read(reader, what)
        try:
            return timedelta(milliseconds=duration_ms)
        except OverflowError:
            reason = f"{what}: a duration of {duration_ms} ms is out of range"
            raise DecodeError(reason, start) from None

    def write_duration(duration: timedelta) -> bytes:
        if not duration:  # the usual case
            return none
        # Round, since the product of floats can be just below the whole number.
        return packed.pack(round(duration.total_seconds() * 1000))

    return Type(read_duration, write_duration, packed.size)


def _read_uint16(reader: BodyReader, what: str) -> int:
    return reader.int16(what) & 0xFFFF


def _write_uuid(id: UUID | None) -> bytes:
    return (id or UUID_ZERO).bytes


INT8_BYTES: Final = {code: struct.pack(">b", code) for code in range(-128, 128)}

_FIXED: Final[Mapping[str, Type]] = {
    "bool": Type(BodyReader.boolean, struct.Struct(">?").pack, 1),
    "int8": Type(BodyReader.int8, INT8_BYTES.__getitem__, 1),
    "int16": Type(BodyReader.int16, struct.Struct(">h").pack, 2),
    "uint16": Type(_read_uint16, struct.Struct(">H").pack, 2),
    "int32": Type(BodyReader.int32, struct.Struct(">i").pack, 4),
    "int64": Type(BodyReader.int64, struct.Struct(">q").pack, 8),
    "float64": Type(BodyReader.float64, struct.Struct(">d").pack, 8),
    "duration": _duration(BodyReader.int32, struct.Struct(">i")),
    "long duration": _duration(BodyReader.int64, struct.Struct(">q")),
    "uuid": Type(BodyReader.uuid, _write_uuid, 16),
    "raw uuid": Type(lambda reader, what: reader.take(16, what), bytes, 16),
}
_STRINGS: Final[Mapping[tuple[bool, bool], Type]] = {
    (False, False): Type(BodyReader.string, string, 2),
    (False, True): Type(BodyReader.nullable_string, nullable_string, 2),
    (True, False): Type(BodyReader.string, compact_string, 1),
    (True, True): Type(BodyReader.nullable_string, compact_nullable_string, 1),
}
"""Keyed by whether the message is flexible, and the string nullable."""
_BYTES: Final[Mapping[tuple[str, bool], tuple[Read, Callable[..., bytes]]]] = {
    ("bytes", False): (BodyReader.byte_string, byte_string),
    ("bytes", True): (BodyReader.nullable_byte_string, nullable_byte_string),
    ("range", False): (BodyReader.byte_range, byte_string),
    ("range", True): (BodyReader.nullable_byte_range, nullable_byte_string),
}


def find_type(kind: str, *, flexible: bool, nullable: bool) -> Type:
    """Return how to read and write one of the annotated types below."""
    if kind in _FIXED:
        return _FIXED[kind]
    if kind == "string":
        return _STRINGS[flexible, nullable]
    read, write = _BYTES[kind, nullable]
    return Type(read, partial(write, flexible=flexible), 1 if flexible else 4)


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
"""Bytes that are not copied when read: the value is the bounds of a byte string in the message."""
duration: TypeAlias = Annotated[timedelta, "duration"]
long_duration: TypeAlias = Annotated[timedelta, "long duration"]
uuid: TypeAlias = Annotated[UUID | None, "uuid"]
"""An id. Zeros are None, Kafka's null."""
raw_uuid: TypeAlias = Annotated[bytes, "raw uuid"]


NO_DEFAULT: Final = msgspec.NODEFAULT

NEVER: Final = 0x7FFF
"""Above every version."""


class Only(NamedTuple):
    """The versions that have a field, and its tag if it is a tagged field.

    ``absent`` is its value in versions without it; by default, its value in a new message.
    """

    since: int = 0
    until: int = NEVER
    nullable_since: int = 0
    tag: int | None = None
    absent: object = NO_DEFAULT


class FieldType(NamedTuple):
    """The type of a field: the name of one in ``wire_types``, a custom type, or a structure."""

    item: str | CustomType | type
    is_array: bool = False
    is_nullable: bool = False
    read_many: ReadMany | None = None


class Field(NamedTuple):
    """A declared field. ``default`` is its value in versions without it."""

    name: str
    type: FieldType
    only: Only
    default: object


@cache
def fields_of(structure: type) -> tuple[Field, ...]:
    """Return the declared fields of all versions, in wire order."""
    hints = get_type_hints(structure, include_extras=True)
    defaults = {field.name: field.default for field in msgspec.structs.fields(structure)}
    fields = []
    for name, hint in hints.items():
        field_type, only = _parse(hint)
        default = defaults[name] if only.absent is NO_DEFAULT else only.absent
        fields.append(Field(name, field_type, only, default))
    return tuple(fields)


def _parse(hint: Any) -> tuple[FieldType, Only]:  # noqa: ANN401 - any annotation
    """Return the type in an annotation, and the versions that have the field."""
    if get_origin(hint) is Annotated:
        marks = hint.__metadata__
        only = next((mark for mark in marks if isinstance(mark, Only)), Only())
        own = [mark for mark in marks if not isinstance(mark, Only)]
        if own and not callable(own[-1]):
            return FieldType(own[-1], is_nullable=NoneType in get_args(hint.__origin__)), only
        return _parse(hint.__origin__)[0]._replace(read_many=own[-1] if own else None), only
    if get_origin(hint) in (UnionType, Union):
        [hint] = [argument for argument in get_args(hint) if argument is not NoneType]
        return _parse(hint)[0]._replace(is_nullable=True), Only()
    if get_args(hint):  # a generic type has the type of its items
        item = _parse(get_args(hint)[0])[0]
        return item._replace(is_array=True, is_nullable=False), Only()
    return FieldType(hint), Only()
