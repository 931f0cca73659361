"""Long work done in short steps: a generator that yields between them, its result its value.

Whoever runs it may let others go first between two steps; who need not, runs them all at once.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

ITEMS_FREED_PER_STEP: Final = 256

Steps: TypeAlias = Generator[None, None, T]


def at_once(value: T) -> Steps[T]:
    """Return ``value`` as work that is done without a step."""
    return value
    yield


def finish(steps: Steps[T]) -> T:
    """Return the result at once, all steps in one: for small work, and off the event loop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def free(items: list[Any], per_step: int = ITEMS_FREED_PER_STEP) -> Steps[None]:
    """Empty a list from its end, in steps: freeing much at once holds the caller's thread."""
    while items:
        del items[-per_step:]
        if items:
            yield
