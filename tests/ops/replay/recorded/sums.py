"""Rows of sums, and an oracle that sums them up. Spark's workers import this module."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

LABELS: Final = (None, "", "a", "Z", "ü", "😀", "Ⅻ", "\uffff")


class Sums(NamedTuple):
    """A row with a key of each type, and all figures."""

    number: int
    label: str | None
    is_alone: bool
    events: int
    tuples: int
    first_ms: int
    last_ms: int


def sum_by_scan(some: Iterable[Sums]) -> list[Sums]:
    """Return the sums, sorted, from lists of all rows of a key."""
    found: dict[tuple[int, str | None, bool], list[Sums]] = {}
    for row in some:
        found.setdefault(row[:3], []).append(row)
    ordered = sorted(found, key=lambda key: (key[0], key[1] is not None, key[1] or "", key[2]))
    return [
        Sums(
            *key, sum(row.events for row in found[key]), sum(row.tuples for row in found[key]),
            min(row.first_ms for row in found[key]), max(row.last_ms for row in found[key]),
        )
        for key in ordered
    ]  # fmt: skip


def find_all(some: Iterable[Sums]) -> Iterator[Sums]:
    yield from some
