"""One connection of a server: its phase, when the phase began, and how much memory it holds.

A connection is *established* once its peer has logged in or sent its hello. On ports with neither,
it is established by the first answered request (where credentials are required, by the first that
needs them). Until then it may hold little memory, and only for a short time.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Final, Protocol

import trio

from authorizerd.config.bounds import FREE_BYTES, RECEIVE_BYTES
from authorizerd.daemon.errors import ClosingError, MemoryBudgetError
from authorizerd.daemon.net.arrivals import Arrival, Ending, peer_address
from authorizerd.daemon.net.connection_limits import ConnectionLimits, network_of
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics
from authorizerd.daemon.net.memory_budget import MemoryBudget, Reservation
from authorizerd.daemon.net.socket_stream import SocketStream
from authorizerd.daemon.net.turns import PAUSE_SECONDS, Admission, current_turns

FRAME_SIZE_BYTES: Final = 4
LOGIN_BYTES_MAX: Final = FREE_BYTES - FRAME_SIZE_BYTES
"""The largest frame read before authentication or hello, except where tokens log in: it fits in
the connection's free bytes."""
_LOOK_AGAIN_SECONDS: Final = 1.0

wall_clock: Final = time.time


class Phase(Enum):
    IDLE = auto()
    """No byte of the next request has arrived."""
    RECEIVING = auto()
    ANSWERING = auto()
    SENDING = auto()
    STREAMING = auto()
    """A live answer has begun, and its next part is not available yet. No timeout applies."""


class Owner(Protocol):
    """The parts of a server that its connections use; see ``ConnectionServer``."""

    statistics: ConnectionStatistics
    limits: ConnectionLimits
    next_sweep: float
    is_draining: bool

    @property
    def name(self) -> str: ...
    @property
    def memory(self) -> MemoryBudget: ...
    @property
    def turn_ms_max(self) -> float: ...
    def free_memory(self, newcomer: Connection, hold: Callable[[], bool]) -> bool: ...


class Connection:
    """One connection and its state.

    Args:
        confined_to: the bytes that it may hold, all free, until it is established; None if the
            endpoint requires no login.
        arrival: its former arrival; None if it was accepted as a stream.
    """

    def __init__(
        self,
        server: Owner,
        stream: trio.abc.HalfCloseableStream,
        *,
        confined_to: int | None = None,
        arrival: Arrival | None = None,
    ) -> None:
        self._server = server
        self._socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        self.stream = stream
        if isinstance(stream, trio.SocketStream):
            self.stream = SocketStream(stream, is_readable=arrival is not None)
        if arrival is None:
            self.address = None if self._socket is None else peer_address(self._socket)
            self.network = network_of(self.address)
            self.source = server.limits.source_of(self.address)
        else:
            self.address = arrival.address
            self.network, self.source = arrival.network, arrival.source
        self.reservation = Reservation(server.memory, confined_to or FREE_BYTES)
        self.admission = Admission(current_turns(), server.turn_ms_max)
        self.scope = trio.CancelScope()
        self.phase = Phase.IDLE
        # The sweep's time is exact enough for timeouts, and saves reading the clock for each
        # request.
        self.since = server.next_sweep
        self.accepted_at = self.since if arrival is None else arrival.accepted_at
        # The principal of the client's certificate; None without a certificate or TLS. It is valid
        # between two wall-clock times, which are checked at each use: a timer would not be exact,
        # since the clock may be set or the process paused.
        self.principal: str | None = None
        self.valid_from, self.expires_at = -math.inf, math.inf
        # The TLS handshake, if the client's hello was answered before it was served.
        self.answered = None if arrival is None else arrival.answered
        self.confined_to = confined_to
        self.is_established = False
        self.is_known = False  # the peer is authenticated
        self.ending: Ending | None = None
        # Sent to a peer that does not complete a request in time. `converse` sets this when it
        # ends.
        self.too_slow = b""

    @property
    def is_waiting(self) -> bool:
        """True if the server waits for the peer to send, or, before authentication, to read."""
        is_held_up = self.confined_to is not None and self.phase is Phase.SENDING
        return is_held_up or self.phase is Phase.IDLE or self.phase is Phase.RECEIVING

    @property
    def has_expired(self) -> bool:
        """True if the client's certificate is not valid, or not trusted, at this moment."""
        # Most clients have no certificate; for them, the clock is not read.
        return self.expires_at != math.inf and not self.valid_from <= wall_clock() < self.expires_at

    @property
    def certified(self) -> str | None:
        """The principal that the client's certificate proves now, None without a certificate.

        Raises:
            ClosingError: the certificate has expired since the handshake.
        """
        if self.has_expired:
            self.note_expiry()
            raise ClosingError("the client's certificate is no longer valid")
        return self.principal

    def note_expiry(self) -> None:
        """Count that the connection ends because its certificate has expired."""
        if self.ending is None:
            self._server.statistics.connections_expired += 1
            self.ending = Ending.EXPIRED

    def end(self, ending: Ending) -> None:
        """End the connection at its next checkpoint."""
        if self.ending is None:
            self.ending = ending
        self.scope.cancel()

    def end_after_answer(self, ending: Ending) -> None:
        """End the connection once the current request, if there is one, is answered."""
        if self.phase is not Phase.ANSWERING:
            self.end(ending)
        elif self.ending is None:
            self.ending = ending

    def finish_answer(self) -> None:
        """End the connection at its next checkpoint if it was to end after this answer.

        Otherwise a client that sends requests without a pause could keep its connection forever.
        """
        if self.ending is not None:
            self.scope.cancel()

    def enter(self, phase: Phase) -> None:
        self.phase = phase
        self.since = self._server.next_sweep

    async def receive(self, bytes_left: int) -> bytes:
        """Return the next bytes from the peer; empty if the peer has finished or the server drains.

        The connection stays RECEIVING until the caller has a whole request to answer.

        Args:
            bytes_left: how many bytes of an incomplete request are already held.

        Raises:
            MemoryBudgetError: the memory budget is exhausted.
        """
        self.reservation.reserve(bytes_left)
        if not bytes_left:
            if self._server.is_draining:
                return b""
            self.enter(Phase.IDLE)
        elif self.phase is not Phase.RECEIVING:
            self.enter(Phase.RECEIVING)
        # Before authentication a connection may hold only its free bytes, whatever size a frame
        # announces.
        size = RECEIVE_BYTES if self.confined_to is None else self.confined_to - bytes_left
        data = bytes(await self.stream.receive_some(size))
        if not bytes_left:
            self.enter(Phase.RECEIVING)
        await self.admit(bytes_left + len(data))
        return data

    async def admit(self, size: int) -> None:
        """Hold the bytes that have arrived, and wait, if necessary, before they are examined.

        Raises:
            MemoryBudgetError: the memory budget is exhausted.
        """
        if not self.reserve(size):
            raise self._refuse(f"a request of at least {size} bytes")
        if self.admission.has_backlog:
            await self.enter_turn()

    async def enter_turn(self) -> None:
        """Wait, if necessary, before the bytes that have just been received are examined."""
        # Without this, a drain would end an idle connection in spite of its new request.
        if self.phase is Phase.IDLE:
            self.phase = Phase.ANSWERING
        await self.admission.enter()

    async def wait_for_turn(self) -> None:
        """Wait until the connection may continue with what it has received."""
        self.phase = Phase.ANSWERING  # the peer does not cause this wait
        await self.admission.wait()

    async def pause(self) -> None:
        """Wait before reading more if the last request was refused for overload."""
        self.admission.is_deferred = False
        if self._server.is_draining:
            return
        self.enter(Phase.IDLE)
        await trio.sleep(PAUSE_SECONDS)

    async def send(self, data: bytes | bytearray) -> None:
        self.enter(Phase.SENDING)
        await self.stream.send_all(data)
        self.phase = Phase.ANSWERING

    def reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes in total; if necessary, end stalled connections to free memory."""
        reservation = self.reservation
        return reservation.reserve(size) or self._server.free_memory(
            self, partial(reservation.reserve, size)
        )

    def keep(self, bytes_left: int) -> None:
        """Reserve only the bytes of requests that still have to be answered."""
        self.reservation.reserve(bytes_left)

    def hold_answer(self, size: int) -> None:
        """Reserve ``size`` more bytes for an answer, until ``keep`` is called.

        Raises:
            MemoryBudgetError: the memory budget is exhausted.
        """
        if not self.reserve_answer(size):
            raise self._refuse(f"an answer of {size} bytes")

    def reserve_answer(self, size: int) -> bool:
        """Reserve ``size`` more bytes for an answer; see ``reserve``."""
        reservation = self.reservation
        if reservation.reserve_answer(size):
            return True
        return self._server.free_memory(self, partial(reservation.reserve_answer, size))

    def _refuse(self, what: str) -> MemoryBudgetError:
        self._server.statistics.requests_refused += 1
        return MemoryBudgetError(f"the memory limit is reached: cannot hold {what}")

    async def wait_until_disconnected(self) -> None:
        """Return once the peer has ended the connection. Do not read what it sends.

        If unread bytes are waiting, this checks only once per second. Without a
        socket, it never returns.
        """
        if self._socket is None:
            await trio.sleep_forever()
        await trio.lowlevel.wait_readable(self._socket)
        while not self.is_disconnected:  # noqa: ASYNC110 - the kernel has no event for it
            await trio.sleep(_LOOK_AGAIN_SECONDS)

    @property
    def is_disconnected(self) -> bool:
        """True if the peer has ended or reset the connection, even if its requests are unread.

        A peer that has only stopped sending looks the same and counts as disconnected, as in Kafka.
        """
        if self._socket is None:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLRDHUP)  # POLLHUP and POLLERR are reported anyway
        return bool(poll.poll(0))
