"""kio's entities to bytes and back: kio says which fields a message has, this reads and writes.

kio's own reader is not used. It reserves memory for as many items as an array announces, and where
that fails the process ends: six bytes from anyone would stop the daemon. Nor does it say at which
byte a message breaks. kio's writer cannot stop half-way to let others go first.

Whatever the bytes, the result is an entity or a DecodeError.

Source: kio.schema, generated from Kafka's message definitions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import timedelta
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, TypeVar, cast, get_args, get_origin
from uuid import UUID

from kio.static.protocol import Entity

from acl.steps import Steps, finish
from protocol import wire
from protocol.errors import DecodeError
from protocol.kafka_output import Items, Output
from protocol.kafka_wire import (
    ARRAY_ITEMS_MAX,
    UUID_ZERO,
    BodyReader,
    array_length,
    byte_string,
    nullable_byte_string,
    nullable_string,
    string,
)

E = TypeVar("E", bound=Entity)

Read = Callable[[BodyReader, str], Any]
Write = Callable[[Any], bytes]


def _read_duration(reader: BodyReader, what: str) -> timedelta:
    return timedelta(milliseconds=reader.int32(what))


def _write_duration(duration: timedelta) -> bytes:
    return struct.pack(">i", round(duration.total_seconds() * 1000))


def _read_long_duration(reader: BodyReader, what: str) -> timedelta:
    start = reader.position
    duration_ms = reader.int64(what)
    try:
        return timedelta(milliseconds=duration_ms)
    except OverflowError:
        raise DecodeError(f"{what}: {duration_ms} ms is no duration", start) from None


def _write_long_duration(duration: timedelta) -> bytes:
    return struct.pack(">q", round(duration.total_seconds() * 1000))


def _read_uint16(reader: BodyReader, what: str) -> int:
    return reader.int16(what) & 0xFFFF


def _write_uuid(id: UUID | None) -> bytes:
    return (id or UUID_ZERO).bytes


_FIXED: Final[Mapping[str, tuple[Read, Write]]] = {
    "bool": (BodyReader.boolean, struct.Struct(">?").pack),
    "int8": (BodyReader.int8, struct.Struct(">b").pack),
    "int16": (BodyReader.int16, struct.Struct(">h").pack),
    "uint16": (_read_uint16, struct.Struct(">H").pack),
    "int32": (BodyReader.int32, struct.Struct(">i").pack),
    "int64": (BodyReader.int64, struct.Struct(">q").pack),
    # kio's enumeration of error codes lacks AUTHORIZER_NOT_READY: they are read as plain integers.
    "error_code": (BodyReader.int16, struct.Struct(">h").pack),
    "timedelta_i32": (_read_duration, _write_duration),
    "timedelta_i64": (_read_long_duration, _write_long_duration),
    "uuid": (BodyReader.uuid, _write_uuid),
}


class _Field(NamedTuple):
    """How one field stands in the bytes; of an array, how each of its items does.

    ``layout`` is that of a structure, which may have arrays within.
    """

    name: str
    read: Read
    write: Write
    is_array: bool
    nullable: bool
    default: object
    layout: _Layout | None


class _Layout(NamedTuple):
    fields: tuple[_Field, ...]
    tagged: Mapping[int, _Field]
    flexible: bool


ReadItem = Callable[[_Field, BodyReader], object]


def decode_entity(
    entity_type: type[E], data: bytes | bytearray, *, items_max: int = ARRAY_ITEMS_MAX
) -> Steps[E]:
    """Return, in steps, the entity that ``data`` begins with; what follows it is ignored.

    Error codes are plain integers. A duration is a timedelta, an id of zeros is None.

    Args:    items_max: how many items an array may have.
    Raises:  DecodeError: the bytes are no such message, and where.
    """
    reader = BodyReader(data, flexible=entity_type.__flexible__, items_max=items_max)
    return _read_entity(entity_type, reader)


def check_entity(entity_type: type[Entity], data: bytes | bytearray) -> Steps[None]:
    """Find out, in steps, whether ``data`` is one entity and nothing more.

    Raises:
        DecodeError: it is not, and where.
    """
    reader = BodyReader(data, flexible=entity_type.__flexible__)
    yield from _read_entity(entity_type, reader, _pass_value)
    reader.expect_end(entity_type.__name__)


def encode_entity(entity_type: type[Entity], value: object) -> Steps[bytes]:
    """Return, in steps, the bytes of ``value`` as an ``entity_type``.

    Args:    value: such an entity, or any object that has its fields as attributes: one that has
                those of every version can be written as each of them.
    Raises:  ValueError: a string is longer than Kafka's are.
    """
    pieces = yield from encode_entity_in_pieces(entity_type, value)
    return b"".join(pieces)


def encode_entity_in_pieces(entity_type: type[Entity], value: object) -> Steps[list[bytes]]:
    """As ``encode_entity``, for what may be too large to be put together at once.

    An array may be anything with a length that can be gone through once, so that its items need
    not all be there at the same time.
    """
    output = Output()
    yield from _write_entity(_layout(entity_type), value, output)
    return output.finish()


def _read_value(field: _Field, reader: BodyReader) -> object:
    return field.read(reader, field.name)


def _pass_value(field: _Field, reader: BodyReader) -> None:
    """Read a value for its errors alone: to let go of many at once would take milliseconds."""
    field.read(reader, field.name)


def _read_entity(
    entity_type: type[E], reader: BodyReader, read_item: ReadItem = _read_value
) -> Steps[E]:
    layout = _layout(entity_type)
    values: dict[str, object] = {}
    for field in layout.fields:
        if field.is_array:
            values[field.name] = yield from _read_array(field, reader, read_item)
        else:
            values[field.name] = field.read(reader, field.name)
    if layout.flexible:
        for tag, start, end in reader.tags():
            known = layout.tagged.get(tag)
            if known is not None:
                read = _read_array_at_once if known.is_array else _read_value
                values[known.name] = read(known, reader.within(start, end))
    return entity_type(**values)


def _read_array_at_once(field: _Field, reader: BodyReader) -> tuple[object, ...] | None:
    return finish(_read_array(field, reader))


def _read_array(
    field: _Field, reader: BodyReader, read_item: ReadItem = _read_value
) -> Steps[tuple[object, ...] | None]:
    start = reader.position
    count = reader.nullable_array_length(field.name)
    if count is None:
        if field.nullable:
            return None
        raise DecodeError(f"{field.name}: null where an array must stand", start)
    items = yield from reader.items(count, partial(read_item, field))
    return tuple(items)


def _write_entity(layout: _Layout, value: object, output: Output) -> Steps[None]:
    for field in layout.fields:
        field_value: Any = getattr(value, field.name)
        if field.is_array:
            yield from _write_array(field, field_value, layout.flexible, output)
        else:
            output.add(field.write(field_value))
    if layout.flexible:
        output.add(_write_tagged(layout.tagged, value))


def _write_array(
    field: _Field, values: Items[object] | None, flexible: bool, output: Output
) -> Steps[None]:
    if values is None:
        assert field.nullable, f"{field.name} may not be null"
        output.add(array_length(None, flexible=flexible))
        return
    output.add(array_length(len(values), flexible=flexible))
    for value in values:
        if field.layout is None:
            output.add(field.write(value))
        else:
            yield from _write_entity(field.layout, value, output)
        if output.ends_step():
            yield


def _write_tagged(tagged: Mapping[int, _Field], value: object) -> bytes:
    pieces: list[bytes] = []
    count = 0
    for tag, field in sorted(tagged.items()):
        field_value: Any = getattr(value, field.name, field.default)
        if field_value == field.default:
            continue
        if field.is_array:
            output = Output()
            finish(_write_array(field, field_value, True, output))
            data = b"".join(output.finish())
        else:
            data = field.write(field_value)
        count += 1
        pieces += wire.unsigned_varint(tag), wire.unsigned_varint(len(data)), data
    return wire.unsigned_varint(count) + b"".join(pieces)


@cache
def _layout(entity_type: type[Entity]) -> _Layout:
    flexible = entity_type.__flexible__
    untagged: list[_Field] = []
    tagged: dict[int, _Field] = {}
    for declared in fields(entity_type):
        field = _field(declared, flexible)
        tag = declared.metadata.get("tag")
        if tag is None:
            untagged.append(field)
        else:
            assert field.default is not MISSING, f"{field.name}: a tagged field has a default"
            tagged[tag] = field
    return _Layout(tuple(untagged), tagged, flexible)


def _field(declared: Field[Any], flexible: bool) -> _Field:
    declared_type, nullable = _without_none(declared.type)
    is_array = get_origin(declared_type) is tuple
    item_type = get_args(declared_type)[0] if is_array else declared_type
    layout: _Layout | None = None
    if is_dataclass(item_type):
        entity_type = cast("type[Entity]", item_type)
        layout = _layout(entity_type)
        read, write = _entity_codec(entity_type)
    else:
        kafka_type = declared.metadata["kafka_type"]
        read, write = _codec(kafka_type, flexible, nullable=nullable and not is_array)
    return _Field(declared.name, read, write, is_array, nullable, declared.default, layout)


def _without_none(declared_type: object) -> tuple[Any, bool]:
    if get_origin(declared_type) is not UnionType:
        return declared_type, False
    [remaining] = [part for part in get_args(declared_type) if part is not NoneType]
    return remaining, True


def _entity_codec(entity_type: type[Entity]) -> tuple[Read, Write]:
    layout = _layout(entity_type)

    def read(reader: BodyReader, what: str) -> object:
        return finish(_read_entity(entity_type, reader))

    def write(value: object) -> bytes:
        output = Output()
        finish(_write_entity(layout, value, output))
        return b"".join(output.finish())

    return read, write


def _codec(kafka_type: str, flexible: bool, *, nullable: bool) -> tuple[Read, Write]:
    if kafka_type == "string":
        if nullable:
            return BodyReader.nullable_string, partial(nullable_string, flexible=flexible)
        return BodyReader.string, partial(string, flexible=flexible)
    if kafka_type == "bytes":
        if nullable:
            return BodyReader.nullable_byte_string, partial(nullable_byte_string, flexible=flexible)
        return BodyReader.byte_string, partial(byte_string, flexible=flexible)
    return _FIXED[kafka_type]
