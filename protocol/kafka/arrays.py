"""Arrays of any type, read and written at once or in steps.

**Invariant:** an announced number of items reserves no memory, and the items before an invalid one
are freed in steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Any, Final

from authorizerd.acl.steps import Steps, free
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.body_reader import BodyReader, array_length
from authorizerd.protocol.kafka.chunked_output import ITEMS_PER_STEP, Items, Output, Repeated
from authorizerd.protocol.kafka.wire_types import InSteps, ReadMany, Type

SMALL_ITEMS_MAX: Final = 4
"""The maximum number of items in an array that is written at once."""
_SMALL_PER_STEP: Final = ITEMS_PER_STEP // SMALL_ITEMS_MAX
_ITEMS_AFTER_UNUSUAL: Final = 16


def array_of(
    item: Type, *, flexible: bool, nullable: bool = False, read_many: ReadMany | None = None
) -> Type:
    """Return the type of an array that is read as a list, so that it can be freed in steps."""
    write_item = item.write
    lengths = [array_length(count, flexible=flexible) for count in range(SMALL_ITEMS_MAX + 1)]
    read_length = BodyReader.nullable_array_length if nullable else BodyReader.array_length

    def read(reader: BodyReader, what: str) -> list[object] | None:
        count = read_length(reader, what, item.bytes_min)
        return None if count is None else [item.read(reader, what) for _ in range(count)]

    def write(values: Items[object] | None) -> bytes:
        if values is None:
            assert nullable, "the array may not be null"
            return array_length(None, flexible=flexible)
        count = len(values)
        length = lengths[count] if count < len(lengths) else array_length(count, flexible=flexible)
        return length + b"".join([write_item(value) for value in values])

    def read_in_steps(reader: BodyReader, what: str) -> Steps[list[object] | None]:
        count = read_length(reader, what, item.bytes_min)
        if count is None:
            return None
        items: list[object] = []
        quick = read_many if flexible else None
        try:
            yield from _read_items(reader, what, item, quick, count, items)
        except DecodeError:
            yield from free(items)
            raise
        return items

    def write_in_steps(values: Items[object] | None, output: Output) -> Steps[None]:
        if values is None:
            output.add(write(None))
            return
        output.add(array_length(len(values), flexible=flexible))
        yield from _write_items(item, values, output)

    in_steps = InSteps(read_in_steps, write_in_steps, partial(_is_small, item))
    return Type(read, write, 1 if flexible else 4, in_steps)


def _is_small(item: Type, values: Items[object] | None) -> bool:
    if values is None or (count := len(values)) == 0:
        return True
    if count > SMALL_ITEMS_MAX or item.in_steps is None:
        return count <= SMALL_ITEMS_MAX
    # Other items may be created while they are iterated over, which happens only once.
    return isinstance(values, (list, tuple)) and all(map(item.in_steps.is_small, values))


def _read_items(
    reader: BodyReader,
    what: str,
    item: Type,
    read_many: ReadMany | None,
    count: int,
    items: list[object],
) -> Steps[None]:
    while read_many is not None and (left := count - len(items)) > 0:
        if not read_many(reader, left, items):
            yield from _read_each(reader, what, item, min(left, _ITEMS_AFTER_UNUSUAL), items)
        yield
    yield from _read_each(reader, what, item, count - len(items), items)


def _read_each(
    reader: BodyReader, what: str, item: Type, count: int, items: list[object]
) -> Steps[None]:
    keep = items.append
    read, in_steps, ends_step = item.read, item.in_steps, reader.ends_step
    for _ in range(count):
        if in_steps is None:
            keep(read(reader, what))
        else:
            keep((yield from in_steps.read(reader, what)))
        if ends_step():
            yield


def _write_items(item: Type, values: Items[Any], output: Output) -> Steps[None]:
    write, in_steps = item.write, item.in_steps
    if isinstance(values, Repeated):
        output.repeat(write(values.item), len(values))
    elif in_steps is None:
        remaining = iter(values)
        while chunk := [write(value) for value in islice(remaining, ITEMS_PER_STEP)]:
            output.add(b"".join(chunk))
            if output.ends_step(len(chunk)):
                yield
    else:
        small: list[bytes] = []
        check_size = in_steps.is_small
        for value in values:
            if is_small := check_size(value):
                small.append(write(value))
                if len(small) < _SMALL_PER_STEP:
                    continue
            output.add(b"".join(small))
            small.clear()
            if not is_small:
                yield from in_steps.write(value, output)
            if is_small or output.ends_step(1):
                yield
        output.add(b"".join(small))


def free_arrays(values: Iterable[object]) -> Steps[None]:
    """Free arrays in steps: an exception would free everything at once and block the event loop."""
    for value in values:
        if isinstance(value, list):
            yield from free(value)
