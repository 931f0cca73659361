"""Follow the ACLs of a daemon from a trio task.

async with watch("http://127.0.0.1:8181", token="ID.SECRET") as events:
    async for event in events:
        ...
"""

from __future__ import annotations

import math
import ssl
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import trio

from authorizerd_client.daemons import Daemon
from authorizerd_client.errors import AuthorizerdError, ConnectionLostError, TimedOutError
from authorizerd_client.following import Follower, new_silence_error
from authorizerd_client.protocol import RECEIVE_BYTES
from authorizerd_client.tls import TlsSession
from authorizerd_client.watch_attempts import Attempts, to_lost
from authorizerd_client.watch_values import AclEvent

SILENCE_SECONDS: Final = 30.0
"""The daemon sends a heartbeat every 10 seconds."""


class AclWatch:
    """An asynchronous iterator of events. It behaves as ``blocking_watch.AclWatch``.

    Cancelling a wait for an event closes the connection; the next wait connects again.
    """

    def __init__(
        self,
        attempts: Attempts,
        follower: Follower,
        *,
        connect_timeout_seconds: float,
        silence_seconds: float,
    ) -> None:
        self._attempts: Final = attempts
        self._follower: Final = follower
        self._connect_timeout: Final = connect_timeout_seconds
        self._silence_seconds: Final = silence_seconds
        self._events: deque[AclEvent] = deque()
        self._daemon: Daemon | None = None
        self._stream: trio.SocketStream | None = None
        self._tls: TlsSession | None = None
        self._answer_deadline = math.inf

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._drop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AclEvent:
        """Wait for the next event.

        Raises:
            TokenRefusedError, ForbiddenError, InvalidRequestError, ProtocolError, TlsError: the
                watch cannot go on.
            ConnectionLostError: no daemon has answered for ``retry_seconds``.
        """
        await trio.lowlevel.checkpoint()
        while not self._events:
            try:
                await self._advance()
            except BaseException:
                self._drop()
                raise
        return self._events.popleft()

    async def _advance(self) -> None:
        """Take one step: wait, connect, or receive."""
        if self._stream is None:
            daemon = self._attempts.choose(trio.current_time())
            if daemon is None:
                await trio.sleep_until(self._attempts.next_attempt)
                return
            if daemon is not self._daemon:
                self._follower.forget()
            self._daemon = daemon
        daemon = self._daemon
        assert daemon is not None, "chosen with the first connection"
        try:
            if self._stream is None:
                await self._connect(daemon)
            found = self._follower.receive_data(await self._receive())
            if self._follower.is_answered:
                self._attempts.succeed(daemon, trio.current_time())
            self._events += found
            if self._follower.needs_connection:
                self._drop()
                if not found:
                    raise ConnectionLostError("the daemon has ended the watch")
        except (OSError, trio.BrokenResourceError, AuthorizerdError) as error:
            self._drop()
            self._attempts.fail(daemon, to_lost(error), trio.current_time())

    async def _connect(self, daemon: Daemon) -> None:
        with trio.move_on_after(self._connect_timeout) as limit:
            await self._open(daemon)
        if limit.cancelled_caught:
            raise TimedOutError("the daemon did not answer in time")
        self._answer_deadline = trio.current_time() + self._silence_seconds

    async def _open(self, daemon: Daemon) -> None:
        request = self._follower.begin(daemon.address)
        self._stream = stream = await trio.open_tcp_stream(daemon.address.host, daemon.address.port)
        self._tls = tls = None if daemon.tls is None else daemon.tls.new_session()
        if tls is not None:
            to_send = tls.start_handshake()
            while not tls.is_established:
                await stream.send_all(to_send)
                to_send = tls.shake_hands(await stream.receive_some(RECEIVE_BYTES))
            await stream.send_all(to_send)
            request = tls.encrypt(request)
        await stream.send_all(request)

    async def _receive(self) -> bytes:
        """Return the next bytes of the answer; empty at its end."""
        assert self._stream is not None, "connected"
        deadline = self._answer_deadline
        if self._follower.is_answered:
            deadline = trio.current_time() + self._silence_seconds
        with trio.move_on_at(deadline):
            while True:
                received = bytes(await self._stream.receive_some(RECEIVE_BYTES))
                if self._tls is None or not received:
                    return received
                if data := self._tls.decrypt(received):
                    return data
        raise new_silence_error(self._follower, self._silence_seconds)

    def _drop(self) -> None:
        if self._stream is not None:
            self._stream.socket.close()  # `aclose` must be awaited
            self._stream = None


def watch(
    address: str | Sequence[str],
    *,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    connect_timeout_seconds: float = 5.0,
    silence_seconds: float = SILENCE_SECONDS,
    retry_seconds: float = math.inf,
) -> AclWatch:
    """Return an iterator over the ACLs of a daemon and all their changes.

    Its arguments and errors are those of ``blocking_watch.watch``.
    """
    return AclWatch(
        Attempts(address, tls, retry_seconds),
        Follower(token),
        connect_timeout_seconds=connect_timeout_seconds,
        silence_seconds=silence_seconds,
    )
