"""Long work in short steps: a generator that yields between them and returns the result.

A caller on the event loop lets other tasks run between two steps. Any other caller runs all steps
at once (``finish``).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

ITEMS_FREED_PER_STEP: Final = 256

Steps: TypeAlias = Generator[None, None, T]


def at_once(value: T) -> Steps[T]:
    """Return ``value`` as the result of work without steps."""
    return value
    yield  # never reached: it makes this function a generator


def finish(steps: Steps[T]) -> T:
    """Run all steps and return the result. Use it for small work, or outside the event loop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def free(items: list[Any], per_step: int = ITEMS_FREED_PER_STEP) -> Steps[None]:
    """Empty a list from its end, in steps. Freeing a long list at once would block the thread."""
    while items:
        del items[-per_step:]
        if items:
            yield
