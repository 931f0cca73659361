"""The connections of a client: choose the daemon, and when to make a new one.

**Invariant:** new questions use one connection. A connection that was replaced by one to an earlier
address ends when its last frame is answered.
"""

from __future__ import annotations

from typing import Final

from authorizerd_client.daemons import RETURN_ATTEMPT_SECONDS, Daemon, Daemons, Outcome
from authorizerd_client.errors import (
    NOT_READY,
    AuthorizerdError,
    ClosedError,
    ConnectionLostError,
    TimedOutError,
    new_answer_error,
)
from authorizerd_client.link import Link
from authorizerd_client.runtime import Expired, Runtime
from authorizerd_client.secure_stream import open_stream


class Links:
    """Make, keep and replace the connection of a client.

    Attributes:
        offset: the newest log offset that a daemon has named, -1 before the first.

    Args:
        connect_timeout_seconds: time limit of one attempt to connect, with TLS and hello.
    """

    def __init__(
        self,
        runtime: Runtime,
        daemons: Daemons,
        *,
        token: str | None,
        connect_timeout_seconds: float,
        frame_bytes_max: int,
        frames_in_flight_max: int,
    ) -> None:
        self.offset = -1
        self._runtime: Final = runtime
        self._daemons: Final = daemons
        self._token = token
        self._connect_timeout = connect_timeout_seconds
        self._frame_bytes_max = frame_bytes_max
        self._frames_in_flight_max = frames_in_flight_max
        self._connecting = runtime.new_lock()
        self._link: Link | None = None
        self._retired: Link | None = None
        self._is_closed = False

    @property
    def are_broken(self) -> bool:
        """Return True if there is no connection, or if the attempt to replace it failed."""
        return self._link is None or self._link.daemon.error is not None

    def refuse_calls(self) -> None:
        """Let every later step of a call raise ``ClosedError``. Any thread may call this."""
        self._is_closed = True

    def close(self) -> None:
        """End every connection for good."""
        self.refuse_calls()
        for link in (self._link, self._retired):
            if link is not None:
                link.end(_closed_error)

    def check_is_open(self) -> None:
        """Raise ``ClosedError`` if the client is closed."""
        if self._is_closed:
            self.close()
            raise _closed_error()

    def set_aside(self, link: Link, outcome: Outcome) -> None:
        """Drop a connection whose daemon failed. Only its first caller has any effect."""
        if self._link is not link:
            return
        self._link = None
        if not link.was_interrupted:
            self._daemons.set_aside(link.daemon, outcome, self._runtime.now())
        link.end(lambda: ConnectionLostError("the daemon failed; the question is asked elsewhere"))

    def drop_if_overdue(self) -> None:
        """End the connection if its daemon is silent."""
        link = self._link
        if link is not None and link.end_if_overdue():
            self.set_aside(link, TimedOutError("the daemon stopped answering"))

    async def get(self, limit: float) -> Link:
        """Return the connection. Connect first if necessary."""
        # Callers that cancel before their time limit do not notice a silent daemon: check here.
        self.drop_if_overdue()
        link = self._link
        if link is not None and not link.has_ended:
            earlier = self._daemons.choose_return(link.daemon, self._runtime.now())
            if earlier is None:
                return link
            await self._try_to_return(link, earlier)
        async with self._connecting:
            refusal: AuthorizerdError | None = None
            # Another task may have connected while this one waited for the lock.
            while self._link is None or self._link.has_ended:
                self.check_is_open()
                now = self._runtime.now()
                daemon = self._daemons.choose(now)
                if daemon is None:
                    await self._wait_for_attempt(limit, refusal)
                    continue
                seconds = self._daemons.limit_attempt(daemon, now, limit - now)
                try:
                    self._link = await self._try_to_connect(daemon, seconds)
                except AuthorizerdError as error:
                    refusal = refusal or error
                # `close` cannot end a connection that is still being made, so check again.
                self.check_is_open()
            return self._link

    async def _wait_for_attempt(self, limit: float, refusal: AuthorizerdError | None) -> None:
        if refusal is not None:
            raise refusal
        if self._daemons.next_attempt > limit:
            raise ConnectionLostError(self._daemons.explain())
        await self._runtime.sleep_until(self._daemons.next_attempt)

    async def _try_to_return(self, link: Link, earlier: Daemon) -> None:
        """Replace the connection by one to an earlier daemon.

        Other calls use the connection meanwhile. It ends when their questions are answered.
        """
        try:
            found = await self._try_to_connect(earlier, RETURN_ATTEMPT_SECONDS)
        except AuthorizerdError:
            return  # the current daemon still answers
        if found is None:
            return
        if self._link is not link or self._is_closed:
            found.retire()
        elif found.offset < 0 <= link.offset:
            found.retire()
            self._daemons.set_aside(earlier, new_answer_error(NOT_READY), self._runtime.now())
        else:
            if self._retired is not None:
                self._retired.end(lambda: ConnectionLostError("the connection was replaced twice"))
            self._retired, self._link = link, found
            link.retire()

    async def _try_to_connect(self, daemon: Daemon, seconds: float) -> Link | None:
        """Return a connection, or None if the daemon cannot be reached now.

        Args:
            seconds: a time limit, in addition to those of the call and of every attempt to connect.
        """
        # This error is reported if the time limit of the call ends this attempt.
        daemon.error = "the daemon did not answer in time"
        deadline = self._runtime.now() + min(self._connect_timeout, seconds)
        try:
            async with self._runtime.limit(deadline):
                link = await self._connect_and_greet(daemon)
        except (OSError, Expired, AuthorizerdError) as error:
            daemon.backoff.fail(self._runtime.now())
            daemon.error = str(error) or daemon.error
            if isinstance(error, AuthorizerdError) and not isinstance(error, ConnectionLostError):
                raise  # the peer answered, so the caller must know its reason
            return None
        except BaseException:  # cancelled, perhaps by the time limit of the call
            daemon.backoff.fail(self._runtime.now())
            raise
        self._daemons.record_connection(daemon, self._runtime.now())
        self.offset = max(self.offset, link.offset)
        return link

    async def _connect_and_greet(self, daemon: Daemon) -> Link:
        stream = await open_stream(self._runtime, daemon)
        link = Link(
            self._runtime, daemon, stream, self._frame_bytes_max, self._frames_in_flight_max
        )
        try:
            await link.greet(self._token)
        except BaseException:
            link.end(lambda: ConnectionLostError("the daemon did not answer the hello"))
            raise
        return link


def _closed_error() -> ClosedError:
    return ClosedError("the client is closed")
