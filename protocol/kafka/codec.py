"""Kafka's messages to bytes and back, as their classes declare them.

A structure without arrays is read and written in one call. Arrays are read and written in steps,
which other tasks may run between.

**Invariant:** whatever the bytes, the result is a message or a DecodeError. An announced number of
items reserves no memory.

Source: Kafka protocol guide; the generated readers and writers of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from authorizerd.acl.steps import Steps
from authorizerd.protocol import primitives as wire
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.arrays import array_of, free_arrays, tuple_of
from authorizerd.protocol.kafka.body_reader import ARRAY_ITEMS_MAX, BodyReader
from authorizerd.protocol.kafka.chunked_output import Chunk, Output
from authorizerd.protocol.kafka.declarations import (
    NO_DEFAULT,
    FieldType,
    fields_of,
)
from authorizerd.protocol.kafka.wire_types import Compiled, Plain, Read, Stepped, Write, find_type

M = TypeVar("M", bound=msgspec.Struct)

NO_TAGS: Final = b"\0"
"""The end of a flexible structure without tagged fields."""


def prepare(message: type, version: int, *, flexible: bool) -> None:
    """Prepare to read and write a message. Otherwise its first use takes longer."""
    _compile(message, version, flexible)


def decode(
    message: type[M],
    version: int,
    data: bytes | bytearray,
    *,
    flexible: bool,
    items_max: int = ARRAY_ITEMS_MAX,
    is_exact: bool = False,
) -> Steps[M]:
    """Return, in steps, the message at the start of ``data``.

    Args:
        items_max: the maximum number of items in all arrays together, nested ones included.
        is_exact: True to reject trailing bytes; Kafka ignores them.

    Raises:
        DecodeError: the bytes are not such a message. The error has the position.
    """
    reader = BodyReader(data, flexible=flexible, items_max=items_max)
    layout = _compile(cast("type", message), version, flexible)
    found: M = yield from _read(layout, reader, message.__name__)
    if is_exact and reader.remaining:
        yield from free_arrays(msgspec.structs.astuple(found))
        reader.expect_end(message.__name__)
    return found


def check(message: type, version: int, data: bytes | bytearray, *, flexible: bool) -> Steps[None]:
    """Check, in steps, that ``data`` is exactly one message.

    No item is kept, since freeing many at once would take milliseconds.

    Raises:
        DecodeError: it is not. The error has the position.
    """
    reader = BodyReader(data, flexible=flexible, keeps_items=False)
    yield from _read(_compile(message, version, flexible), reader, message.__name__)
    reader.expect_end(message.__name__)


def encode(message: type, version: int, value: object, *, flexible: bool) -> Steps[list[Chunk]]:
    """Return, in steps, the bytes of ``value`` in chunks.

    Args:
        value: a ``message``, or any object with the fields of this version. An array may be any
            sized iterable that is read once, so its items need not exist at the same time.

    Raises:
        ValueError: a string exceeds Kafka's maximum.
    """
    output = Output()
    compiled = _compile(message, version, flexible)
    if isinstance(compiled, Plain):
        output.add(compiled.write(value))
    else:
        yield from compiled.write(value, output)
    return output.finish()


def count_items(message: type, version: int, data: bytes | bytearray, *, flexible: bool) -> int:
    """Return the number of items of the array with which a message begins, without reading them.

    Raises:
        DecodeError: the bytes cannot contain that many items.
    """
    first = fields_of(message)[0]
    array = _compile_type(first.type, version, flexible, nullable=False)
    assert isinstance(array, Stepped), "the message begins with an array"
    return BodyReader(data, flexible=flexible).array_length(first.name, array.item_bytes_min)


def _read(compiled: Compiled, reader: BodyReader, what: str) -> Steps[Any]:
    if isinstance(compiled, Plain):
        return compiled.read(reader, what)
    return (yield from compiled.read(reader, what))


class _Field(NamedTuple):
    name: str
    type: Compiled
    default: object


@cache
def _compile(structure: type, version: int, flexible: bool) -> Compiled:
    """Return the encoding of a structure in a version."""
    fields: list[_Field] = []
    tagged: dict[int, _Field] = {}
    absent: dict[str, object] = {}
    for name, field_type, only, default in fields_of(structure):
        if not only.since <= version <= only.until or (only.tag is not None and not flexible):
            if default is not NO_DEFAULT:
                absent[name] = default
            continue
        nullable = field_type.is_nullable and version >= only.nullable_since
        compiled = _compile_type(field_type, version, flexible, nullable=nullable)
        if only.tag is None:
            fields.append(_Field(name, compiled, default))
        else:
            tagged[only.tag] = _Field(name, compiled, default)
    if not tagged and all(isinstance(each.type, Plain) for each in fields):
        return _plain_structure(structure, fields, absent, flexible)
    return _stepped_structure(structure, fields, tagged, absent, flexible)


def _compile_type(declared: FieldType, version: int, flexible: bool, *, nullable: bool) -> Compiled:
    item = declared.item
    if declared.is_array:
        each = _compile_type(FieldType(item), version, flexible, nullable=False)
        return tuple_of(array_of(each, flexible=flexible, nullable=nullable))
    if isinstance(item, str):
        return find_type(item, flexible=flexible, nullable=nullable)
    if not isinstance(item, type):
        return item.compile(version, flexible=flexible)
    assert not nullable, f"{item}: no structure that is served may be null"
    return _compile(item, version, flexible)


def _maker(
    structure: type, names: list[str], absent: Mapping[str, object]
) -> Callable[[Iterable[Any]], Any]:
    """Return a function that makes a structure of its values in the order of the wire."""
    if names and getattr(structure, "__match_args__", ()) == tuple(names):
        return lambda values: structure(*values)
    return lambda values: structure(**dict(zip(names, values, strict=True)), **absent)


def _plain_structure(
    structure: type, fields: list[_Field], absent: Mapping[str, object], has_end: bool
) -> Plain:
    names = [field.name for field in fields]
    make = _maker(structure, names, absent)
    reads: list[tuple[Read, str]] = [
        (field.type.read, field.name) for field in fields if isinstance(field.type, Plain)
    ]
    writes: list[Write] = [field.type.write for field in fields if isinstance(field.type, Plain)]
    end = NO_TAGS if has_end else b""

    def read(reader: BodyReader, _: str) -> Any:  # noqa: ANN401 - of the structure's class
        values = [read(reader, name) for read, name in reads]
        if has_end:
            reader.end_structure()
        return make(values)

    if len(names) == 1:
        [name], [write_only] = names, writes
        return Plain(read, lambda value: write_only(getattr(value, name)) + end, _size(fields, end))
    get = attrgetter(*names) if names else lambda _: ()

    def write(value: object) -> bytes:
        return b"".join([write(each) for write, each in zip(writes, get(value), strict=True)]) + end

    return Plain(read, write, _size(fields, end))


def _size(fields: list[_Field], end: bytes) -> int:
    return sum(field.type.bytes_min for field in fields) + len(end)


def _stepped_structure(
    structure: type,
    fields: list[_Field],
    tagged: Mapping[int, _Field],
    absent: Mapping[str, object],
    has_end: bool,
) -> Stepped:
    untagged = [(field.name, field.type) for field in fields]

    def read(reader: BodyReader, _: str) -> Steps[Any]:
        values: dict[str, Any] = {}
        try:
            for name, compiled in untagged:
                if isinstance(compiled, Plain):  # most are: a generator takes longer than the rest
                    values[name] = compiled.read(reader, name)
                else:
                    values[name] = yield from compiled.read(reader, name)
            if has_end:
                yield from _read_tagged(reader, tagged, values)
        except DecodeError:
            yield from free_arrays(values.values())
            raise
        return structure(**values, **absent)

    def write(value: object, output: Output) -> Steps[None]:
        for name, compiled in untagged:
            if isinstance(compiled, Plain):
                output.add(compiled.write(getattr(value, name)))
            else:
                yield from compiled.write(getattr(value, name), output)
        if has_end:
            yield from _write_tagged(tagged, value, output)

    return Stepped(read, write, _size(fields, NO_TAGS if has_end else b""))


def _read_tagged(
    reader: BodyReader, tagged: Mapping[int, _Field], values: dict[str, Any]
) -> Steps[None]:
    for tag, start, end in reader.tags():
        field = tagged.get(tag)
        if field is None:
            continue
        if field.name in values:
            raise DecodeError(f"tag {tag}: expected at most one, found another", start)
        place = reader.enter(start, end)
        values[field.name] = yield from _read(field.type, reader, field.name)
        reader.expect_end(f"tag {tag}")
        reader.enter(*place)


def _write(compiled: Compiled, value: Any, output: Output) -> Steps[None]:  # noqa: ANN401
    if isinstance(compiled, Plain):
        output.add(compiled.write(value))
    else:
        yield from compiled.write(value, output)


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
        yield from _write(field.type, field_value, part)
        output.add_part(wire.unsigned_varint, part)
