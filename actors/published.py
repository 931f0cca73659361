"""A value that one actor replaces and all other tasks only read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from authorizerd.actors.boot_clock import Clock, boot_time

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

    def read(self) -> tuple[T, float]:
        """Return the newest value, and the time until which it may be used."""
        return self._newest, math.inf

    def has_passed(self, deadline: float) -> bool:
        """Return True if a value with this deadline must not be used any more."""
        return False

    def seconds_until(self, deadline: float) -> float:
        """Return the seconds until a deadline of ``read``, 0 once it has passed."""
        return math.inf

    async def wait_until(self, accepts: Callable[[T], bool]) -> T:
        """Return the newest value as soon as ``accepts`` returns True for it.

        This task may miss values that were replaced before it ran. So ``accepts`` should stay true
        for later values (``offset >= n``, never ``== n``).
        """
        # Let other tasks run even if the newest value is accepted at once, as every trio call does.
        await trio.lowlevel.checkpoint()
        while not accepts(newest := self.newest):
            await self._replaced.wait()
        return newest


class Published(View[T]):
    """The write side. The owning actor keeps it and hands out ``View``."""

    def publish(self, value: T) -> None:
        """Replace the value, and wake every waiting task."""
        self._newest = value
        # A trio.Event cannot be cleared, so every value gets a new one.
        self._replaced.set()
        self._replaced = trio.Event()


class Expiring(Published[T | None]):
    """A value with a deadline, after which every reader sees None.

    **Invariant:** value and deadline are replaced in one step, and each reading compares the clock.
    No task needs to run on time for this: even if the process was paused or the machine suspended,
    no reader sees a value after its deadline.
    """

    def __init__(self, *, deadline: float = math.inf, clock: Clock = boot_time) -> None:
        super().__init__(None)
        self._clock = clock
        self._expiring: tuple[T | None, float] = (None, deadline)

    @property
    def newest(self) -> T | None:
        """The value published last, None once its deadline has passed."""
        return self.read()[0]

    def read(self) -> tuple[T | None, float]:
        deadline = (newest := self._expiring)[1]
        # Only a follower and a worker have a deadline, so others do not read the clock.
        if deadline != math.inf and self._clock() >= deadline:
            return None, deadline
        return newest

    def has_passed(self, deadline: float) -> bool:
        return deadline != math.inf and self._clock() >= deadline

    def seconds_until(self, deadline: float) -> float:
        return max(0.0, deadline - self._clock())

    @property
    def deadline(self) -> float:
        """The time until which the newest value may be used."""
        return self._expiring[1]

    @property
    def expires(self) -> bool:
        """True if the newest value has a deadline."""
        return self._expiring[1] != math.inf

    @property
    def seconds_left(self) -> float:
        """The seconds until the deadline, 0 once it has passed."""
        return self.seconds_until(self._expiring[1])

    def publish_until(self, value: T | None, deadline: float) -> None:
        """Replace the value and its deadline, and wake every waiting task."""
        self._expiring = value, deadline
        self.publish(value)
