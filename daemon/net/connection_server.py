"""The connections of one endpoint: how they are served, timed out and drained.

**Invariant:** a misbehaving peer, or a fault while serving it, ends only its own connection. A
draining server answers each request that has begun, and accepts no further ones.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Final

import trio

from authorizerd.config.bounds import FREE_BYTES
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.errors import ClosingError
from authorizerd.daemon.net.accepting import Acceptor, Stream
from authorizerd.daemon.net.arrivals import Arrival, Arrivals, Ending, Opening, to_stream
from authorizerd.daemon.net.connection import FRAME_SIZE_BYTES, Connection, Phase
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics
from authorizerd.daemon.net.handshakes import Handshakes
from authorizerd.daemon.net.memory_budget import MemoryBudget
from authorizerd.daemon.net.open_connections import EXEMPT, IDLE_SECONDS_MIN, Guest, OpenConnections
from authorizerd.daemon.net.selector import Selector
from authorizerd.daemon.net.socket_stream import send_last
from authorizerd.protocol.errors import DecodeError
from authorizerd.tls.server import TlsServer

SWEEP_SECONDS: Final = 0.25
"""Interval of the deadline checks: a timeout may fire up to two intervals late."""
_SWEPT_AT_ONCE: Final = 1024
_TLS_EXPECTED: Final = bytes.fromhex("15 0303 0002 02 46")
"""The fatal TLS alert protocol_version, which tells clients without TLS what is wrong."""

_logger = logging.getLogger(__name__)


class ConnectionServer(ABC):
    """Serve each connection with ``converse``, which a subclass implements.

    Timeouts add no cost to a request: one task checks all connections four times per second.

    Args:
        memory_bytes_max: limit of the memory that all connections hold for requests and answers.
        turn_ms_max: a pipelined request is refused if its connection has waited for its turn while
            the loop did other work for more than this many milliseconds. `inf` disables the limit.
        too_many: sent to a connection above the limit before it is closed.
        tls_expected: sent unencrypted to a peer that does not speak TLS.
        tls: encrypts all connections; None for a port without TLS.
        login_bytes_max: the largest frame by which a connection must identify itself before its
            first request; None if it need not.
        selector: answers requests on plain sockets at once; None if that is impossible.
    """

    statistics: ConnectionStatistics

    def __init__(
        self,
        *,
        name: str,
        limits: ConnectionLimits,
        memory_bytes_max: int,
        turn_ms_max: float = math.inf,
        too_many: bytes = b"",
        tls_expected: bytes = _TLS_EXPECTED,
        login_bytes_max: int | None = None,
        tls: TlsServer | None = None,
        selector: Selector | None = None,
    ) -> None:
        self.name: Final = name
        self.limits = limits
        self.memory: Final = MemoryBudget(memory_bytes_max)
        self.turn_ms_max: Final = turn_ms_max
        self.next_sweep = math.inf
        self.is_draining = False
        self.tls: Final = tls
        self.selector: Final = selector
        self._confined_to = login_bytes_max and login_bytes_max + FRAME_SIZE_BYTES
        self._slots: Final = OpenConnections(self._end_for_another)
        self._open: Final = self._slots.open  # in the order of acceptance
        self._arrivals: Final = Arrivals(
            self._classify, self._may_start, self._start, self._end_arrival
        )
        self._acceptor: Final = Acceptor(
            self, self._slots, self._arrivals, too_many if tls is None else b""
        )
        self._handshakes: Final = (
            None if tls is None else Handshakes(self, tls, tls_expected, self._arrivals.wake)
        )
        self._serving: trio.Nursery
        self._accepting = trio.CancelScope()
        self._drained = trio.Event()

    @abstractmethod
    async def converse(self, connection: Connection) -> None:
        """Serve one connection to its end.

        Raises:
            DecodeError, ClosingError: the connection is to be closed for this reason.
        """

    @abstractmethod
    def holds_request(self, opening: bytes) -> bool:
        """Return True if the first bytes of a plain connection hold a whole request.

        This only decides who is served first, so an invalid request may count as a whole one.
        """

    def reserve_accept(self) -> float:
        """Count a connection that was just accepted; return its delay in seconds."""
        return 0.0

    def reconfigure(self, settings: Configuration, connections_max: int) -> None:
        """Replace the limits. New timeouts also apply to open connections."""
        self.limits = self.limits.with_settings(settings, connections_max)

    async def serve(
        self,
        listeners: Sequence[trio.abc.Listener[Stream]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until drained or cancelled; both close the listeners.

        Cancellation cuts off the connections at once.
        """
        with self.selector or nullcontext(), self._arrivals:
            async with trio.open_nursery() as self._serving:
                self.next_sweep = trio.current_time() + SWEEP_SECONDS
                self._serving.start_soon(self._sweep)
                self._serving.start_soon(self._arrivals.run)
                if self.selector is not None:
                    self._serving.start_soon(self.selector.run)
                task_status.started()
                with self._accepting:
                    async with trio.open_nursery() as accepting:
                        for listener in listeners:
                            accepting.start_soon(self._acceptor.accept_all, listener)
                await self._drained.wait()
                self._serving.cancel_scope.cancel()

    def on_drain(self) -> None:  # noqa: B027 - most servers have nothing to do
        """Called when the server begins to drain."""

    async def drain(self) -> None:
        """Stop accepting, close idle connections, and return when the last request is answered.

        Requests that exceed the drain timeout are cut off.
        """
        self._accepting.cancel()
        if self._arrivals.finish():
            # Let the connections that have just started run until they wait for requests.
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
        self.is_draining = True
        self.on_drain()
        # Wait two turns of the loop: requests that have already arrived must not look idle.
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        while self.selector is not None and self.selector.is_ready:
            await trio.lowlevel.checkpoint()
        for connection in self._open:
            if connection.phase is Phase.IDLE:
                connection.end(Ending.DRAINED)
        self._notice_drained()
        with trio.move_on_after(self.limits.drain_timeout_s):
            await self._drained.wait()
        for connection in self._open:
            connection.end(Ending.DRAINED)
        await self._drained.wait()

    def _notice_drained(self) -> None:
        if self.is_draining and not self._slots.taken:
            self._drained.set()

    async def _sweep(self) -> None:
        """End the connections that have timed out, and note which may be evicted."""
        while True:
            await trio.sleep_until(self.next_sweep)
            now = trio.current_time()
            self.next_sweep = now + SWEEP_SECONDS
            idle: list[Connection] = []
            # A copy, because connections come and go during the checkpoints.
            for number, connection in enumerate([*self._open], start=1):
                if number % _SWEPT_AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()
                is_open = connection in self._open
                if is_open and connection.has_expired:
                    if connection.ending is None:
                        self.statistics.connections_expired += 1
                    connection.end_after_answer(Ending.EXPIRED)
                elif not is_open or connection.phase in EXEMPT:
                    continue
                elif self._is_overdue(connection, now):
                    if connection.ending is None:
                        self._count_timeout(is_established=connection.is_established)
                    connection.end(Ending.TIMED_OUT)
                elif connection.is_known and connection.since + IDLE_SECONDS_MIN <= now:
                    idle.append(connection)
            self._slots.note_idle(idle)
            self._end_late_arrivals(now)

    def _count_timeout(self, *, is_established: bool) -> None:
        self.statistics.connections_timed_out += 1
        self.statistics.connections_never_established += not is_established

    def _end_late_arrivals(self, now: float) -> None:
        timeout = min(self.limits.login_timeout_s, self.limits.idle_timeout_s)
        for late in self._arrivals.find_late(now - timeout):
            self._count_timeout(is_established=False)
            self._end_arrival(late)

    def _is_overdue(self, connection: Connection, now: float) -> bool:
        limits = self.limits
        if not connection.is_established and connection.accepted_at + limits.login_timeout_s <= now:
            return True
        is_receiving = connection.phase is Phase.RECEIVING
        timeout = limits.request_timeout_s if is_receiving else limits.idle_timeout_s
        return connection.since + timeout <= now

    @property
    def handshakes_started(self) -> int:
        return 0 if self._handshakes is None else self._handshakes.started

    def _classify(self, arrival: Arrival, opening: bytes) -> Opening:
        if self._handshakes is not None:
            return self._handshakes.classify(arrival, opening)
        return Opening.READY if self.holds_request(opening) else Opening.DOUBTFUL

    def _may_start(self) -> bool:
        return self._handshakes is None or self._handshakes.may_start()

    def _start(self, arrival: Arrival) -> bool:
        """Serve an arrived connection in a new task, in the arrival's slot.

        Return False if a TLS handshake has begun without a task, and the client must answer.
        """
        if self._handshakes is not None and self._handshakes.begin(arrival):
            return False
        self._arrivals.discard(arrival)
        stream = to_stream(arrival.socket)
        connection = Connection(self, stream, confined_to=self._confined_to, arrival=arrival)
        self._slots.replace(arrival, connection)
        self.run_task(stream, lambda _: self._serve_connection(connection))
        return True

    def _end_arrival(self, arrival: Arrival) -> None:
        if self._handshakes is not None:
            self._handshakes.note_end(arrival)
        self._remove(arrival)
        arrival.socket.close()

    async def serve_stream(self, stream: Stream) -> None:
        """Serve an accepted stream that has no socket, or refuse it."""
        connection = Connection(self, stream, confined_to=self._confined_to)
        if self._acceptor.admit(connection):
            await self._serve_connection(connection)
        else:
            await self._acceptor.refuse(connection.stream)

    def run_task(self, stream: Stream, run: Callable[[Stream], Awaitable[None]]) -> None:
        """Start the task of a connection; its end closes ``stream``."""
        self._serving.start_soon(self._run, stream, run)

    async def _run(self, stream: Stream, run: Callable[[Stream], Awaitable[None]]) -> None:
        try:
            await run(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the peer may close the connection at any time
        except (DecodeError, ClosingError) as error:
            self.statistics.connections_broken += 1
            _logger.info("%s: connection closed: %s", self.name, error)
        except Exception:
            self.statistics.connections_broken += 1
            _logger.exception("%s: connection closed", self.name)
        except BaseExceptionGroup as group:  # may contain a cancellation in addition to faults
            faults, rest = group.split(Exception)
            if faults is not None:
                self.statistics.connections_broken += 1
                _logger.exception("%s: connection closed", self.name)
            # The nursery must still see a cancellation, or it would never end.
            if rest is not None:
                raise rest from None
        finally:
            with suppress(OSError):
                if isinstance(stream, trio.SocketStream):
                    stream.socket.close()  # a cancelled `aclose` would do the same, in four times
                else:
                    await trio.aclose_forcefully(stream)

    def establish(
        self, connection: Connection, *, is_known: bool, may_use_reserve: bool = False
    ) -> None:
        """Mark a connection as established, so its limits are raised.

        Args:
            is_known: True if the peer is authenticated, for example by a client certificate.

        Raises:
            ClosingError: it uses a reserved slot without the right to do so.
        """
        connection.confined_to = None
        connection.reservation.free_bytes = FREE_BYTES
        if connection.is_established:
            return
        connection.is_established = True
        # The connection may have been evicted since its request arrived.
        if connection not in self._open:
            return
        connection.is_known = is_known or connection.principal is not None
        self._slots.establish(connection, is_known=connection.is_known)
        limits = self.limits
        if not limits.reserved or may_use_reserve:
            return
        if self._slots.taken > limits.unreserved_max and not self._slots.evict(connection.network):
            self.statistics.connections_refused += 1
            raise ClosingError(
                "max.connections is reached; the remaining connections are for super users"
            )

    def free_memory(self, newcomer: Connection, hold: Callable[[], bool]) -> bool:
        """End stalled connections that hold memory until ``hold`` succeeds; return its result."""
        return self._slots.free_memory(newcomer, hold)

    def _end_for_another(self, guest: Guest) -> None:
        self.statistics.connections_evicted += 1
        self._remove(guest)
        guest.end(Ending.EVICTED)

    def _remove(self, guest: Guest) -> None:
        if isinstance(guest, Connection):
            guest.reservation.reserve(0)
        else:
            self._arrivals.discard(guest)
        if self._slots.remove(guest):
            self.statistics.connections_open = self._slots.taken
            self._notice_drained()

    async def _serve_connection(self, connection: Connection) -> None:
        try:
            with connection.scope:
                if self._handshakes is not None:
                    await self._handshakes.secure(connection)
                await self.converse(connection)
            # An idle peer gets no answer: it would mistake that for the answer to its next request.
            is_too_slow = connection.ending is Ending.TIMED_OUT and not self.is_draining
            if is_too_slow and connection.phase is Phase.RECEIVING and connection.too_slow:
                await send_last(connection.stream, connection.too_slow)
        finally:
            self._remove(connection)

    def end_identified(self) -> None:
        """End the connections that a client certificate identified, at the next sweep."""
        for connection in self._open:
            if connection.principal is not None:
                connection.expires_at = -math.inf
