"""Accept connections, even if the system runs short of resources; give each a slot, or refuse it.

**Invariant:** other tasks run after each ACCEPTS_PER_TURN connections, however many wait.

If every slot is taken, ``OpenConnections`` chooses a connection to evict. If there is none, the new
connection is refused. A busy connection is never closed for another one.
"""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

import trio

from authorizerd.daemon.net.arrivals import Arrival, Arrivals, has_ended, to_stream
from authorizerd.daemon.net.connection import Owner
from authorizerd.daemon.net.open_connections import Guest, OpenConnections
from authorizerd.daemon.net.socket_stream import send_last

ACCEPTS_PER_TURN: Final = 8
"""About half a millisecond's work. With only one per turn, the kernel's queue may fill up; it then
drops new connections, which retry only after a second."""
ACCEPT_DELAY_SECONDS_MIN: Final = 0.05
ACCEPT_DELAY_SECONDS_MAX: Final = 1.0
"""Delay before the next try after a failure; doubles each time."""
REFUSALS_AT_ONCE_MAX: Final = 64
_WARNING_SECONDS: Final = 60.0

Stream = trio.abc.HalfCloseableStream
Accepted = socket.socket | Stream

_logger = logging.getLogger(__name__)


class Receiver(Owner, Protocol):
    """The parts of a server that take the connections; see ``ConnectionServer``."""

    @property
    def handshakes_started(self) -> int: ...
    def reserve_accept(self) -> float: ...
    async def serve_stream(self, stream: Stream) -> None: ...
    def run_task(self, stream: Stream, run: Callable[[Stream], Awaitable[None]]) -> None: ...


class Acceptor:
    """Accepts the connections of one server.

    Args:
        too_many: sent to a refused connection before it is closed. It is empty if that would need a
            TLS handshake, which costs more than a connection.
    """

    def __init__(
        self, server: Receiver, slots: OpenConnections, arrivals: Arrivals, too_many: bytes
    ) -> None:
        self._server: Final = server
        self._slots: Final = slots
        self._arrivals: Final = arrivals
        self._too_many: Final = too_many
        self._refusals = 0
        self._next_warning = -math.inf

    async def accept_all(self, listener: trio.abc.Listener[Stream]) -> None:
        """Accept connections from a listener until cancelled; cancellation closes the listener.

        Each connection is accepted after the server's delay. Until then, further connections wait
        in the socket's queue. It accepts plain sockets, because most connections of a flood are
        closed before they need a stream.

        No system error ends it: a shortage of descriptors (EMFILE, ENFILE) or memory (ENOBUFS) may
        pass in a moment, and a firewall's rejection (EPERM) concerns one peer.
        """
        delay = ACCEPT_DELAY_SECONDS_MIN
        async with listener:
            with _open_queue(listener) as queue:
                while True:
                    try:
                        if queue is None:
                            await self._take_later(await listener.accept())
                        else:
                            await trio.lowlevel.wait_readable(queue)
                            for _ in range(ACCEPTS_PER_TURN):
                                await self._take_later(queue.accept()[0])
                    except BlockingIOError:
                        delay = ACCEPT_DELAY_SECONDS_MIN  # no other connection waits
                    except OSError as error:
                        self._server.statistics.accepts_failed += 1
                        if self._is_warning_due():
                            name = self._server.name
                            _logger.warning("%s: connections cannot be accepted: %s", name, error)
                        await trio.sleep(delay)
                        delay = min(2 * delay, ACCEPT_DELAY_SECONDS_MAX)
                    else:
                        delay = ACCEPT_DELAY_SECONDS_MIN

    def _is_warning_due(self) -> bool:
        """Return True at most once a minute: peers can cause thousands of warnings per second."""
        now = trio.current_time()
        if now < self._next_warning:
            return False
        self._next_warning = now + _WARNING_SECONDS
        return True

    async def _take_later(self, accepted: Accepted) -> None:
        pause = self._server.reserve_accept()
        if pause > 0:
            try:
                await trio.sleep(pause)
            except trio.Cancelled:
                if isinstance(accepted, socket.socket):
                    accepted.close()
                else:
                    await trio.aclose_forcefully(accepted)
                raise
        self._take(accepted)

    def _take(self, accepted: Accepted) -> None:
        """Give an accepted connection a slot or refuse it; a connection that is already closed gets
        none."""
        server = self._server
        server.statistics.connections_accepted += 1
        if not isinstance(accepted, socket.socket):
            server.run_task(accepted, server.serve_stream)
            return
        try:
            # If the process was paused, the next sweep is overdue.
            now = max(server.next_sweep, trio.current_time())
            arrival = None if has_ended(accepted) else Arrival(accepted, server.limits, now)
        except trio.BrokenResourceError:  # the peer may close the connection at any time
            arrival = None
        if arrival is None:
            accepted.close()
        elif self.admit(arrival):
            self._arrivals.add(arrival)
        elif self._too_many and self._may_explain:
            server.run_task(to_stream(accepted), self.refuse)
        else:
            server.statistics.connections_refused += 1
            with accepted, suppress(OSError):
                accepted.send(self._too_many, socket.MSG_DONTWAIT)

    def admit(self, newcomer: Guest) -> bool:
        """Return True if ``newcomer`` gets a slot; another connection may be evicted for it."""
        server, slots, limits = self._server, self._slots, self._server.limits
        address, source = newcomer.address, newcomer.source
        if (
            address is not None
            and source is not None
            and slots.count(source) >= limits.of_address(address)
            and not (
                limits.replaces_own
                and source == newcomer.network
                and slots.evict_within(newcomer.network)
            )
        ):
            if self._is_warning_due():
                _logger.warning(
                    "%s: %s has as many connections as max.connections.per.ip allows",
                    server.name,
                    address,
                )
            server.statistics.connections_refused_per_ip += 1
            return False
        if (
            slots.taken < limits.unreserved_max
            or (
                server.handshakes_started < limits.unreserved_max / 2
                and slots.evict(newcomer.network)
            )
            or slots.taken < limits.connections_max
        ):
            slots.add(newcomer)
            server.statistics.connections_open = slots.taken
            return True
        return False

    @property
    def _may_explain(self) -> bool:
        return self._refusals < min(REFUSALS_AT_ONCE_MAX, self._server.limits.connections_max)

    async def refuse(self, stream: Stream) -> None:
        """Send the reason, and read the peer's bytes before closing: a reset would discard it."""
        self._server.statistics.connections_refused += 1
        if not self._too_many:
            return
        if not self._may_explain:
            # This cannot block: the send buffer of a new connection is empty.
            await stream.send_all(self._too_many)
            return
        self._refusals += 1
        try:
            await send_last(stream, self._too_many)
        finally:
            self._refusals -= 1


@contextmanager
def _open_queue(listener: trio.abc.Listener[Stream]) -> Iterator[socket.socket | None]:
    """Yield a plain socket of the listener, or None if it has none.

    trio's own accept yields to other tasks after each connection.
    """
    if not isinstance(listener, trio.SocketListener):
        yield None
        return
    with socket.socket(fileno=os.dup(listener.socket.fileno())) as queue:
        queue.setblocking(False)
        yield queue
