"""The connections of the client for trio: choose the daemon, and when to make a new one.

**Invariant:** new questions use one connection. A connection that was replaced by one to an earlier
address ends when its last frame is answered.
"""

from __future__ import annotations

from typing import Final

import trio

from authorizerd_client.daemons import RETURN_ATTEMPT_SECONDS, Daemon, Daemons, Outcome
from authorizerd_client.errors import (
    NOT_READY,
    AuthorizerdError,
    ClosedError,
    ConnectionLostError,
    TimedOutError,
    new_answer_error,
)
from authorizerd_client.trio_link import TrioLink


class TrioLinks:
    """Make, keep and replace the connection of a client.

    Args:
        connect_timeout_seconds: time limit of one attempt to connect, with TLS and hello.
    """

    def __init__(
        self,
        daemons: Daemons,
        *,
        token: str | None,
        connect_timeout_seconds: float,
        frame_bytes_max: int,
        frames_in_flight_max: int,
    ) -> None:
        self._daemons: Final = daemons
        self._token = token
        self._connect_timeout = connect_timeout_seconds
        self._frame_bytes_max = frame_bytes_max
        self._frames_in_flight_max = frames_in_flight_max
        self._connecting = trio.Lock()
        self._link: TrioLink | None = None
        self._retired: TrioLink | None = None
        self._is_closed = False

    @property
    def are_broken(self) -> bool:
        """Return True if there is no connection, or if the attempt to replace it failed."""
        return self._link is None or self._link.daemon.error is not None

    def close(self) -> None:
        """End every connection for good."""
        self._is_closed = True
        for link in (self._link, self._retired):
            if link is not None:
                link.end(_closed_error)

    def set_aside(self, link: TrioLink, outcome: Outcome) -> None:
        """Drop a connection whose daemon failed. Only its first caller has any effect."""
        if self._link is not link:
            return
        self._link = None
        if not link.was_interrupted:
            self._daemons.set_aside(link.daemon, outcome, trio.current_time())
        link.end(lambda: ConnectionLostError("the daemon failed; the question is asked elsewhere"))

    def drop_if_overdue(self) -> None:
        """End the connection if its daemon is silent."""
        link = self._link
        if link is not None and link.end_if_overdue():
            self.set_aside(link, TimedOutError("the daemon stopped answering"))

    async def get(self, limit: float) -> TrioLink:
        """Return the connection. Connect first if necessary."""
        # Callers that cancel before their time limit do not notice a silent daemon: check here.
        self.drop_if_overdue()
        if self._link is not None and not self._link.has_ended:
            await self._try_to_return(self._link)
        if self._link is not None and not self._link.has_ended:
            return self._link
        async with self._connecting:
            refusal: AuthorizerdError | None = None
            # Another task may have connected while this one waited for the lock.
            while self._link is None or self._link.has_ended:
                self._check_is_open()
                now = trio.current_time()
                daemon = self._daemons.choose(now)
                if daemon is None:
                    await self._wait_for_attempt(refusal)
                    continue
                seconds = self._daemons.limit_attempt(daemon, now, limit - now)
                try:
                    self._link = await self._try_to_connect(daemon, seconds)
                except AuthorizerdError as error:
                    refusal = refusal or error
                # `close` cannot end a connection that is still being made, so check again.
                self._check_is_open()
            return self._link

    async def _wait_for_attempt(self, refusal: AuthorizerdError | None) -> None:
        if refusal is not None:
            raise refusal
        if self._daemons.next_attempt > trio.current_effective_deadline():
            raise ConnectionLostError(self._daemons.explain())
        await trio.sleep_until(max(self._daemons.next_attempt, trio.current_time()))

    async def _try_to_return(self, link: TrioLink) -> None:
        """Replace the connection by one to an earlier daemon, if there is one and a retry is due.

        Other tasks use the connection meanwhile. It ends when their questions are answered.
        """
        earlier = self._daemons.choose_return(link.daemon, trio.current_time())
        if earlier is None:
            return
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
            self._daemons.set_aside(earlier, new_answer_error(NOT_READY), trio.current_time())
        else:
            if self._retired is not None:
                self._retired.end(lambda: ConnectionLostError("the connection was replaced twice"))
            self._retired, self._link = link, found
            link.retire()

    def _check_is_open(self) -> None:
        if self._is_closed:
            if self._link is not None:
                self._link.end(_closed_error)
            raise _closed_error()

    async def _try_to_connect(self, daemon: Daemon, seconds: float) -> TrioLink | None:
        """Return a connection, or None if the daemon cannot be reached now.

        Args:
            seconds: a time limit, in addition to those of the call and of every attempt to connect.
        """
        # This error is reported if the time limit of the call ends this attempt.
        daemon.error = "the daemon did not answer in time"
        try:
            with trio.fail_after(min(self._connect_timeout, seconds)):
                link = await self._connect_and_greet(daemon)
        except (OSError, trio.TooSlowError, AuthorizerdError) as error:
            daemon.backoff.fail(trio.current_time())
            daemon.error = str(error) or daemon.error
            if isinstance(error, AuthorizerdError) and not isinstance(error, ConnectionLostError):
                raise  # the peer answered, so the caller must know its reason
            return None
        except trio.Cancelled:  # also raised by the time limit of the call
            daemon.backoff.fail(trio.current_time())
            raise
        self._daemons.record_connection(daemon, trio.current_time())
        return link

    async def _connect_and_greet(self, daemon: Daemon) -> TrioLink:
        address = daemon.address
        if address.path is None:
            stream = await trio.open_tcp_stream(address.host, address.port)
        else:
            stream = await trio.open_unix_socket(address.path)
        link = TrioLink(
            daemon,
            stream,
            None if daemon.tls is None else daemon.tls.new_session(),
            self._frame_bytes_max,
            self._frames_in_flight_max,
        )
        try:
            await link.greet(self._token)
        except BaseException:
            link.end(lambda: ConnectionLostError("the daemon did not answer the hello"))
            raise
        return link


def _closed_error() -> ClosedError:
    return ClosedError("the client is closed")
