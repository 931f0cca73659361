"""One connection of the client for trio: its stream, its TLS, and the tasks that share it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import partial

import trio

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
    """

    def __init__(
        self,
        stream: trio.SocketStream,
        tls: TlsSession | None,
        frame_bytes_max: int,
        frames_in_flight_max: int,
    ) -> None:
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

    async def greet(self, token: str | None) -> int:
        """Do the TLS handshake if any, send the hello, and return the offset in its answer."""
        if self._tls is not None:
            await self._shake_hands(self._tls)
        await self._send(self._connection.encode_hello(token))
        while self._connection.offset is None:
            self._connection.check()
            await self._receive()
        return self._connection.offset

    async def ask(self, request: Request, limit: float) -> Decisions:
        """Return the decisions about the questions of one request.

        Args:
            limit: the time after which the daemon counts as silent.
        """
        async with self._sending:
            # Answers come in order, so the oldest frame is the next to make room.
            while len(self._connection.in_flight) >= self._frames_in_flight_max:
                await self._wait_until_settled(self._connection.in_flight[0])
            exchange, frame = self._connection.ask(request)
            # Before sending, since another task may read the answer before `_send` returns.
            self._waiting[exchange] = _Waiting(limit)
            await self._send(frame)
        await self._wait_until_settled(exchange)
        return exchange.get_decisions()

    def end_if_overdue(self) -> None:
        """End the connection if the oldest frame has no answer after its time limit."""
        oldest = next(iter(self._connection.in_flight), None)
        if oldest is not None and self._waiting[oldest].limit <= trio.current_time():
            self.end(lambda: ConnectionLostError("the daemon stopped answering"))

    def end(self, new_error: Callable[[], AuthorizerdError]) -> None:
        """Close the connection; every waiting call gets an error."""
        self._connection.end(new_error)
        self._stream.socket.close()  # `aclose` must be awaited, and `end` cannot
        for waiting in self._waiting.values():
            waiting.wake.set()
        self._waiting.clear()

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
                # A daemon that refuses the client's certificate has closed, but its alert has
                # arrived. No other task reads before the hello is answered.
                await self._receive()
            self.end(self._new_broken_error)
        except BaseException:
            # Part of the frame may have been sent: the daemon would misread the next one.
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

    def _settle(self, received: bytes | bytearray) -> list[Exchange]:
        if self._tls is None:
            return self._connection.receive_data(received)
        data = self._tls.decrypt(received)
        # No data means that a TLS record is incomplete; to the connection it would mean the end.
        return self._connection.receive_data(data) if data else []

    def _new_broken_error(self) -> AuthorizerdError:
        if self._tls is not None:
            return self._tls.new_closed_error()
        return ConnectionLostError("the connection broke")
