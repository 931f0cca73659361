"""One connection of the client for trio: its stream, its TLS, and the tasks that share it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import partial
from math import inf
from typing import Final

import trio

from authorizerd_client.daemons import Daemon
from authorizerd_client.errors import AuthorizerdError, ConnectionLostError, TlsError
from authorizerd_client.protocol import RECEIVE_BYTES, Connection, Exchange, Request
from authorizerd_client.tls import TlsSession
from authorizerd_client.values import Decisions


class _Waiting:
    """An unanswered exchange: an event to wake its callers, and when their time limit ends."""

    __slots__ = ("limit", "wake")

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.wake = trio.Event()


class TrioLink:
    """One connection with its stream.

    One of the waiting tasks reads for all. When it has its own answer, or is cancelled, it wakes
    another waiting task, which reads on.

    Attributes:
        daemon: the peer.
        offset: the log offset in the answer to the hello; -1 if the ACLs are not loaded.
        was_interrupted: True if this client broke the connection, because it could send only a
            part of a frame.
    """

    def __init__(
        self,
        daemon: Daemon,
        stream: trio.SocketStream,
        tls: TlsSession | None,
        frame_bytes_max: int,
        frames_in_flight_max: int,
    ) -> None:
        self.daemon: Final = daemon
        self.offset = -1
        self.was_interrupted = False
        self._is_retired = False
        self._stream = stream
        self._tls = tls
        self._connection = Connection(frame_bytes_max)
        self._frames_in_flight_max = frames_in_flight_max
        self._sending = trio.Lock()
        self._waiting: dict[Exchange, _Waiting] = {}
        self._is_being_read = False

    @property
    def has_ended(self) -> bool:
        return self._connection.has_ended

    async def greet(self, token: str | None) -> None:
        """Do the TLS handshake if any, send the hello, and wait for its answer."""
        if self._tls is not None:
            await self._shake_hands(self._tls)
        await self._send(self._connection.encode_hello(token))
        while self._connection.offset is None:
            self._connection.check()
            await self._receive()
        self.offset = self._connection.offset

    async def ask(self, request: Request, limit: float, attempt_seconds: float) -> Decisions:
        """Return the decisions about the questions of one request.

        Args:
            limit: the time after which the daemon counts as silent.
            attempt_seconds: the daemon also counts as silent this long after the frame was sent;
                infinity for no such limit.
        """
        async with self._sending:
            # Answers come in order, so the oldest frame is the next to make room.
            while len(self._connection.in_flight) >= self._frames_in_flight_max:
                await self._wait_until_settled(self._connection.in_flight[0])
            exchange, frame = self._connection.ask(request)
            is_attempt = attempt_seconds < inf
            # Do this before sending, since another task may read the answer before `_send` returns.
            waiting = self._waiting[exchange] = _Waiting(
                trio.current_time() + attempt_seconds if is_attempt else limit
            )
            with trio.CancelScope(deadline=waiting.limit if is_attempt else inf) as sending:
                await self._send(frame)
            if sending.cancelled_caught:
                self.was_interrupted = False  # the daemon does not read
        if is_attempt:
            await self._end_if_silent(exchange, waiting)
        await self._wait_until_settled(exchange)
        return exchange.get_decisions()

    def end_if_overdue(self) -> bool:
        """End the connection if the oldest frame has no answer after its time limit.

        Returns:
            True if this call has ended it.
        """
        oldest = next(iter(self._connection.in_flight), None)
        if oldest is None or self._waiting[oldest].limit > trio.current_time():
            return False
        self.end(lambda: ConnectionLostError("the daemon stopped answering"))
        return True

    def retire(self) -> None:
        """End the connection once its last frame is answered."""
        self._is_retired = True
        self._end_if_retired()

    def end(self, new_error: Callable[[], AuthorizerdError]) -> None:
        """Close the connection; every waiting call gets an error."""
        self._connection.end(new_error)
        self._stream.socket.close()  # `end` cannot await `aclose`
        for waiting in self._waiting.values():
            waiting.wake.set()
        self._waiting.clear()

    async def _end_if_silent(self, exchange: Exchange, waiting: _Waiting) -> None:
        """Wait until the exchange has its outcome; end the connection if that takes too long."""
        while not exchange.is_settled:
            # An older frame may have a later limit, because it waits for its `min_offset`.
            oldest = self._waiting[self._connection.in_flight[0]]
            with trio.CancelScope(deadline=max(waiting.limit, oldest.limit)):
                await self._wait_until_settled(exchange)
            if not exchange.is_settled:
                self.end_if_overdue()

    async def _wait_until_settled(self, exchange: Exchange) -> None:
        """Wait until the exchange has its outcome. Read meanwhile if no other task does."""
        while not exchange.is_settled:
            if self._is_being_read:
                await self._waiting[exchange].wake.wait()
                continue
            self._is_being_read = True
            try:
                while not exchange.is_settled:
                    await self._receive()
            finally:
                self._is_being_read = False
                self._wake_a_reader()

    def _wake_a_reader(self) -> None:
        for waiting in self._waiting.values():
            # The caller of this exchange may have been cancelled, and then no task could read on.
            if waiting.wake.statistics().tasks_waiting:
                waiting.wake.set()
                waiting.wake = trio.Event()
                return

    async def _shake_hands(self, tls: TlsSession) -> None:
        try:
            to_send = tls.start_handshake()
            while not tls.is_established:
                await self._stream.send_all(to_send)
                to_send = tls.shake_hands(await self._stream.receive_some(RECEIVE_BYTES))
            await self._stream.send_all(to_send)
        except trio.BrokenResourceError as error:
            raise tls.new_closed_error() from error
        except TlsError:
            with suppress(trio.BrokenResourceError):
                await self._stream.send_all(tls.encode_alert())
            raise
        if data := tls.decrypt_pending():
            self._connection.receive_data(data)

    async def _send(self, frame: bytes) -> None:
        """Send a frame, or end the connection, which settles the frame's exchange."""
        try:
            await self._stream.send_all(frame if self._tls is None else self._tls.encrypt(frame))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            if self._tls is not None and self._connection.offset is None:
                # If the daemon refused the client's certificate and closed, its alert has arrived.
                # No other task reads before the hello is answered.
                await self._receive()
            self.end(self._new_broken_error)
        except BaseException:
            # Part of the frame may have been sent: the daemon would misread the next one.
            self.was_interrupted = True
            self.end(lambda: ConnectionLostError("a frame was interrupted"))
            raise

    async def _receive(self) -> None:
        """Receive some data and settle the exchanges it answers; on failure, end the connection."""
        try:
            received = await self._stream.receive_some(RECEIVE_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.end(self._new_broken_error)
            return
        try:
            settled = self._settle(received)
        except AuthorizerdError as error:
            self.end(partial(copy, error))
            return
        for exchange in settled:
            self._waiting.pop(exchange).wake.set()
        self._end_if_retired()

    def _end_if_retired(self) -> None:
        if self._is_retired and not self._connection.in_flight:
            self.end(lambda: ConnectionLostError("the connection was replaced"))

    def _settle(self, received: bytes | bytearray) -> list[Exchange]:
        if self._tls is None:
            return self._connection.receive_data(received)
        data = self._tls.decrypt(received)
        # No data means that a TLS record is incomplete. Do not pass it on: that would signal the
        # end.
        return self._connection.receive_data(data) if data else []

    def _new_broken_error(self) -> AuthorizerdError:
        if self._tls is not None:
            return self._tls.new_closed_error()
        return ConnectionLostError("the connection broke")
