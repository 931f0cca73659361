"""A process on the simulated network, which can be stopped and killed alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from tests.model.network import MemoryListener, MemoryStream


class Host:
    """A process with streams and listeners, which can be stopped and killed.

    While it is stopped, it receives nothing, and what it sends leaves it afterwards.
    """

    def __init__(self) -> None:
        self.stopped_until = 0.0
        self.is_dead = False
        self._ends: dict[MemoryStream, None] = {}
        self._listeners: list[MemoryListener] = []

    @property
    def is_stopped(self) -> bool:
        return trio.current_time() < self.stopped_until

    @property
    def is_listening(self) -> bool:
        return bool(self._listeners)

    def stop(self, seconds: float) -> None:
        """Stop the process for a time."""
        self.stopped_until = trio.current_time() + seconds

    def kill(self) -> None:
        """Cut off all its connections, and close its listeners."""
        self.is_dead = True
        for listener in self._listeners:
            listener.close()
        for end in self._ends:
            end.cut_off()
        self._listeners.clear()
        self._ends.clear()

    def add(self, end: MemoryStream) -> None:
        self._ends[end] = None

    def forget(self, end: MemoryStream) -> None:
        self._ends.pop(end, None)

    def add_listener(self, listener: MemoryListener) -> None:
        self._listeners.append(listener)
