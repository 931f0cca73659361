"""Arrays of any type, read and written in steps.

**Invariant:** an announced number of items reserves no memory, and items before an invalid one are
freed in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final, TypeAlias

from authorizerd.acl.steps import Steps, free
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.body_reader import BodyReader, array_length
from authorizerd.protocol.kafka.chunked_output import Items, Output, Repeated
from authorizerd.protocol.kafka.step_sizes import ITEMS_PER_STEP
from authorizerd.protocol.kafka.wire_types import Compiled, Plain, Stepped

ReadMany: TypeAlias = Callable[[BodyReader, int, list[Any]], bool]

_ITEMS_AFTER_UNUSUAL: Final = 16


def array_of(
    item: Compiled, *, flexible: bool, nullable: bool = False, read_many: ReadMany | None = None
) -> Stepped:
    """Return the type of an array that is read as a list, so that it can be freed in steps.

    Args:
        read_many: reads some items of a flexible version quickly, and returns False if the next one
            is unusual.
    """

    def read(reader: BodyReader, what: str) -> Steps[list[object] | None]:
        start = reader.position
        count = reader.nullable_array_length(what, item.bytes_min)
        if count is None:
            if nullable:
                return None
            raise DecodeError(f"{what}: expected an array, found null", start)
        items: list[object] = []
        quick = read_many if reader.keeps_items and flexible else None
        try:
            yield from _read_items(reader, what, item, quick, count, items)
        except DecodeError:
            yield from free(items)
            raise
        return items

    def write(values: Items[object] | None, output: Output) -> Steps[None]:
        if values is None:
            assert nullable, "the array may not be null"
            output.add(array_length(None, flexible=flexible))
            return
        output.add(array_length(len(values), flexible=flexible))
        if isinstance(item, Plain):
            yield from write_plain(item, values, output)
            return
        for value in values:
            yield from item.write(value, output)
            if output.ends_step(1):
                yield

    return Stepped(read, write, 1 if flexible else 4, item.bytes_min)


def tuple_of(array: Stepped) -> Stepped:
    """Return the type of an array that is read as a tuple."""

    def read(reader: BodyReader, what: str) -> Steps[tuple[object, ...] | None]:
        items = yield from array.read(reader, what)
        return None if items is None else tuple(items)

    return array._replace(read=read)


def _read_items(
    reader: BodyReader,
    what: str,
    item: Compiled,
    read_many: ReadMany | None,
    count: int,
    items: list[object],
) -> Steps[None]:
    while read_many is not None and (left := count - len(items)) > 0:
        if not read_many(reader, left, items):
            some = min(left, _ITEMS_AFTER_UNUSUAL)
            yield from _read_each(reader, what, item, some, items)
        yield
    yield from _read_each(reader, what, item, count - len(items), items)


def _read_each(
    reader: BodyReader, what: str, item: Compiled, count: int, items: list[object]
) -> Steps[None]:
    keeps, ends_step = reader.keeps_items, reader.ends_step
    if isinstance(item, Plain):
        read = item.read
        for _ in range(count):
            value = read(reader, what)
            if keeps:
                items.append(value)
            if ends_step():
                yield
        return
    for _ in range(count):
        value = yield from item.read(reader, what)
        if keeps:
            items.append(value)
        if ends_step():
            yield


def write_plain(item: Plain, values: Items[Any], output: Output) -> Steps[None]:
    """Write items without arrays, in steps."""
    write = item.write
    if isinstance(values, Repeated):
        yield from output.repeat(write(values.item), len(values))
        return
    remaining = iter(values)
    while some := [write(value) for value in islice(remaining, ITEMS_PER_STEP)]:
        output.add(b"".join(some))
        if output.ends_step(len(some)):
            yield


def free_arrays(values: Iterable[object]) -> Steps[None]:
    """Free arrays in steps: an exception would free all at once and block the event loop."""
    for value in values:
        if isinstance(value, list):
            yield from free(value)
