"""The connections of one endpoint: how they are admitted, evicted, timed out and drained.

**Invariant:** a misbehaving peer, or a fault while serving it, ends only its own connection. A
draining server answers each request that has begun, and accepts none after that.

``places`` decides which connection gives way if every place is taken. If there is none, the new
connection is refused. A busy connection is never closed for another.
"""

from __future__ import annotations

import logging
import math
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Final

import trio

from authorizerd.config.configuration import Configuration
from authorizerd.daemon.errors import ClosingError
from authorizerd.daemon.net.accepting import Accepted, accept_all
from authorizerd.daemon.net.arrival import Arrival, Ending
from authorizerd.daemon.net.arrivals import Arrivals, Opening, has_ended, to_stream
from authorizerd.daemon.net.connection import Connection, Phase
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics
from authorizerd.daemon.net.memory_budget import MemoryBudget
from authorizerd.daemon.net.open_connections import EXEMPT, IDLE_SECONDS_MIN, Guest, OpenConnections
from authorizerd.daemon.net.selector import Selector
from authorizerd.daemon.net.socket_stream import send_last
from authorizerd.protocol.errors import DecodeError
from authorizerd.tls.client_hello import is_whole_record
from authorizerd.tls.errors import NotTlsError, TlsError
from authorizerd.tls.server import TlsServer
from authorizerd.tls.stream import HANDSHAKES_AT_ONCE_MAX

SWEEP_SECONDS: Final = 0.25
"""Interval of the deadline checks: a timeout may fire up to two intervals late."""
REFUSALS_AT_ONCE_MAX: Final = 64
_SWEPT_AT_ONCE: Final = 1024
_WARNING_SECONDS: Final = 60.0
HANDSHAKES_STARTED_MAX: Final = 2 * HANDSHAKES_AT_ONCE_MAX
"""No other handshake begins while so many wait for a thread, or are in one."""
PRESSED_SECONDS: Final = 1.0
_TLS_EXPECTED: Final = bytes.fromhex("15 0303 0002 02 46")
"""The fatal TLS alert protocol_version, which tells clients without TLS what is wrong."""

_logger = logging.getLogger(__name__)


class ConnectionServer(ABC):
    """Serve each connection with ``converse``, which a subclass implements.

    Timeouts add no cost to a request: one task checks all connections four times a second.

    Args:
        memory_bytes_max: limit of the memory that all connections hold for requests and answers.
        turn_ms_max: a pipelined request is refused if its connection has waited for its turn while
            the loop did other work for more than this many milliseconds. `inf` disables the limit.
        too_many: sent to a connection above the limit before it is closed.
        tls_expected: sent in clear to a peer that does not speak TLS.
        tls: encrypts all connections; None for a port without TLS.
        requires_login: True if a connection must identify itself before its first request.
        selector: answers requests of plain sockets at once; None if no request can be.
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
        requires_login: bool = False,
        tls: TlsServer | None = None,
        selector: Selector | None = None,
    ) -> None:
        self.name: Final = name
        self.limits = limits
        self.memory: Final = MemoryBudget(memory_bytes_max)
        self.turn_ms_max: Final = turn_ms_max
        self.next_sweep = math.inf
        self.is_draining = False
        self._too_many = too_many
        self._tls_expected = tls_expected
        self.tls: Final = tls
        self.selector: Final = selector
        self._requires_login = requires_login
        self._places: Final = OpenConnections(self._end_for_another)
        self._open: Final = self._places.open  # in the order in which they were accepted
        self._arrivals: Final = Arrivals(
            self._classify, self._may_start, self._start, self._end_arrival
        )
        self._serving: trio.Nursery | None = None
        self._refusals = 0
        self._pressed_until = -math.inf
        self._handshaking = 0  # that wait for a thread, or are in one
        self._next_warning = -math.inf
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

        It is only about who is served first, so an invalid request may count as a whole one.
        """

    def reserve_accept(self) -> float:
        """Count a connection that was just accepted; return its delay in seconds."""
        return 0.0

    def reconfigure(self, settings: Configuration, connections_max: int) -> None:
        """Replace the limits. New timeouts apply to open connections too."""
        self.limits = self.limits.with_settings(settings, connections_max)

    async def serve(
        self,
        listeners: Sequence[trio.abc.Listener[trio.abc.HalfCloseableStream]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until drained or cancelled; both close the listeners.

        Cancellation cuts off the connections at once.
        """
        with self.selector or nullcontext(), self._arrivals:
            await self._serve_until_drained(listeners, task_status)

    async def _serve_until_drained(
        self,
        listeners: Sequence[trio.abc.Listener[trio.abc.HalfCloseableStream]],
        task_status: trio.TaskStatus[None],
    ) -> None:
        async with trio.open_nursery() as nursery:
            self.next_sweep = trio.current_time() + SWEEP_SECONDS
            nursery.start_soon(self._sweep)
            nursery.start_soon(self._arrivals.run)
            self._serving = nursery
            if self.selector is not None:
                nursery.start_soon(self.selector.run)
            task_status.started()
            with self._accepting:
                async with trio.open_nursery() as accepting:
                    for listener in listeners:
                        accepting.start_soon(
                            accept_all,
                            listener,
                            self.reserve_accept,
                            self._take,
                            self._note_failed_accept,
                        )
            await self._drained.wait()
            nursery.cancel_scope.cancel()

    def on_drain(self) -> None:  # noqa: B027 - most servers have nothing to do
        """Called when the server begins to drain."""

    async def drain(self) -> None:
        """Stop accepting, close idle connections, and return when the last request is answered.

        Requests that exceed the drain timeout are cut off.
        """
        self._accepting.cancel()
        if self._arrivals.finish():
            # Wait until the connections that begin now wait for their requests, too.
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
        if self.is_draining and not self._places.taken:
            self._drained.set()

    def _note_failed_accept(self, error: OSError) -> None:
        self.statistics.accepts_failed += 1
        if self._may_warn():
            _logger.warning("%s: connections cannot be accepted: %s", self.name, error)

    def _may_warn(self) -> bool:
        """Return True at most once a minute: peers can cause thousands of warnings a second."""
        now = trio.current_time()
        if now < self._next_warning:
            return False
        self._next_warning = now + _WARNING_SECONDS
        return True

    async def _sweep(self) -> None:
        """End the connections whose time is up, and note which ones may be replaced by others."""
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
                        self.statistics.connections_timed_out += 1
                        self.statistics.connections_never_established += (
                            not connection.is_established
                        )
                    connection.end(Ending.TIMED_OUT)
                elif connection.is_known and connection.since + IDLE_SECONDS_MIN <= now:
                    idle.append(connection)
            self._places.note_idle(idle)
            self._end_late_arrivals(now)

    def _end_late_arrivals(self, now: float) -> None:
        timeout = min(self.limits.login_timeout_s, self.limits.idle_timeout_s)
        for late in self._arrivals.find_late(now - timeout):
            self.statistics.connections_timed_out += 1
            self.statistics.connections_never_established += 1
            self._end_arrival(late)

    def _is_overdue(self, connection: Connection, now: float) -> bool:
        limits = self.limits
        if not connection.is_established and connection.accepted_at + limits.login_timeout_s <= now:
            return True
        is_receiving = connection.phase is Phase.RECEIVING
        timeout = limits.request_timeout_s if is_receiving else limits.idle_timeout_s
        return connection.since + timeout <= now

    def _take(self, accepted: Accepted) -> None:
        """Give an accepted connection a place, or refuse it; one that is closed again gets none."""
        self.statistics.connections_accepted += 1
        assert self._serving is not None, "the server accepts"
        if not isinstance(accepted, socket.socket):
            self._serving.start_soon(self._serve_stream, accepted)
            return
        try:
            # After a pause of the process, the next sweep is overdue.
            now = max(self.next_sweep, trio.current_time())
            arrival = None if has_ended(accepted) else Arrival(accepted, self.limits, now)
        except trio.BrokenResourceError:  # the peer may close the connection at any time
            arrival = None
        if arrival is None:
            accepted.close()
        elif self._admit(arrival):
            self._arrivals.add(arrival)
        else:
            self._refuse_early(accepted)

    def _start(self, arrival: Arrival) -> None:
        """Serve a connection that has arrived, in a task of its own, in the arrival's place."""
        self._arrivals.discard(arrival)
        assert self._serving is not None, "the server accepts"
        stream = to_stream(arrival.socket)
        connection = Connection(self, stream, is_confined=self._requires_login, arrival=arrival)
        self._places.replace(arrival, connection)
        self._serving.start_soon(self._serve_stream, stream, connection)

    def _end_arrival(self, arrival: Arrival) -> None:
        self._remove(arrival)
        arrival.socket.close()

    def _classify(self, arrival: Arrival, opening: bytes) -> Opening:
        """Find out whether a whole request, or a whole TLS hello, has arrived.

        Under pressure, ask a client for another hello before a thread does anything.
        """
        if self.tls is None:
            return Opening.READY if self.holds_request(opening) else Opening.DOUBTFUL
        if not is_whole_record(opening):
            return Opening.PARTIAL
        if arrival.retried is not None or not self._is_pressed:
            return Opening.READY
        retried = self.tls.retry(opening)
        if retried is None:
            return Opening.DOUBTFUL
        arrival.retried, size, answer = retried
        arrival.socket.recv(size, socket.MSG_DONTWAIT)
        arrival.socket.send(answer, socket.MSG_DONTWAIT)  # a new connection's buffer is empty
        return Opening.PARTIAL

    def _may_start(self) -> bool:
        if self.tls is None or self._handshaking < HANDSHAKES_STARTED_MAX:
            return True
        self._pressed_until = self.next_sweep + PRESSED_SECONDS
        return False

    @property
    def _is_pressed(self) -> bool:
        """True if clients must answer once before their handshakes take a thread's time."""
        return self.next_sweep < self._pressed_until

    async def _serve_stream(
        self, stream: trio.abc.HalfCloseableStream, started: Connection | None = None
    ) -> None:
        """Serve a connection to its end: one that has a place, or an accepted stream."""
        try:
            connection = started or Connection(self, stream, is_confined=self._requires_login)
            if started is not None or self._admit(connection):
                await self._serve_connection(connection)
            else:
                await self._refuse(connection.stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the peer may close the connection at any time
        except (DecodeError, ClosingError) as error:
            self.statistics.connections_broken += 1
            _logger.info("%s: connection closed: %s", self.name, error)
        except Exception:
            self.statistics.connections_broken += 1
            _logger.exception("%s: connection closed", self.name)
        except BaseExceptionGroup as group:  # may contain a cancellation besides faults
            faults, rest = group.split(Exception)
            if faults is not None:
                self.statistics.connections_broken += 1
                _logger.exception("%s: connection closed", self.name)
            # The nursery must still see a cancellation, or it would never end.
            if rest is not None:
                raise rest from None
        finally:
            with suppress(OSError):
                await trio.aclose_forcefully(stream)

    def _admit(self, newcomer: Guest) -> bool:
        """Return True if ``newcomer`` gets a place; another connection may be evicted for it."""
        address, source, limits = newcomer.address, newcomer.source, self.limits
        if (
            address is not None
            and source is not None
            and self._places.count(source) >= limits.of_address(address)
            and not (
                limits.replaces_own
                and source == newcomer.network
                and self._places.evict_within(newcomer.network)
            )
        ):
            if self._may_warn():
                _logger.warning(
                    "%s: %s has as many connections as max.connections.per.ip allows",
                    self.name,
                    address,
                )
            self.statistics.connections_refused_per_ip += 1
            return False
        if (
            self._places.taken < limits.unreserved_max
            or (
                self._handshaking < limits.unreserved_max / 2
                and self._places.evict(newcomer.network)
            )
            or self._places.taken < limits.connections_max
        ):
            self._places.add(newcomer)
            self.statistics.connections_open = self._places.taken
            return True
        return False

    def establish(
        self, connection: Connection, *, is_known: bool, may_use_reserve: bool = False
    ) -> None:
        """Mark a connection as established, so its limits are raised.

        Args:
            is_known: True if the peer has proved who it is. A client certificate does, too.

        Raises:
            ClosingError: it uses a reserved place without the right to one.
        """
        connection.is_confined = False
        if connection.is_established:
            return
        connection.is_established = True
        # It may have given way since its request arrived.
        if connection not in self._open:
            return
        connection.is_known = is_known or connection.principal is not None
        self._places.establish(connection, is_known=connection.is_known)
        limits = self.limits
        if not limits.reserved or may_use_reserve:
            return
        if self._places.taken > limits.unreserved_max and not self._places.evict(
            connection.network
        ):
            self.statistics.connections_refused += 1
            raise ClosingError(
                "max.connections is reached; the remaining connections are for super users"
            )

    def free_memory(self, newcomer: Connection, hold: Callable[[], bool]) -> bool:
        """End stalled connections that hold memory until ``hold`` succeeds; return its result."""
        return self._places.free_memory(newcomer, hold)

    def _end_for_another(self, guest: Guest) -> None:
        self.statistics.connections_evicted += 1
        self._remove(guest)
        guest.end(Ending.EVICTED)

    def _remove(self, guest: Guest) -> None:
        if isinstance(guest, Connection):
            guest.reservation.reserve(0)
        else:
            self._arrivals.discard(guest)
        if self._places.remove(guest):
            self.statistics.connections_open = self._places.taken
            self._notice_drained()

    def _refuse_early(self, accepted: socket.socket) -> None:
        """Refuse a connection that was just accepted, without a task if its peer hears no reason.

        The reason would need a TLS handshake, which costs more than a connection.
        """
        if self._too_many and self.tls is None and self._refusals < self._refusals_max:
            assert self._serving is not None, "the server accepts"
            self._serving.start_soon(self._refuse_stream, to_stream(accepted))
            return
        self.statistics.connections_refused += 1
        with accepted, suppress(OSError):
            if self.tls is None:
                accepted.send(self._too_many, socket.MSG_DONTWAIT)

    async def _refuse_stream(self, stream: trio.abc.HalfCloseableStream) -> None:
        try:
            await self._refuse(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the peer may close the connection at any time
        finally:
            await trio.aclose_forcefully(stream)

    @property
    def _refusals_max(self) -> int:
        return min(REFUSALS_AT_ONCE_MAX, self.limits.connections_max)

    async def _refuse(self, stream: trio.abc.HalfCloseableStream) -> None:
        """Send the reason, and read the peer's bytes before closing: a reset would discard it."""
        self.statistics.connections_refused += 1
        if not self._too_many or self.tls is not None:
            return
        if self._refusals >= self._refusals_max:
            # This cannot block: the send buffer of a new connection is empty.
            await stream.send_all(self._too_many)
            return
        self._refusals += 1
        try:
            await send_last(stream, self._too_many)
        finally:
            self._refusals -= 1

    async def _serve_connection(self, connection: Connection) -> None:
        try:
            with connection.scope:
                if self.tls is not None:
                    await self._secure(connection, self.tls)
                await self.converse(connection)
            # An idle peer gets no answer: it would mistake one for the answer to its next request.
            is_too_slow = connection.ending is Ending.TIMED_OUT and not self.is_draining
            if is_too_slow and connection.phase is Phase.RECEIVING and connection.too_slow:
                await send_last(connection.stream, connection.too_slow)
        finally:
            self._remove(connection)

    async def _secure(self, connection: Connection, tls: TlsServer) -> None:
        """Do the TLS handshake of a new connection. A client's certificate sets its principal.

        Raises:
            ClosingError: the handshake failed, or the certificate gives no principal.
        """
        try:
            connection.stream, identity = await tls.accept(
                connection.stream,
                partial(self._working, connection),
                retried=connection.retried,
            )
        except TlsError as error:
            self.statistics.handshakes_failed += 1
            if isinstance(error, NotTlsError):
                await send_last(connection.stream, self._tls_expected)
            peer = connection.address or "the client"
            raise ClosingError(f"TLS handshake with {peer} failed: {error}") from None
        self.statistics.handshakes += 1
        if identity is not None:
            connection.principal = identity.principal
            connection.valid_from = identity.not_before
            connection.expires_at = identity.not_after

    @contextmanager
    def _working(self, connection: Connection) -> Iterator[None]:
        """Keep a connection while its handshake waits for a thread: that is not its peer's fault.

        Otherwise a flood would evict each client before its turn comes.
        """
        connection.phase = Phase.ANSWERING
        self._handshaking += 1
        try:
            yield
        finally:
            self._handshaking -= 1
            self._arrivals.wake()
            connection.enter(Phase.IDLE)
            if self.is_draining:
                connection.end(Ending.DRAINED)

    def end_identified(self) -> None:
        """End the connections that a client certificate identified, at the next sweep."""
        for connection in self._open:
            if connection.principal is not None:
                connection.expires_at = -math.inf
