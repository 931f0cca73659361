"""The result of one item of work that another task does: KIP-504's CompletionStage."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, TypeVar

import trio

T = TypeVar("T")


class Completion(Generic[T]):
    """An awaitable that ends once, with a value or an error; any number of tasks may wait.

    Whoever waits may be cancelled: the work goes on, and its result stays to be awaited again.
    """

    def __init__(self) -> None:
        self._done = trio.Event()
        self._value: T
        self._error: Exception | None = None

    @classmethod
    def of(cls, value: T) -> Completion[T]:
        """Return one that is done already."""
        completion = cls()
        completion.succeed(value)
        return completion

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def succeed(self, value: T) -> None:
        assert not self.is_done, "a completion ends once"
        self._value = value
        self._done.set()

    def fail(self, error: Exception) -> None:
        assert not self.is_done, "a completion ends once"
        self._error = error
        self._done.set()

    def result(self) -> T:
        """Return the value, or raise the error, of one that is done."""
        assert self.is_done, "not done yet"
        if self._error is not None:
            raise self._error
        return self._value

    async def wait_until_done(self) -> None:
        """Wait for the end, whichever it is."""
        await self._done.wait()

    async def wait(self) -> T:
        """Wait for the end; return the value or raise the error."""
        await self.wait_until_done()
        return self.result()

    def __await__(self) -> Generator[Any, Any, T]:
        return self.wait().__await__()
