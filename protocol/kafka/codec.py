"""Convert Kafka's messages to bytes and back, as their classes declare them.

Small messages are read and written in one call. Arrays of larger messages are processed in steps,
between which other tasks may run.

**Invariant:** whatever the bytes, the result is a message or a DecodeError. An announced number of
items reserves no memory.

Source: Kafka protocol guide; the generated readers and writers of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from authorizerd.acl.steps import Steps
from authorizerd.protocol import primitives as wire
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.arrays import array_of, free_arrays
from authorizerd.protocol.kafka.body_reader import ARRAY_ITEMS_MAX, BodyReader
from authorizerd.protocol.kafka.chunked_output import Chunk, Output
from authorizerd.protocol.kafka.wire_types import (
    NO_DEFAULT,
    FieldType,
    InSteps,
    Type,
    fields_of,
    find_type,
)

M = TypeVar("M", bound=msgspec.Struct)

NO_TAGS: Final = b"\0"
"""The end of a flexible structure without tagged fields."""
_SMALL_BYTES_MAX: Final = 512
"""The maximum size of a message that is read at once, in well under a millisecond."""


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
    name = message.__name__
    compiled = _compile(message, version, flexible)
    if compiled.in_steps is None or len(data) <= _SMALL_BYTES_MAX:
        found: M = compiled.read(reader, name)
    else:
        found = yield from compiled.in_steps.read(reader, name)
    if is_exact and reader.remaining:
        yield from free_arrays(msgspec.structs.astuple(found))
        reader.expect_end(name)
    return found


def encode(message: type, version: int, value: object, *, flexible: bool) -> Steps[list[Chunk]]:
    """Return, in steps, the bytes of ``value`` in chunks.

    Args:
        value: a ``message``, or any object with the fields of this version. An array may be any
            sized iterable that is read once, so its items need not exist at the same time.

    Raises:
        ValueError: a string exceeds Kafka's maximum.
    """
    compiled = _compile(message, version, flexible)
    if compiled.in_steps is None or compiled.in_steps.is_small(value):
        return [compiled.write(value)]
    output = Output()
    yield from compiled.in_steps.write(value, output)
    return output.finish()


def count_items(message: type, version: int, data: bytes | bytearray, *, flexible: bool) -> int:
    """Return the number of items of the array with which a message begins, without reading them.

    Raises:
        DecodeError: the bytes cannot contain that many items.
    """
    first = fields_of(message)[0]
    item = _compile_type(FieldType(first.type.item), version, flexible, nullable=False)
    return BodyReader(data, flexible=flexible).array_length(first.name, item.bytes_min)


class Shape(NamedTuple):
    """A class that declares a structure's fields, and ``make``, which creates a value from them.

    A structure that is part of another one has no end of its own.
    """

    declared: type
    make: Callable[..., Any] | None = None
    is_part: bool = False

    def compile(self, version: int, *, flexible: bool) -> Type:
        return _compile(self.declared, version, flexible, self.make, not self.is_part)


class _Tagged(NamedTuple):
    name: str
    type: Type
    default: object


def _compile_structure(
    declared: type,
    version: int,
    flexible: bool,
    make: Callable[..., Any] | None = None,
    has_end: bool = True,
) -> Type:
    """Return the encoding of a structure in a version. ``make`` creates it from its fields."""
    types: dict[str, Type] = {}
    tagged: dict[int, _Tagged] = {}
    absent: dict[str, object] = {}
    for name, field_type, only, default in fields_of(declared):
        if not only.since <= version <= only.until or (only.tag is not None and not flexible):
            if default is not NO_DEFAULT:
                absent[name] = default
            continue
        nullable = field_type.is_nullable and version >= only.nullable_since
        compiled = _compile_type(field_type, version, flexible, nullable=nullable)
        if only.tag is None:
            types[name] = compiled
        else:
            tagged[only.tag] = _Tagged(name, compiled, default)
    end = _End(tagged if flexible and has_end else None)
    make = make or declared
    read, write, is_small = _generate(make, types, absent, end)
    bytes_min = sum(each.bytes_min for each in types.values()) + end.exists
    if all(each.in_steps is None for each in types.values()):
        return Type(read, write, bytes_min)
    read_in_steps, write_in_steps = _step(make, types, absent, end)
    return Type(read, write, bytes_min, InSteps(read_in_steps, write_in_steps, is_small))


_compile: Final[Callable[..., Type]] = cache(_compile_structure)


def _compile_type(declared: FieldType, version: int, flexible: bool, *, nullable: bool) -> Type:
    item = declared.item
    if declared.is_array:
        each = _compile_type(FieldType(item), version, flexible, nullable=False)
        return array_of(each, flexible=flexible, nullable=nullable, read_many=declared.read_many)
    if isinstance(item, str):
        return find_type(item, flexible=flexible, nullable=nullable)
    if not isinstance(item, type):
        return item.compile(version, flexible=flexible)
    assert not nullable, f"{item}: no structure in a served API may be null"
    return _compile(item, version, flexible)


class _End:
    """The end of a structure: its tagged fields, if the message is flexible."""

    def __init__(self, tagged: Mapping[int, _Tagged] | None) -> None:
        self.exists = tagged is not None
        self._tagged = dict(sorted(tagged.items())) if tagged else {}
        self.has_fields = bool(self._tagged)

    def read(self, reader: BodyReader) -> Mapping[str, Any]:
        """Return the values of the tagged fields, which are small."""
        values: dict[str, Any] = {}
        if reader.skip_no_tags():
            return values
        for tag, start, end in reader.tags():
            field = self._tagged.get(tag)
            if field is None:
                reader.has_unknown_tags = True
                continue
            if field.name in values:
                raise DecodeError(f"tag {tag}: expected at most one, found another", start)
            bounds = reader.enter(start, end)
            values[field.name] = field.type.read(reader, field.name)
            reader.expect_end(f"tag {tag}")
            reader.enter(*bounds)
        return values

    def write(self, value: object) -> bytes:
        parts: list[bytes] = []
        for tag, (name, field_type, default) in self._tagged.items():
            field_value = getattr(value, name, default)
            if field_value != default:  # Kafka omits fields that have their default
                data = field_type.write(field_value)
                parts.append(wire.unsigned_varint(tag) + wire.unsigned_varint(len(data)) + data)
        return wire.unsigned_varint(len(parts)) + b"".join(parts) if parts else NO_TAGS


def _step(
    make: Callable[..., Any], types: Mapping[str, Type], absent: Mapping[str, object], end: _End
) -> tuple[Callable[[BodyReader, str], Steps[Any]], Callable[[Any, Output], Steps[None]]]:
    """Return functions that read and write a structure with arrays in steps."""

    def read_in_steps(reader: BodyReader, _: str) -> Steps[Any]:
        values = dict(absent)
        try:
            for name, each in types.items():
                if each.in_steps is None:
                    values[name] = each.read(reader, name)
                else:
                    values[name] = yield from each.in_steps.read(reader, name)
            if end.exists:
                values.update(end.read(reader))
        except DecodeError:
            yield from free_arrays(values.values())
            raise
        return make(**values)

    def write_in_steps(value: object, output: Output) -> Steps[None]:
        for name, each in types.items():
            if each.in_steps is None:
                output.add(each.write(getattr(value, name)))
            else:
                yield from each.in_steps.write(getattr(value, name), output)
        if end.exists:
            output.add(end.write(value))

    return read_in_steps, write_in_steps


def _generate(
    make: Callable[..., Any], types: Mapping[str, Type], absent: Mapping[str, object], end: _End
) -> tuple[Callable[..., Any], Callable[[Any], bytes], Callable[[Any], bool]]:
    """Return functions that read and write a structure at once, and check whether it is small.

    They are compiled from text, like the methods of a dataclass: loops over the fields would take
    up to twice as long.
    """
    scope: dict[str, Any] = {"make": make, "absent": absent, "end": end}
    arguments, parts, small = [], [], ["True"]
    is_in_order = getattr(make, "__match_args__", ()) == tuple(types)
    for name, each in types.items():
        scope |= {f"read_{name}": each.read, f"write_{name}": each.write}
        value = f"read_{name}(reader, {name!r})"
        arguments.append(value if is_in_order else f"{name}={value}")
        parts.append(f"write_{name}(value.{name})")
        if each.in_steps is not None:
            scope[f"is_small_{name}"] = each.in_steps.is_small
            small.append(f"is_small_{name}(value.{name})")
    if absent:
        arguments.append("**absent")
    if end.has_fields:
        arguments.append("**end.read(reader)")
        parts.append("end.write(value)")
    elif end.exists:
        parts.append(repr(NO_TAGS))
    made = f"make({', '.join(arguments)})"
    if end.exists and not end.has_fields:
        made = f"({made}, reader.end_structure())[0]"

    def compile_function(text: str) -> Any:  # noqa: ANN401 - a function
        return eval(text, scope)  # noqa: S307 - of the names that a class declares

    return (
        compile_function(f"lambda reader, _: {made}"),
        compile_function(f"lambda value: b''.join([{', '.join(parts)}])"),
        compile_function(f"lambda value: {' and '.join(small)}"),
    )
