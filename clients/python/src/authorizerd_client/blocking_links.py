"""The connection of the blocking client: choose its daemon, and when to make a new one."""

from __future__ import annotations

import threading
import time
from typing import Final

from authorizerd_client.blocking_link import BlockingLink, Deadline, open_socket
from authorizerd_client.daemons import RETURN_ATTEMPT_SECONDS, Daemon, Daemons
from authorizerd_client.errors import (
    NOT_READY,
    AuthorizerdError,
    ClosedError,
    ConnectionLostError,
    TimedOutError,
    new_answer_error,
)


class BlockingLinks:
    """Make, keep and replace the connection of a client. Only ``close`` may be called anytime.

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
    ) -> None:
        self._daemons: Final = daemons
        self._token = token
        self._connect_timeout = connect_timeout_seconds
        self._frame_bytes_max = frame_bytes_max
        self._link: BlockingLink | None = None
        self._closing = threading.Event()

    def close(self) -> None:
        """End the connection for good, while another thread may be using it."""
        self._closing.set()
        link = self._link
        if link is not None:
            link.shut_down()

    def drop(self) -> None:
        """Close the connection, if there is one."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def check(self, link: BlockingLink) -> None:
        """Drop ``link`` if it has ended.

        Raises:
            ClosedError: the client is closed.
        """
        if link.has_ended:
            self._link = None
        # Raise this rather than the error of the socket that `close` shut down.
        self._check_is_open()

    def get(self, deadline: Deadline) -> BlockingLink:
        """Return the connection. Connect first if necessary."""
        if self._link is not None:
            self._try_to_return(self._link, deadline)
        refusal: AuthorizerdError | None = None
        while self._link is None:
            now = time.monotonic()
            daemon = self._daemons.choose(now)
            if daemon is None or deadline.remaining <= 0:
                if refusal is not None:
                    raise refusal
                self._wait_for_attempt(deadline)
                continue
            seconds = self._daemons.limit_attempt(daemon, now, deadline.remaining)
            try:
                self._link = self._try_to_connect(daemon, deadline.shorten(seconds))
            except AuthorizerdError as error:
                refusal = refusal or error
        # `close` cannot end a connection that is still being made, so check again.
        self._check_is_open()
        return self._link

    def _check_is_open(self) -> None:
        if self._closing.is_set():
            self.drop()
            raise ClosedError("the client is closed")

    def _wait_for_attempt(self, deadline: Deadline) -> None:
        wait = self._daemons.next_attempt - time.monotonic()
        if wait > deadline.remaining or deadline.remaining <= 0:
            raise ConnectionLostError(self._daemons.explain())
        # Unlike time.sleep, this wait can be ended by `close`.
        self._closing.wait(max(0.0, wait))
        self._check_is_open()

    def _try_to_return(self, link: BlockingLink, deadline: Deadline) -> None:
        """Replace the connection by one to an earlier daemon, if there is one and a retry is
        due."""
        earlier = self._daemons.choose_return(link.daemon, time.monotonic())
        if earlier is None:
            return
        try:
            found = self._try_to_connect(earlier, deadline.shorten(RETURN_ATTEMPT_SECONDS))
        except AuthorizerdError:
            return  # the current daemon still answers
        if found is None:
            return
        if found.offset < 0 <= link.offset:
            found.close()
            self._daemons.set_aside(earlier, new_answer_error(NOT_READY), time.monotonic())
            return
        link.close()
        self._link = found

    def _try_to_connect(self, daemon: Daemon, deadline: Deadline) -> BlockingLink | None:
        """Return a connection, or None if the daemon cannot be reached now."""
        attempt = deadline.shorten(self._connect_timeout)
        try:
            tls = None if daemon.tls is None else daemon.tls.new_session()
            connected = open_socket(daemon.address, attempt)
            link = BlockingLink(daemon, connected, tls, self._frame_bytes_max)
            link.greet(self._token, attempt)
        except (OSError, AuthorizerdError) as error:
            daemon.backoff.fail(time.monotonic())
            daemon.error = str(error)
            if isinstance(error, OSError | ConnectionLostError | TimedOutError):
                return None
            raise  # the peer answered, so the caller must know its reason
        self._daemons.record_connection(daemon, time.monotonic())
        return link
