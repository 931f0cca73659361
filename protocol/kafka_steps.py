"""Work on large messages, done in steps that each take well under a millisecond.

What has to be read or written whole may be larger than one turn on the event loop allows. So it
is a generator: whoever runs it may let others go first between its steps, and gets its result as
the value of the StopIteration that ends it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]

ITEMS_PER_STEP: Final = 64
BYTES_PER_STEP: Final = 2048
"""A step ends at whichever comes first. Bytes count because an item may hold many tags."""


def finish(steps: Steps[T]) -> T:
    """Return the result at once, all steps in one: for small messages, and off the event loop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
