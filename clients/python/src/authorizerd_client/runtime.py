"""What a client needs of the world: a clock, time limits, and byte streams.

``blocking``, ``asyncio`` and ``trio`` each have a ``Runtime``. All other modules are written once,
as coroutines over this interface. With the runtime of ``blocking``, a coroutine never suspends:
whatever it waits for blocks the thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from authorizerd_client.values import Address


class Expired(Exception):
    """A time limit is over."""


class Stream(Protocol):
    """A connection to a daemon."""

    async def send_all(self, data: bytes) -> None:
        """Send all bytes. After an error or a cancellation, a part of them may have been sent.

        Raises:
            OSError: the connection is broken or closed.
        """

    async def receive(self) -> bytes:
        """Return the next bytes; empty at the end. A cancelled call loses no bytes.

        Raises:
            OSError: the connection is broken or closed.
        """

    def close(self) -> None:
        """Close the connection without waiting. Calls that wait for it end."""


class Event(Protocol):
    """A flag that callers can wait for."""

    def set(self) -> object: ...

    async def wait(self) -> object: ...


class Runtime(Protocol):
    """A clock, and what depends on how callers wait. All times are seconds of this clock."""

    def now(self) -> float: ...

    async def sleep_until(self, moment: float) -> None: ...

    def limit(self, deadline: float) -> AbstractAsyncContextManager[None]:
        """Return a block that raises ``Expired`` if it is still waiting at ``deadline``.

        Limits may be nested. An outer limit ends the inner block as a cancellation would.
        """

    def take_turn(self, deadline: float) -> AbstractContextManager[None]:
        """Return the block of a call. Only one thread at a time is in such a block.

        Raises:
            TimedOutError: other threads were in theirs until ``deadline``.
        """

    def end_calls(self, finish: Callable[[], None]) -> None:
        """Call ``finish``. If another thread is in a call, wake it, and let it do that at its end.

        Any thread may call this.
        """

    async def connect(self, address: Address) -> Stream:
        """Return a connection without TLS.

        Raises:
            OSError: the daemon could not be reached.
        """

    def new_lock(self) -> AbstractAsyncContextManager[Any]: ...

    def new_event(self) -> Event: ...


_NO_TURN: Final = nullcontext()


class TaskRuntime:
    """The part that the runtimes of tasks share: they have one thread, so calls need no turns."""

    def take_turn(self, deadline: float) -> AbstractContextManager[None]:
        return _NO_TURN

    def end_calls(self, finish: Callable[[], None]) -> None:
        finish()
