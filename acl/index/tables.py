"""Tables by key: a small one is a plain dict, a large one is a persistent map.

A dict is twice as fast to look up as a ``Map``, and smaller if it has few entries. But a change
copies the whole dict, whereas it copies only one path of a ``Map``. So tables of more than
``SMALL_MAX`` entries are ``Map``s.

**Invariant:** nobody changes a table in place. The kind of a table depends only on the number of
its entries, so tables with equal entries are equal, however they were built.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias, TypeVar

from immutables import Map, MapMutation

K = TypeVar("K")
V = TypeVar("V")

SMALL_MAX: Final = 32

Table: TypeAlias = dict[K, V] | Map[K, V]
Growing: TypeAlias = dict[K, V] | MapMutation[K, V]
"""A table while it is changed: ``grow`` after each new key, ``freeze`` at the end.

Resizing a large dict would block the thread for milliseconds.
"""

PARTS: Final = 64
Parts: TypeAlias = tuple[dict[K, V], ...]
"""A dict in ``PARTS`` parts, which grow one by one; ``key`` is in part ``hash(key) % PARTS``.

It is faster to change than a ``Map``, for millions of keys of which no older state is needed.
"""


EMPTY: Final[dict[Any, Any]] = {}
"""The one empty table, since an empty dict takes memory."""


def set_entry(table: Table[K, V], key: K, value: V) -> Table[K, V]:
    """Return ``table`` with ``value`` at ``key``."""
    if not isinstance(table, dict):
        return table.set(key, value)
    changed = table.copy()
    changed[key] = value
    return to_table(changed)


def delete_entry(table: Table[K, V], key: K) -> Table[K, V]:
    """Return ``table`` without ``key``, which it contains; ``EMPTY`` if no other key is left."""
    if isinstance(table, dict):
        if len(table) == 1:
            return EMPTY
        changed = table.copy()
        del changed[key]
        return changed
    rest = table.delete(key)
    return rest if len(rest) > SMALL_MAX else dict(rest)


def to_table(entries: dict[K, V]) -> Table[K, V]:
    """Return the table of ``entries``, which must not be changed afterwards."""
    return entries if len(entries) <= SMALL_MAX else Map(entries)


def grow(table: Growing[K, V]) -> Growing[K, V]:
    """Return ``table``, or the same entries in a map if it is too large for a dict."""
    if isinstance(table, dict) and len(table) > SMALL_MAX:
        return Map(table).mutate()
    return table


def thaw(table: Table[K, V]) -> Growing[K, V]:
    """Return a copy of ``table`` for a few changes, without ``grow``, until ``freeze``."""
    return table.copy() if isinstance(table, dict) else table.mutate()


def freeze(table: Growing[K, V]) -> Table[K, V]:
    """Return the final table. ``table`` cannot be used afterwards."""
    if not table:
        return EMPTY
    if isinstance(table, dict):
        return to_table(table)
    frozen = table.finish()
    return frozen if len(frozen) > SMALL_MAX else dict(frozen)


def new_parts() -> Parts[Any, Any]:
    return tuple({} for _ in range(PARTS))


def pop_all(parts: Parts[K, V]) -> Iterator[tuple[K, V]]:
    """Remove and yield each entry."""
    for part in parts:
        while part:
            yield part.popitem()
