"""Follow the ACLs of a daemon, written once for all runtimes."""

from __future__ import annotations

import math
import ssl
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from authorizerd_client.daemons import Daemon
from authorizerd_client.errors import AuthorizerdError, ConnectionLostError, TimedOutError
from authorizerd_client.following import Follower, new_silence_error
from authorizerd_client.runtime import Expired, Runtime, Stream
from authorizerd_client.secure_stream import open_stream
from authorizerd_client.watch_attempts import Attempts, to_lost
from authorizerd_client.watch_values import AclEvent

SILENCE_SECONDS: Final = 30.0
"""The daemon sends a heartbeat every 10 seconds."""


class AsyncAclWatch(ABC):
    """An asynchronous iterator of events: a ``Listing`` first, then every change.

    It reconnects by itself, and continues where it was. If the daemon no longer has the changes
    in between, or another daemon answers, it yields a new ``Listing``. ``close`` ends the
    iteration.

    Cancelling a wait for an event closes the connection; the next wait connects again.

    Args:
        address: ``http://HOST:PORT`` or ``https://HOST:PORT`` of the decision port; or a list
            of these, in order of preference.
        token: ``ID.SECRET`` of a principal in the daemon's ``authorizerd.callers.read``, unless
            the client has a certificate.
        tls: how to check the daemon's certificate, and which certificate to present.
        connect_timeout_seconds: time limit of one attempt to connect.
        silence_seconds: how long the daemon may be silent before the watch connects again. The
            head of its answer must arrive within this time.
        retry_seconds: how long to try without an answer before an error is raised.

    Raises:
        ValueError: an address is invalid, or ``tls`` is given for one without TLS.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        connect_timeout_seconds: float = 5.0,
        silence_seconds: float = SILENCE_SECONDS,
        retry_seconds: float = math.inf,
    ) -> None:
        self._runtime: Final = self._new_runtime()
        self._attempts: Final = Attempts(address, tls, retry_seconds)
        self._follower: Final = Follower(token)
        self._connect_timeout: Final = connect_timeout_seconds
        self._silence_seconds: Final = silence_seconds
        self._events: deque[AclEvent] = deque()
        self._daemon: Daemon | None = None
        self._stream: Stream | None = None
        self._answer_deadline = math.inf
        self._is_closed = False

    @staticmethod
    @abstractmethod
    def _new_runtime() -> Runtime: ...

    def close(self) -> None:
        """End the watch."""
        self._is_closed = True
        self._runtime.end_calls(self._drop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AclEvent:
        """Wait for the next event.

        Raises:
            TokenRefusedError, ForbiddenError, InvalidRequestError, ProtocolError, TlsError: the
                watch cannot go on.
            ConnectionLostError: no daemon has answered for ``retry_seconds``.
        """
        with self._runtime.take_turn(math.inf):
            while not self._is_closed:
                if self._events:
                    return self._events.popleft()
                try:
                    await self._advance()
                except AuthorizerdError:
                    self._drop()
                    if not self._is_closed:
                        raise
                except BaseException:
                    self._drop()
                    raise
        raise StopAsyncIteration

    async def _advance(self) -> None:
        """Take one step: wait, connect, or receive."""
        if self._stream is None:
            daemon = self._attempts.choose(self._runtime.now())
            if daemon is None:
                await self._runtime.sleep_until(self._attempts.next_attempt)
                return
            if daemon is not self._daemon:
                self._follower.forget()
            self._daemon = daemon
        daemon = self._daemon
        assert daemon is not None, "chosen with the first connection"
        try:
            stream = self._stream or await self._connect(daemon)
            if self._is_closed:
                raise ConnectionLostError("the watch was closed")
            found = self._follower.receive_data(await self._receive(stream))
            if self._follower.is_answered:
                self._attempts.succeed(daemon, self._runtime.now())
            self._events += found
            if self._follower.needs_connection:
                self._drop()
                if not found:
                    raise ConnectionLostError("the daemon has ended the watch")
        except (OSError, AuthorizerdError) as error:
            self._drop()
            self._attempts.fail(daemon, to_lost(error), self._runtime.now())

    async def _connect(self, daemon: Daemon) -> Stream:
        request = self._follower.begin(daemon.address)
        try:
            async with self._runtime.limit(self._runtime.now() + self._connect_timeout):
                self._stream = stream = await open_stream(self._runtime, daemon)
                await stream.send_all(request)
        except Expired:
            raise TimedOutError("the daemon did not answer in time") from None
        self._answer_deadline = self._runtime.now() + self._silence_seconds
        return stream

    async def _receive(self, stream: Stream) -> bytes:
        """Return the next bytes of the answer; empty at its end."""
        deadline = self._answer_deadline
        if self._follower.is_answered:
            deadline = self._runtime.now() + self._silence_seconds
        try:
            async with self._runtime.limit(deadline):
                return await stream.receive()
        except Expired:
            raise new_silence_error(self._follower, self._silence_seconds) from None

    def _drop(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
