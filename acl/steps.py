"""Long work in chunks: a generator that yields between them and returns the result.

A caller on the event loop lets other tasks run between two chunks. Any other caller runs all of
them at once (``finish``). Work yields after each item if items take microseconds, and after each
chunk of ``in_chunks`` if they take less.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

ITEMS_PER_CHUNK: Final = 64
"""Applying this many ACL changes, the costliest items, takes about a millisecond."""

Steps: TypeAlias = Generator[None, None, T]


def in_chunks(items: Iterable[T], most: int = ITEMS_PER_CHUNK) -> Iterator[list[T]]:
    """Yield ``items``, in order, in lists of at most ``most``."""
    rest = iter(items)
    while chunk := list(islice(rest, most)):
        yield chunk


def at_once(value: T) -> Steps[T]:
    """Return ``value`` as the result of work without chunks."""
    return value
    yield  # never reached: it makes this function a generator


def finish(steps: Steps[T]) -> T:
    """Run all chunks and return the result. Use it for small work, or outside the event loop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def free(items: list[Any], together: int = 1) -> Steps[None]:
    """Empty a list from its end, ``together`` items in each step.

    Freeing much at once would block the thread.
    """
    while items:
        del items[-together:]
        if items:
            yield
