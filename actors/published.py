"""A value that one actor replaces and every other task only reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class View(Generic[T]):
    """The reading side: the newest value, and a wait for a later one."""

    def __init__(self, first: T) -> None:
        self._newest = first
        self._replaced = trio.Event()

    @property
    def newest(self) -> T:
        return self._newest

    async def wait_until(self, accepts: Callable[[T], bool]) -> T:
        """Return the newest value as soon as ``accepts`` holds for it.

        Values replaced while this task was not running are not seen, so ``accepts`` should stay
        true once true (``offset >= n``, never ``== n``).
        """
        await trio.lowlevel.checkpoint()
        while not accepts(self._newest):
            await self._replaced.wait()
        return self._newest


class Published(View[T]):
    """The writing side; its actor keeps it and hands out ``View``."""

    def publish(self, value: T) -> None:
        self._newest = value
        self._replaced.set()
        self._replaced = trio.Event()
