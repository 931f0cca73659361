"""One connection of a client, and the calls that share it.

**Invariant:** while calls wait for answers, one of them reads for all. Whenever a call stops
waiting, another one reads on.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from math import inf
from typing import Final

from authorizerd_client.daemons import Daemon
from authorizerd_client.errors import AuthorizerdError, ConnectionLostError
from authorizerd_client.protocol import Connection, Exchange, Request
from authorizerd_client.runtime import Event, Expired, Runtime, Stream
from authorizerd_client.values import Decisions


class _Waiting:
    """An unanswered exchange: when its time limit ends, and events that wake its callers.

    If its call was cancelled, it has no callers.
    """

    __slots__ = ("callers", "limit")

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.callers: list[Event] = []

    async def wait(self, event: Event) -> None:
        self.callers.append(event)
        try:
            await event.wait()
        finally:
            self.callers.remove(event)

    def wake(self) -> None:
        for event in self.callers:
            event.set()


class Link:
    """One connection with its stream.

    Attributes:
        daemon: the peer.
        offset: the log offset in the answer to the hello; -1 if the ACLs are not loaded.
        was_interrupted: True if this client broke the connection, because it could send only a
            part of a frame.
    """

    def __init__(
        self,
        runtime: Runtime,
        daemon: Daemon,
        stream: Stream,
        frame_bytes_max: int,
        frames_in_flight_max: int,
    ) -> None:
        self.daemon: Final = daemon
        self.offset = -1
        self.was_interrupted = False
        self._is_retired = False
        self._runtime = runtime
        self._stream = stream
        self._connection = Connection(frame_bytes_max)
        self._frames_in_flight_max = frames_in_flight_max
        self._sending = runtime.new_lock()
        self._waiting: dict[Exchange, _Waiting] = {}  # the oldest first
        self._is_being_read = False

    @property
    def has_ended(self) -> bool:
        return self._connection.has_ended

    async def greet(self, token: str | None) -> None:
        """Send the hello, and wait for its answer."""
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
        is_attempt = attempt_seconds < inf
        async with self._sending:
            # Answers come in order, so the oldest frame is the next to make room.
            while len(self._connection.in_flight) >= self._frames_in_flight_max:
                await self._wait_until_settled(self._connection.in_flight[0])
            exchange, frame = self._connection.ask(request)
            if is_attempt:
                limit = self._runtime.now() + attempt_seconds
            # Do this before sending, since another call may read the answer before `_send` returns.
            waiting = self._waiting[exchange] = _Waiting(limit)
            if is_attempt:
                await self._send_until(limit, frame)
            else:
                await self._send(frame)
        if is_attempt:
            await self._end_if_silent(exchange, waiting)
        await self._wait_until_settled(exchange)
        return exchange.get_decisions()

    def end_if_overdue(self) -> bool:
        """End the connection if the oldest frame has no answer after its time limit.

        Returns:
            True if this call has ended it.
        """
        oldest = next(iter(self._waiting.values()), None)
        if oldest is None or oldest.limit > self._runtime.now():
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
        self._stream.close()
        for waiting in self._waiting.values():
            waiting.wake()
        self._waiting.clear()

    async def _end_if_silent(self, exchange: Exchange, waiting: _Waiting) -> None:
        """Wait until the exchange has its outcome; end the connection if that takes too long."""
        while not exchange.is_settled:
            # An older frame may have a later limit, because it waits for its `min_offset`.
            oldest = self._waiting[self._connection.in_flight[0]]
            try:
                async with self._runtime.limit(max(waiting.limit, oldest.limit)):
                    await self._wait_until_settled(exchange)
            except Expired:
                self.end_if_overdue()

    async def _wait_until_settled(self, exchange: Exchange) -> None:
        """Wait until the exchange has its outcome. Read meanwhile if no other call does."""
        try:
            while not exchange.is_settled:
                if self._is_being_read:
                    await self._waiting[exchange].wait(self._runtime.new_event())
                    continue
                self._is_being_read = True
                try:
                    while not exchange.is_settled:
                        await self._receive()
                finally:
                    self._is_being_read = False
        finally:
            # Also after a wait: a call that was woken to read may be cancelled before it does.
            if not self._is_being_read:
                self._wake_a_reader()

    def _wake_a_reader(self) -> None:
        for waiting in self._waiting.values():
            if waiting.callers:
                waiting.wake()
                return

    async def _send_until(self, limit: float, frame: bytes) -> None:
        try:
            async with self._runtime.limit(limit):
                await self._send(frame)
        except Expired:
            self.was_interrupted = False  # the daemon does not read

    async def _send(self, frame: bytes) -> None:
        """Send a frame, or end the connection, which settles the frame's exchange."""
        try:
            await self._stream.send_all(frame)
        except (OSError, AuthorizerdError) as error:
            self._end_after(error)
        except BaseException:
            # Part of the frame may have been sent: the daemon would misread the next one.
            self.was_interrupted = True
            self.end(lambda: ConnectionLostError("a frame was interrupted"))
            raise

    async def _receive(self) -> None:
        """Receive some data and settle the exchanges it answers; on failure, end the connection."""
        try:
            settled = self._connection.receive_data(await self._stream.receive())
        except (OSError, AuthorizerdError) as error:
            self._end_after(error)
            return
        for exchange in settled:
            self._waiting.pop(exchange).wake()
        self._end_if_retired()

    def _end_after(self, error: OSError | AuthorizerdError) -> None:
        if isinstance(error, OSError):
            error = ConnectionLostError(f"the connection broke: {error}")
        self.end(partial(copy, error))

    def _end_if_retired(self) -> None:
        if self._is_retired and not self._connection.in_flight:
            self.end(lambda: ConnectionLostError("the connection was replaced"))
