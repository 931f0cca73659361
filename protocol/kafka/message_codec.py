"""kio's entities to bytes and back.

kio defines the fields of a message; this module reads and writes.

Why not kio's own reader? It reserves memory for as many items as an array announces, so any
client could crash the daemon with six bytes. It also does not report the position of a fault. kio's
writer cannot stop halfway to let other tasks run.

**Invariant:** whatever the bytes, the result is an entity or a DecodeError.

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

from authorizerd.acl.steps import Steps
from authorizerd.protocol import primitives as wire
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.body_reader import (
    ARRAY_ITEMS_MAX,
    UUID_ZERO,
    BodyReader,
    array_length,
    byte_string,
    nullable_byte_string,
    nullable_string,
    string,
)
from authorizerd.protocol.kafka.chunked_output import Items, Output

E = TypeVar("E", bound=Entity)

Read = Callable[[BodyReader, str], Any]
Write = Callable[[Any], bytes]


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


_FIXED: Final[Mapping[str, tuple[Read, Write]]] = {
    "bool": (BodyReader.boolean, struct.Struct(">?").pack),
    "int8": (BodyReader.int8, struct.Struct(">b").pack),
    "int16": (BodyReader.int16, struct.Struct(">h").pack),
    "uint16": (_read_uint16, struct.Struct(">H").pack),
    "int32": (BodyReader.int32, struct.Struct(">i").pack),
    "int64": (BodyReader.int64, struct.Struct(">q").pack),
    "float64": (BodyReader.float64, struct.Struct(">d").pack),
    # Read error codes as integers: kio's enumeration lacks AUTHORIZER_NOT_READY.
    "error_code": (BodyReader.int16, struct.Struct(">h").pack),
    "timedelta_i32": (_read_duration, _write_duration),
    "timedelta_i64": (_read_long_duration, _write_long_duration),
    "uuid": (BodyReader.uuid, _write_uuid),
}


class _Codec(NamedTuple):
    """How to read and write a value that is not a structure."""

    read: Read
    write: Write


class _Field(NamedTuple):
    """The encoding of one field. For an array, ``item`` is the encoding of each item."""

    name: str
    item: _Codec | _Layout
    is_array: bool
    nullable: bool
    default: object


class _Layout(NamedTuple):
    """The encoding of a structure: its fields, in order, and its tagged fields."""

    entity_type: type[Entity]
    fields: tuple[_Field, ...]
    tagged: Mapping[int, _Field]
    flexible: bool


def decode_entity(
    entity_type: type[E], data: bytes | bytearray, *, items_max: int = ARRAY_ITEMS_MAX
) -> Steps[E]:
    """Return, in steps, the entity at the start of ``data``. Trailing bytes are ignored.

    Error codes are plain integers, durations are timedeltas, and an id of zeros is None.

    Args:
        items_max: the maximum number of items in all arrays together, nested ones included.

    Raises:
        DecodeError: the bytes are not such a message. The error has the position.
    """
    reader = BodyReader(data, flexible=entity_type.__flexible__, items_max=items_max)
    entity: E = yield from _read_entity(_layout(entity_type), reader, keeps_items=True)
    return entity


def check_entity(entity_type: type[Entity], data: bytes | bytearray) -> Steps[None]:
    """Check, in steps, that ``data`` is exactly one entity.

    No item is kept, since freeing many at once would take milliseconds.

    Raises:
        DecodeError: it is not. The error has the position.
    """
    reader = BodyReader(data, flexible=entity_type.__flexible__)
    yield from _read_entity(_layout(entity_type), reader, keeps_items=False)
    reader.expect_end(entity_type.__name__)


def encode_entity(entity_type: type[Entity], value: object) -> Steps[bytes]:
    """Return, in steps, the bytes of ``value`` as an ``entity_type``.

    Args:
        value: such an entity, or any object with its fields as attributes. An object with the
            fields of every version can be written as any of them.

    Raises:
        ValueError: a string exceeds Kafka's maximum.
    """
    chunks = yield from encode_entity_in_chunks(entity_type, value)
    return b"".join(chunks)


def encode_entity_in_chunks(
    entity_type: type[Entity], value: object
) -> Steps[list[bytes | bytearray]]:
    """Return, in steps, the bytes of a large ``value`` in chunks. See ``encode_entity``.

    An array may be any sized iterable that is read once, so its items need not exist at the same
    time.
    """
    output = Output()
    yield from _write_entity(_layout(entity_type), value, output)
    return output.finish()


def _read_entity(layout: _Layout, reader: BodyReader, *, keeps_items: bool) -> Steps[Any]:
    values: dict[str, object] = {}
    for field in layout.fields:
        if field.is_array:
            values[field.name] = yield from _read_array(field, reader, keeps_items)
        elif isinstance(field.item, _Codec):
            values[field.name] = field.item.read(reader, field.name)
        else:
            values[field.name] = yield from _read_entity(
                field.item, reader, keeps_items=keeps_items
            )
    if layout.flexible:
        for tag, start, end in reader.tags():
            known = layout.tagged.get(tag)
            if known is not None:
                place = reader.enter(start, end)
                read = _read_array if known.is_array else _read_item
                values[known.name] = yield from read(known, reader, keeps_items)
                reader.enter(*place)
    return layout.entity_type(**values)


def _read_item(field: _Field, reader: BodyReader, keeps_items: bool) -> Steps[object]:
    """Return one value of ``field``. If it is an array, return one of its items."""
    if isinstance(field.item, _Codec):
        return field.item.read(reader, field.name)
    return (yield from _read_entity(field.item, reader, keeps_items=keeps_items))


def _read_array(
    field: _Field, reader: BodyReader, keeps_items: bool
) -> Steps[tuple[object, ...] | None]:
    start = reader.position
    count = reader.nullable_array_length(field.name)
    if count is None:
        if field.nullable:
            return None
        raise DecodeError(f"{field.name}: expected an array, found null", start)
    items: list[object] = []
    for _ in range(count):
        item = yield from _read_item(field, reader, keeps_items)
        if keeps_items:
            items.append(item)
        if reader.ends_step():
            yield
    return tuple(items)


def _write_entity(layout: _Layout, value: object, output: Output) -> Steps[None]:
    for field in layout.fields:
        field_value: Any = getattr(value, field.name)
        yield from _write_field(field, field_value, layout.flexible, output)
    if layout.flexible:
        yield from _write_tagged(layout.tagged, value, output)


def _write_field(
    field: _Field,
    value: Any,  # noqa: ANN401 - of any type that a field may have
    flexible: bool,
    output: Output,
) -> Steps[None]:
    if field.is_array:
        yield from _write_array(field, value, flexible, output)
    else:
        yield from _write_item(field, value, output)


def _write_item(field: _Field, value: object, output: Output) -> Steps[None]:
    if isinstance(field.item, _Codec):
        output.add(field.item.write(value))
    else:
        yield from _write_entity(field.item, value, output)


def _write_array(
    field: _Field, values: Items[object] | None, flexible: bool, output: Output
) -> Steps[None]:
    if values is None:
        assert field.nullable, f"{field.name} may not be null"
        output.add(array_length(None, flexible=flexible))
        return
    output.add(array_length(len(values), flexible=flexible))
    for value in values:
        yield from _write_item(field, value, output)
        if output.ends_step():
            yield


def _write_tagged(tagged: Mapping[int, _Field], value: object, output: Output) -> Steps[None]:
    values = {
        tag: (field, field_value)
        for tag, field in sorted(tagged.items())
        # Kafka leaves out tagged fields that have their defaults.
        if (field_value := getattr(value, field.name, field.default)) != field.default
    }
    output.add(wire.unsigned_varint(len(values)))
    for tag, (field, field_value) in values.items():
        output.add(wire.unsigned_varint(tag))
        part = output.begin_part()
        yield from _write_field(field, field_value, True, part)
        output.add_part(wire.unsigned_varint, part)


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
    return _Layout(entity_type, tuple(untagged), tagged, flexible)


def _field(declared: Field[Any], flexible: bool) -> _Field:
    declared_type, nullable = _without_none(declared.type)
    is_array = get_origin(declared_type) is tuple
    item_type = get_args(declared_type)[0] if is_array else declared_type
    item: _Codec | _Layout
    if is_dataclass(item_type):
        assert is_array or not nullable, f"{declared.name}: no structure that is served may be null"
        item = _layout(cast("type[Entity]", item_type))
    else:
        kafka_type = declared.metadata["kafka_type"]
        item = _codec(kafka_type, flexible, nullable=nullable and not is_array)
    return _Field(declared.name, item, is_array, nullable, declared.default)


def _without_none(declared_type: object) -> tuple[Any, bool]:
    if get_origin(declared_type) is not UnionType:
        return declared_type, False
    [remaining] = [part for part in get_args(declared_type) if part is not NoneType]
    return remaining, True


def _codec(kafka_type: str, flexible: bool, *, nullable: bool) -> _Codec:
    read: Read
    write: Callable[..., bytes]
    match kafka_type, nullable:
        case "string", True:
            read, write = BodyReader.nullable_string, nullable_string
        case "string", False:
            read, write = BodyReader.string, string
        case "bytes", True:
            read, write = BodyReader.nullable_byte_string, nullable_byte_string
        case "bytes", False:
            read, write = BodyReader.byte_string, byte_string
        case _:
            return _Codec(*_FIXED[kafka_type])
    return _Codec(read, partial(write, flexible=flexible))
