"""The result of work that another task does, one per item: KIP-504's CompletionStage."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast, overload

import trio

T = TypeVar("T")


class Completion(Generic[T]):
    """An awaitable that ends once, with a value or an error. Any number of tasks may wait for it.

    If a waiting task is cancelled, the work continues, and the result can be awaited again.
    """

    def __init__(self) -> None:
        self._done = trio.Event()
        self._value: T
        self._error: Exception | None = None

    @classmethod
    def of(cls, value: T) -> Completion[T]:
        """Return a completion that is already done."""
        completion = cls()
        completion.succeed(value)
        return completion

    @property
    def is_done(self) -> bool:
        """True once it has ended, with a value or an error."""
        return self._done.is_set()

    @property
    def error(self) -> Exception | None:
        """The error of a done completion, or None if it has a value."""
        assert self.is_done, "not done yet"
        return self._error

    @property
    def whole(self) -> Completion[Any]:
        """The completion that ends together with this one: itself, or that of the whole request."""
        return self

    def succeed(self, value: T) -> None:
        """End it with a value."""
        assert not self.is_done, "a completion ends once"
        self._value = value
        self._done.set()

    def fail(self, error: Exception) -> None:
        """End it with an error."""
        assert not self.is_done, "a completion ends once"
        self._error = error
        self._done.set()

    def result(self) -> T:
        """Return the value of a done completion, or raise its error."""
        error = self.error
        if error is not None:
            # Items share errors: without this, each raise would extend the same traceback.
            raise error.with_traceback(None)
        return self._value

    async def wait_until_done(self) -> None:
        """Wait for the end, whether it succeeds or fails."""
        await self._done.wait()

    async def wait(self) -> T:
        """Wait for the end. Return the value or raise the error."""
        await self.wait_until_done()
        return self.result()

    def __await__(self) -> Generator[Any, Any, T]:
        return self.wait().__await__()


class ItemCompletions(Sequence[Completion[T]]):
    """One completion per item, for items that end together. Each is created on access.

    Why not a list? A request may have hundreds of thousands of items, and creating, completing and
    freeing as many objects would block the event loop.

    Args:
        whole: its value has each item's value or error, in order. If it fails,
            every item fails with its error.
    """

    def __init__(self, whole: Completion[Sequence[T | Exception]], count: int) -> None:
        self._whole = whole
        self._count = count

    def __len__(self) -> int:
        return self._count

    @property
    def whole(self) -> Completion[Any]:
        """The completion with which all items end."""
        return self._whole

    @property
    def are_all_none(self) -> bool:
        """True if all items are done, and each has the value None."""
        whole = self._whole
        if not whole.is_done or whole.error is not None:
            return False
        return tuple(whole.result()).count(None) == self._count

    def __iter__(self) -> Iterator[Completion[T]]:
        return (_ItemCompletion(self._whole, place) for place in range(self._count))

    @overload
    def __getitem__(self, place: int) -> Completion[T]: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Completion[T]]: ...

    def __getitem__(self, place: int | slice) -> Completion[T] | Sequence[Completion[T]]:
        places = range(self._count)[place]
        if isinstance(places, int):
            return _ItemCompletion(self._whole, places)
        return [_ItemCompletion(self._whole, each) for each in places]


class _ItemCompletion(Completion[T]):
    """A view of one item. Only the whole is completed."""

    def __init__(self, whole: Completion[Sequence[T | Exception]], place: int) -> None:
        # Do not call super().__init__(): it creates an event per item, which this class avoids.
        self._whole = whole
        self._place = place

    @property
    def is_done(self) -> bool:
        return self._whole.is_done

    @property
    def error(self) -> Exception | None:
        error = self._whole.error
        if error is not None:
            return error
        value = self._whole.result()[self._place]
        return value if isinstance(value, Exception) else None

    @property
    def whole(self) -> Completion[Any]:
        return self._whole

    def succeed(self, value: T) -> None:
        raise AssertionError("items end together")

    def fail(self, error: Exception) -> None:
        raise AssertionError("items end together")

    def result(self) -> T:
        error = self.error
        if error is not None:
            raise error.with_traceback(None)
        return cast(T, self._whole.result()[self._place])

    async def wait_until_done(self) -> None:
        await self._whole.wait_until_done()
