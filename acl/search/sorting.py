"""Sort in short steps, and select one page of many names.

Why not ``sorted``? Sorting ten thousand names at once would block the thread for milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, islice
from typing import Any, Final, TypeVar

from authorizerd.acl.steps import Steps

T = TypeVar("T")
Ordered = TypeVar("Ordered", bound="str | tuple[Any, ...]")

ITEMS_PER_STEP: Final = 128
ITEMS_PER_CHUNK: Final = 512
CHUNKS_PER_STEP: Final = 64


def sort_in_steps(items: Collection[Ordered]) -> Steps[tuple[Ordered, ...]]:
    """Return distinct items in ascending order."""
    if len(items) <= ITEMS_PER_CHUNK:
        return tuple(sorted(items))
    rest = iter(items)
    chunks: list[list[Ordered]] = []
    while chunk := sorted(islice(rest, ITEMS_PER_CHUNK)):
        chunks.append(chunk)
        yield
    merged = yield from merge_in_steps(chunks)
    return tuple((yield from take_in_steps(merged, None)))


def merge_in_steps(chunks: Sequence[Iterable[T]]) -> Steps[Iterator[T]]:
    """Return, in steps, an iterator over the items of sorted chunks, in ascending order.

    Why not ``merge`` alone? It first reads an item of every chunk, and there may be thousands.
    """
    merging: Sequence[Iterable[Any]] = chunks
    while len(merging) > CHUNKS_PER_STEP:
        fewer: list[Iterable[Any]] = []
        for start in range(0, len(merging), CHUNKS_PER_STEP):
            merged = merge(*merging[start : start + CHUNKS_PER_STEP])
            # Reading the first item here makes that of the next merge short.
            fewer.append(chain(list(islice(merged, 1)), merged))
            yield
        merging = fewer
    return iter(merge(*merging))


def take_in_steps(items: Iterable[Ordered], count: int | None) -> Steps[list[Ordered]]:
    """Return the first ``count`` different items of a sorted iterable; None returns all."""
    taken: list[Ordered] = []
    for number, item in enumerate(items, 1):
        if not taken or item != taken[-1]:
            if len(taken) == count:
                break
            taken.append(item)
        if not number % ITEMS_PER_STEP:
            yield
    return taken


class SmallestNames:
    """Collect names in any order; return the first of those that follow a given name.

    It holds at most about three times as many names as it returns.

    Args:
        after: only names that sort after this one count; None: all names count.
        count: how many names to return, at least 1; None: all.
    """

    __slots__ = ("_after", "_below", "_chunks", "_count", "_names")

    def __init__(self, after: str | None, count: int | None) -> None:
        self._after = after
        self._count = count
        self._below: str | None = None
        """Names that sort here or later cannot be among the first."""
        self._names: list[str] = []
        self._chunks: list[list[str]] = []

    def wants(self, name: str) -> bool:
        """Return True if ``name`` can be among the names to return."""
        after, below = self._after, self._below
        return (after is None or name > after) and (below is None or name < below)

    def add(self, name: str) -> None:
        """Collect a name that ``wants`` has accepted. A repeated name counts once."""
        self._names.append(name)

    def compact(self) -> Steps[None]:
        """Sort what came since the last call, and drop what is not needed.

        Call it once per step, before the number of new names exceeds what one step may sort.
        """
        if len(self._names) < ITEMS_PER_CHUNK:
            return
        self._close_chunk()
        yield
        count = self._count
        if count is not None and sum(map(len, self._chunks)) >= 2 * (count + ITEMS_PER_CHUNK):
            merged = yield from merge_in_steps(self._chunks)
            kept = yield from take_in_steps(merged, count)
            self._chunks = [kept]
            if len(kept) == count:
                self._below = kept[-1]

    def finish(self) -> Steps[list[str]]:
        """Return the names in ascending order."""
        self._close_chunk()
        yield
        merged = yield from merge_in_steps(self._chunks)
        return (yield from take_in_steps(merged, self._count))

    def _close_chunk(self) -> None:
        self._names.sort()
        self._chunks.append(self._names)
        self._names = []
