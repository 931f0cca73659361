"""The connections of one endpoint: how many there may be, how long they may be idle, how they end.

Law: whatever a peer does costs it its own connection and no more. A drained server lets each
request that is under way be answered, and takes none after it. A request that does not end is no
sign of life: a connection is idle from the last one that did, or from this one's first byte.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import trio

from config.bounds import RECEIVE_BYTES
from config.configuration import Reloadable
from daemon.errors import ClosingError, NoRoomError
from daemon.request_room import RequestRoom, Share
from daemon.turn_clock import PAUSE_SECONDS
from protocol.errors import DecodeError

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ConnectionStatistics:
    """What one server has seen so far; only it writes here."""

    connections_open: int = 0
    connections_refused: int = 0
    connections_broken: int = 0
    requests: int = 0
    requests_refused: int = 0


class ConnectionServer(ABC):
    """Serves each connection by ``converse``, which a subclass has.

    Args:
        room_bytes: what all connections may hold of requests and answers.
        too_many: what a connection that is one too many is told before it is closed.
    """

    statistics: ConnectionStatistics

    def __init__(
        self,
        *,
        name: str,
        room_bytes: int,
        max_connections: int,
        idle_timeout_ms: int,
        drain_timeout_ms: int,
        too_many: bytes = b"",
    ) -> None:
        self.name: Final = name
        self.room: Final = RequestRoom(room_bytes)
        self._too_many = too_many
        self._max_connections = max_connections
        self._idle_timeout = idle_timeout_ms / 1000
        self._drain_timeout = drain_timeout_ms / 1000
        self._accepting = trio.CancelScope()
        self._waiting: set[trio.CancelScope] = set()
        self._draining = False
        self._drained = trio.Event()

    @abstractmethod
    async def converse(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end.

        Raises:
            DecodeError, ClosingError: why it is to be closed.
        """

    def reconfigure(self, settings: Reloadable) -> None:
        """Take over other limits, for what begins from now on."""
        self._max_connections = settings.max_connections
        self._idle_timeout = settings.connections_max_idle_ms / 1000
        self._drain_timeout = settings.http_drain_timeout_ms / 1000

    async def serve(
        self,
        listeners: Sequence[trio.abc.Listener[trio.SocketStream]],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until drained or cancelled; the listeners are closed then."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            with self._accepting:
                await trio.serve_listeners(
                    self._serve_stream, list(listeners), handler_nursery=nursery
                )
            await self._drained.wait()
            nursery.cancel_scope.cancel()

    async def drain(self) -> None:
        """Accept no more, close who waits, and return when the last request is answered."""
        self._accepting.cancel()
        # Two turns of the loop, so that what had arrived before is no longer taken for idle.
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        self._draining = True
        for waiting in self._waiting:
            waiting.cancel()
        self._notice_drained()
        with trio.move_on_after(self._drain_timeout):
            await self._drained.wait()
        self._drained.set()

    def _notice_drained(self) -> None:
        if self._draining and not self.statistics.connections_open:
            self._drained.set()

    async def _serve_stream(self, stream: trio.SocketStream) -> None:
        async with stream:
            if self.statistics.connections_open >= self._max_connections:
                await self._refuse(stream)
                return
            self.statistics.connections_open += 1
            try:
                await self.converse(stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # the peer went away, which is its right
            except (DecodeError, ClosingError) as error:
                self.statistics.connections_broken += 1
                _logger.info("%s: connection closed: %s", self.name, error)
            except Exception:
                self.statistics.connections_broken += 1
                _logger.exception("%s: connection closed", self.name)
            finally:
                self.statistics.connections_open -= 1
                self._notice_drained()

    async def _refuse(self, stream: trio.SocketStream) -> None:
        """Say why, and do not wait for it to be read: a new connection has room for a line."""
        self.statistics.connections_refused += 1
        if self._too_many:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await stream.send_all(self._too_many)

    async def receive(self, stream: trio.SocketStream, idle_since: float) -> bytes:
        """Return what the peer sends next; nothing where it is idle too long, or drained."""
        if self._draining:
            return b""
        with trio.move_on_at(idle_since + self._idle_timeout) as scope:
            self._waiting.add(scope)
            try:
                return bytes(await stream.receive_some(RECEIVE_BYTES))
            finally:
                self._waiting.discard(scope)
        return b""

    async def pause(self) -> None:
        """Let a moment go by, a drain aside, before more is read of a connection."""
        if self._draining:
            return
        with trio.move_on_after(PAUSE_SECONDS) as scope:
            self._waiting.add(scope)
            try:
                await trio.sleep_forever()
            finally:
                self._waiting.discard(scope)

    async def send(self, stream: trio.SocketStream, data: bytes | bytearray) -> None:
        """Send ``data``, unless the peer takes none for as long as it may be idle."""
        with trio.move_on_after(self._idle_timeout) as scope:
            await stream.send_all(data)
        if scope.cancelled_caught:
            raise ClosingError("the client does not read its answers")


class Intake:
    """What one connection sends, and how much of that and of its answers is held.

    To be closed when the connection is, so that others have its room.
    """

    def __init__(self, server: ConnectionServer, stream: trio.SocketStream) -> None:
        self._server = server
        self._stream = stream
        self._share = Share(server.room)
        self._idle_since = trio.current_time()

    async def receive(self, bytes_left: int) -> bytes:
        """Return what the peer sends next, nothing at its end or where it took too long.

        Args:
            bytes_left: what is held of a request that has not come in whole.

        Raises:
            NoRoomError: there is no room for it.
        """
        self._share.cover(bytes_left)
        if not bytes_left:
            self._idle_since = trio.current_time()
        data = await self._server.receive(self._stream, self._idle_since)
        if not bytes_left:
            self._idle_since = trio.current_time()
        if not self._share.cover(bytes_left + len(data)):
            raise self._refused(f"a request of {bytes_left + len(data)} bytes or more")
        return data

    def keep(self, bytes_left: int) -> None:
        """Hold what is left to answer, and no more."""
        self._share.cover(bytes_left)

    def hold_answer(self, size: int) -> None:
        """Hold so many bytes of an answer, too, until ``keep``.

        Raises:
            NoRoomError: there is no room for it.
        """
        if not self._share.cover_answer(size):
            raise self._refused(f"an answer of {size} bytes")

    def _refused(self, what: str) -> NoRoomError:
        self._server.statistics.requests_refused += 1
        return NoRoomError(f"there is no room for {what}")

    def close(self) -> None:
        self._share.cover(0)
