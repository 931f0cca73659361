"""The connections of one endpoint: how they are admitted, evicted, timed out and drained.

**Invariant:** a misbehaving peer, or a fault while serving it, ends only its own connection. A
draining server answers each request that has begun, and accepts none after that.

If every place is taken, a new connection replaces the oldest one that is not established and is
waiting for its peer. If there is none, it replaces the oldest of those that have been idle for
IDLE_SECONDS_MIN. If there is none either, the new connection is refused. So idle connections cannot
lock out new clients, and a busy connection is never closed for another.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import chain, islice
from typing import Final

import trio

from authorizerd.config.configuration import Reloadable
from authorizerd.daemon.errors import ClosingError
from authorizerd.daemon.net.accepting import accept_all
from authorizerd.daemon.net.connection import Connection, Ending, Phase
from authorizerd.daemon.net.connection_limits import ConnectionLimits
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics
from authorizerd.daemon.net.memory_budget import MemoryBudget
from authorizerd.daemon.net.selector import Selector
from authorizerd.daemon.net.socket_stream import send_last
from authorizerd.protocol.errors import DecodeError
from authorizerd.tls.errors import NotTlsError, TlsError
from authorizerd.tls.server import TlsServer

SWEEP_SECONDS: Final = 0.25
"""Interval of the deadline checks: a timeout may fire up to two intervals late."""
IDLE_SECONDS_MIN: Final = 10.0
"""Time for which an established connection must be idle before another may replace it."""
STALL_SECONDS_MIN: Final = 1.0
"""Time after which a stalled connection that is not established may be ended to free its memory."""
REFUSALS_AT_ONCE_MAX: Final = 64
_SWEPT_AT_ONCE: Final = 1024
_LOOKED_AT_MAX: Final = 1024
_EXEMPT: Final = (Phase.ANSWERING, Phase.STREAMING)
"""The phases in which a connection does not wait for its peer, so it is neither late nor idle."""
_WARNING_SECONDS: Final = 60.0
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
        # In the order in which they were accepted.
        self._open: dict[Connection, None] = {}
        self._unestablished: dict[Connection, None] = {}
        self._idle: deque[Connection] = deque()
        self._by_address: Counter[str] = Counter()
        self._refusals = 0
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

    def reserve_accept(self) -> float:
        """Count a connection that was just accepted; return its delay in seconds."""
        return 0.0

    def reconfigure(self, settings: Reloadable, connections_max: int) -> None:
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
        with self.selector or nullcontext():
            await self._serve_until_drained(listeners, task_status)

    async def _serve_until_drained(
        self,
        listeners: Sequence[trio.abc.Listener[trio.abc.HalfCloseableStream]],
        task_status: trio.TaskStatus[None],
    ) -> None:
        async with trio.open_nursery() as nursery:
            self.next_sweep = trio.current_time() + SWEEP_SECONDS
            nursery.start_soon(self._sweep)
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
                            lambda stream: nursery.start_soon(self._serve_stream, stream),
                            self._note_failed_accept,
                        )
            await self._drained.wait()
            nursery.cancel_scope.cancel()

    async def drain(self) -> None:
        """Stop accepting, close idle connections, and return when the last request is answered.

        Requests that exceed the drain timeout are cut off.
        """
        self.is_draining = True
        self._accepting.cancel()
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
        if self.is_draining and not self._open:
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
            idle: deque[Connection] = deque()
            # A copy, because connections come and go during the checkpoints.
            for number, connection in enumerate([*self._open], start=1):
                if number % _SWEPT_AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()
                is_open = connection in self._open
                if is_open and connection.has_expired:
                    if connection.ending is None:
                        self.statistics.connections_expired += 1
                    connection.end_after_answer(Ending.EXPIRED)
                elif not is_open or connection.phase in _EXEMPT:
                    continue
                elif self._is_overdue(connection, now):
                    if connection.ending is None:
                        self.statistics.connections_timed_out += 1
                        self.statistics.connections_never_established += (
                            not connection.is_established
                        )
                    connection.end(Ending.TIMED_OUT)
                elif connection.since + IDLE_SECONDS_MIN <= now and len(idle) < _LOOKED_AT_MAX:
                    idle.append(connection)
            self._idle = idle

    def _is_overdue(self, connection: Connection, now: float) -> bool:
        limits = self.limits
        if not connection.is_established and connection.accepted_at + limits.login_timeout_s <= now:
            return True
        is_receiving = connection.phase is Phase.RECEIVING
        timeout = limits.request_timeout_s if is_receiving else limits.idle_timeout_s
        return connection.since + timeout <= now

    async def _serve_stream(self, stream: trio.abc.HalfCloseableStream) -> None:
        self.statistics.connections_accepted += 1
        try:
            connection = Connection(self, stream, is_confined=self._requires_login)
            if self._admit(connection):
                await self._serve_connection(connection)
            else:
                await self._refuse(connection)
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

    def _admit(self, newcomer: Connection) -> bool:
        """Return True if ``newcomer`` gets a place; another connection may be evicted for it."""
        address, limits = newcomer.address, self.limits
        if address is not None and self._by_address[address] >= limits.of_address(address):
            if self._may_warn():
                _logger.warning(
                    "%s: %s has as many connections as max.connections.per.ip allows",
                    self.name,
                    address,
                )
            self.statistics.connections_refused_per_ip += 1
            return False
        if len(self._open) < limits.unreserved_max:
            return True
        if self._handshaking < limits.unreserved_max / 2 and self._evict():
            return True
        return len(self._open) < limits.connections_max

    def establish(self, connection: Connection, *, may_use_reserve: bool = False) -> None:
        """Mark a connection as established: its peer is known, so its limits are raised.

        Raises:
            ClosingError: it uses a reserved place without the right to one.
        """
        connection.is_confined = False
        if connection.is_established:
            return
        connection.is_established = True
        self._unestablished.pop(connection, None)
        limits = self.limits
        if not limits.reserved or may_use_reserve:
            return
        if len(self._open) > limits.unreserved_max and not self._evict():
            self.statistics.connections_refused += 1
            raise ClosingError(
                "max.connections is reached; the remaining connections are for super users"
            )

    def _evict(self) -> bool:
        """Evict one connection; return False if none may be evicted."""
        # The dict is in the order of accepting, so the first that waits is the oldest.
        waiting = (each for each in self._unestablished if each.is_waiting)
        victim = next(waiting, None)
        while victim is None and self._idle:
            oldest = self._idle.popleft()
            victim = oldest if self._is_stalled(oldest) else None
        if victim is not None:
            self._end_for_another(victim)
        return victim is not None

    def _is_stalled(self, connection: Connection) -> bool:
        """Return True if an open connection has waited a long time for its peer."""
        least = IDLE_SECONDS_MIN if connection.is_established else STALL_SECONDS_MIN
        return (
            connection in self._open
            and connection.phase not in _EXEMPT
            and connection.since + least <= trio.current_time()
        )

    def free_memory(self, newcomer: Connection, hold: Callable[[], bool]) -> bool:
        """End stalled connections that hold memory until ``hold`` succeeds; return its result."""
        holders = [
            connection
            for connection in chain(islice(self._unestablished, _LOOKED_AT_MAX), self._idle)
            if connection is not newcomer
            and connection.reservation.exceeds_free_bytes
            and self._is_stalled(connection)
        ]
        for connection in holders:
            self._end_for_another(connection)
            if hold():
                return True
        return False

    def _end_for_another(self, connection: Connection) -> None:
        self.statistics.connections_evicted += 1
        connection.end(Ending.EVICTED)
        self._remove(connection)

    def _remove(self, connection: Connection) -> None:
        connection.reservation.reserve(0)
        if connection not in self._open:
            return
        del self._open[connection]
        self._unestablished.pop(connection, None)
        address = connection.address
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]
        self.statistics.connections_open = len(self._open)
        self._notice_drained()

    async def _refuse(self, connection: Connection) -> None:
        """Send the reason, and read the peer's bytes before closing: a reset would discard it."""
        self.statistics.connections_refused += 1
        if not self._too_many or self.tls is not None:
            return  # the reason would need a TLS handshake, which costs more than a connection
        if self._refusals >= min(REFUSALS_AT_ONCE_MAX, self.limits.connections_max):
            # This cannot block: the send buffer of a new connection is empty.
            await connection.stream.send_all(self._too_many)
            return
        self._refusals += 1
        try:
            await send_last(connection.stream, self._too_many)
        finally:
            self._refusals -= 1

    async def _serve_connection(self, connection: Connection) -> None:
        self._open[connection] = None
        self._unestablished[connection] = None
        if connection.address is not None:
            self._by_address[connection.address] += 1
        self.statistics.connections_open = len(self._open)
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
                connection.stream, partial(self._working, connection)
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
            connection.enter(Phase.IDLE)
            if self.is_draining:
                connection.end(Ending.DRAINED)

    def end_identified(self) -> None:
        """End the connections that a client certificate identified, at the next sweep."""
        for connection in self._open:
            if connection.principal is not None:
                connection.expires_at = -math.inf
