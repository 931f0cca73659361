"""The Selector: one task that answers the requests of many idle connections on the spot.

A request that can be answered at once costs one read and one write. It does not wake a task, and
its descriptor stays registered for the next request. Any other request wakes the connection's own
task.

**Invariant:** bytes that were read are passed to their connection, and nothing else reads them. A
descriptor is registered exactly while a task waits for it, so a descriptor number that the kernel
reuses never refers to an ended connection.

Source: the name and the idea are those of Kafka's org.apache.kafka.common.network.Selector.
"""

from __future__ import annotations

import os
import select
from time import perf_counter_ns
from typing import Final, Protocol, Self

import trio

from authorizerd.config.bounds import RECEIVE_BYTES
from authorizerd.daemon.net.turns import current_turns

TURN_NS_MAX: Final = 1_000_000
"""After this time, other tasks run. The request that exceeds it is still answered."""
EVENTS_MAX: Final = 64


class Channel(Protocol):
    """A connection as the Selector sees it."""

    def receive(self, data: bytes) -> bytes | None:
        """Handle the peer's next bytes, which are empty at the end of the stream.

        Return the complete answer, or None if the connection's task must continue.
        """

    def hold_unsent(self, size: int) -> None:
        """Note that the connection's task must send the last ``size`` bytes of an answer."""


class _Waiter:
    """A waiting task, and the value that wakes it."""

    __slots__ = ("channel", "error", "task", "unsent")

    def __init__(self, task: trio.lowlevel.Task, channel: Channel) -> None:
        self.task: Final = task
        self.channel: Final = channel
        self.unsent = b""
        self.error: Exception | None = None


class Selector:
    """Serve the plain sockets of one server. Use it as a context manager around ``run``."""

    def __init__(self) -> None:
        # trio's own epoll would cost a system call and a task's turn per request.
        self._epoll: Final = select.epoll()
        self._waiters: Final[dict[int, _Waiter]] = {}
        self._events: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._epoll.close()

    async def run(self) -> None:
        """Answer requests until cancelled. One turn takes TURN_NS_MAX and one request at most.

        Requests are also answered between slices, so that they need not wait for all of these.
        """
        descriptor = self._epoll.fileno()
        with current_turns().answering_between(self._serve):
            while True:
                await trio.lowlevel.wait_readable(descriptor)
                self._serve(perf_counter_ns() + TURN_NS_MAX)

    @property
    def is_ready(self) -> bool:
        """True if a connection has sent bytes that were not read yet."""
        return bool(self._waiters) and bool(self._epoll.poll(0, 1))

    async def wait(self, descriptor: int, channel: Channel) -> bytes:
        """Pass what the peer sends to ``channel``, and send its answers, until it needs its task.

        Return the rest of an answer that the socket did not fully accept, or nothing. A cancelled
        wait has read nothing.

        Raises:
            BrokenResourceError: the connection is broken.
            Exception: what ``channel`` raised.
        """
        waiter = _Waiter(trio.lowlevel.current_task(), channel)
        self._epoll.register(descriptor, select.EPOLLIN)
        self._waiters[descriptor] = waiter

        def abort(_: object) -> trio.lowlevel.Abort:
            self._forget(descriptor)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
        # An error that the frames of its traceback refer to would never be freed.
        error, waiter.error = waiter.error, None
        try:
            if isinstance(error, OSError):
                raise trio.BrokenResourceError(str(error)) from error
            if error is not None:
                raise error
        finally:
            del error
        return waiter.unsent

    def _serve(self, end_ns: int) -> None:
        """Serve ready connections until none is left or the turn has ended."""
        poll, get_waiter = self._epoll.poll, self._waiters.get
        while True:
            # Serve every reported connection before the next poll, also across turns: otherwise
            # busy connections would always come first.
            events = self._events
            while events:
                descriptor, _ = events.pop()
                waiter = get_waiter(descriptor)
                if waiter is not None:
                    self._serve_one(descriptor, waiter)
                    if perf_counter_ns() > end_ns:
                        return
            self._events = poll(0, EVENTS_MAX)
            if not self._events:
                return

    def _serve_one(self, descriptor: int, waiter: _Waiter) -> None:
        channel = waiter.channel
        try:
            answer = channel.receive(os.read(descriptor, RECEIVE_BYTES))
            if answer is not None:
                sent = _write(descriptor, answer)
                if sent == len(answer):
                    return
                waiter.unsent = answer[sent:]
                channel.hold_unsent(len(waiter.unsent))
        except BlockingIOError:
            return  # there was nothing to read, although the kernel reported it
        except Exception as error:  # noqa: BLE001 - it ends only this connection: its task raises it
            waiter.error = error
        self._wake(descriptor, waiter)

    def _wake(self, descriptor: int, waiter: _Waiter) -> None:
        self._forget(descriptor)
        trio.lowlevel.reschedule(waiter.task)

    def _forget(self, descriptor: int) -> None:
        del self._waiters[descriptor]
        self._epoll.unregister(descriptor)


def _write(descriptor: int, data: bytes) -> int:
    """Return the number of bytes that the socket accepted; 0 if it is full."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0
