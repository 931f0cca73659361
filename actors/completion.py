"""The result of work that another task does, one per item: KIP-504's CompletionStage."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar, overload

import trio

T = TypeVar("T")
U = TypeVar("U")


class Completion(Generic[T]):
    """An awaitable that ends once, with a value or an error. Any number of tasks may wait for it.

    If a waiting task is cancelled, the work continues, and the result can be awaited again.
    """

    def __init__(self) -> None:
        self._done = trio.Event()
        self._value: T
        self._error: Exception | None = None
        self._viewed: Completion[Any] | None = None
        self._read: Callable[[Completion[Any]], T] | None = None

    @classmethod
    def of(cls, value: T) -> Completion[T]:
        """Return a completion that is already done."""
        completion = cls()
        completion.succeed(value)
        return completion

    def view(self, read: Callable[[Completion[T]], U]) -> Completion[U]:
        """Return a completion that ends together with this one.

        Args:
            read: called once with this completion, when it is done and the other's result is
                requested. It returns the value, or raises the error.
        """
        # Without an event: there may be very many views.
        view = Completion.__new__(Completion)
        view._viewed, view._read, view._error = self, read, None
        return view

    @property
    def is_done(self) -> bool:
        """True once it has ended, with a value or an error."""
        return self._done.is_set() if self._viewed is None else self._viewed.is_done

    @property
    def error(self) -> Exception | None:
        """The error of a done completion, or None if it has a value."""
        assert self.is_done, "not done yet"
        if self._read is not None:
            assert self._viewed is not None, "a view is of a completion"
            read, self._read = self._read, None
            try:
                self._value = read(self._viewed)
            except Exception as error:  # noqa: BLE001 - it is the result
                self._error = error.with_traceback(None)
        return self._error

    @property
    def whole(self) -> Completion[Any]:
        """The completion with which this one ends: itself, or the original of a view."""
        return self if self._viewed is None else self._viewed.whole

    def succeed(self, value: T) -> None:
        """End it with a value."""
        assert self._viewed is None, "a view ends with its completion"
        assert not self.is_done, "a completion ends once"
        self._value = value
        self._done.set()

    def fail(self, error: Exception) -> None:
        """End it with an error."""
        assert self._viewed is None, "a view ends with its completion"
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
        if self._viewed is None:
            await self._done.wait()
        else:
            await self._viewed.wait_until_done()

    async def wait(self) -> T:
        """Wait for the end. Return the value or raise the error."""
        await self.wait_until_done()
        return self.result()

    def __await__(self) -> Generator[Any, Any, T]:
        return self.wait().__await__()


class Completions(Sequence[Completion[T]]):
    """One completion per item, each a view that is created on access.

    A list would block the event loop: a request may have hundreds of thousands of items, each of
    which would be created, completed and freed.

    Args:
        view: returns the view of the item with this index.
    """

    def __init__(self, count: int, view: Callable[[int], Completion[T]]) -> None:
        self._count = count
        self._view = view

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Completion[T]]:
        return map(self._view, range(self._count))

    @overload
    def __getitem__(self, index: int) -> Completion[T]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Completion[T]]: ...

    def __getitem__(self, index: int | slice) -> Completion[T] | Sequence[Completion[T]]:
        indices = range(self._count)[index]
        return self._view(indices) if isinstance(indices, int) else list(map(self._view, indices))


class ItemCompletions(Completions[T]):
    """One completion per item, for items that end together.

    Attributes:
        whole: its value has each item's value or error, in order. If it fails, every item fails
            with its error.
    """

    def __init__(self, whole: Completion[Sequence[T | Exception]], count: int) -> None:
        super().__init__(count, lambda index: whole.view(partial(_get_item, index)))
        self.whole: Final = whole

    @property
    def are_all_none(self) -> bool:
        """True if all items are done, and each has the value None."""
        whole = self.whole
        if not whole.is_done or whole.error is not None:
            return False
        return tuple(whole.result()).count(None) == len(self)


def _get_item(index: int, whole: Completion[Sequence[T | Exception]]) -> T:
    item = whole.result()[index]
    if isinstance(item, Exception):
        raise item
    return item
