"""A value that one actor replaces and all other tasks only read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class View(Generic[T]):
    """The read side: the newest value, and a wait for a later one."""

    def __init__(self, first: T) -> None:
        self._newest = first
        self._replaced = trio.Event()

    @property
    def newest(self) -> T:
        """The value published last."""
        return self._newest

    async def wait_until(self, accepts: Callable[[T], bool]) -> T:
        """Return the newest value as soon as ``accepts`` returns True for it.

        This task may miss values that were replaced before it ran. So once ``accepts`` is true, it
        should stay true for later values (``offset >= n``, never ``== n``).
        """
        # Let other tasks run even if the newest value is accepted at once, as every trio call does.
        await trio.lowlevel.checkpoint()
        while not accepts(self._newest):
            await self._replaced.wait()
        return self._newest


class Published(View[T]):
    """The write side. The owning actor keeps it and hands out ``View``."""

    def publish(self, value: T) -> None:
        """Replace the value, and wake every waiting task."""
        self._newest = value
        # A trio.Event cannot be cleared, so every value gets a new one.
        self._replaced.set()
        self._replaced = trio.Event()
