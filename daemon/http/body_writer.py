"""Send the body of one streamed answer, part by part.

**Invariant:** at most one part of a connection waits in memory, and the port's budget counts it. A
peer that does not accept a part in time loses its connection. A live body ends soon after its peer
disconnects, and is completed when the server drains.
"""

from __future__ import annotations

import time
from typing import Final

import trio

from authorizerd.daemon.errors import ClosingError
from authorizerd.daemon.net.connection import Connection, Phase
from authorizerd.daemon.net.turns import current_turns
from authorizerd.protocol.http.connection import ServerConnection
from authorizerd.protocol.http.streamed import StreamedResponse

_WAITED_NS_MIN: Final = 1_000_000
"""A part that took longer probably waited for its reader, so its time does not count as work."""


class BodyWriter:
    """Run ``response.write``; call ``run`` once.

    Args:
        protocol: a streamed answer has been started, and its head has been sent.
    """

    def __init__(
        self, connection: Connection, protocol: ServerConnection, response: StreamedResponse
    ) -> None:
        self._connection: Final = connection
        self._protocol: Final = protocol
        self._response: Final = response
        self._scope: Final = trio.CancelScope()
        self._between_parts: Final = Phase.STREAMING if response.is_live else Phase.ANSWERING
        self._is_sending = False
        self._is_ending = False
        self._turns: Final = current_turns()
        self._began_ns = 0
        self._took_ns = 0

    def end_if_live(self) -> None:
        """Complete a live body after the part that is being sent."""
        if not self._response.is_live:
            return
        self._is_ending = True
        if not self._is_sending:
            self._scope.cancel()

    async def run(self) -> None:
        """Send all parts.

        Raises:
            ClosingError: the peer did not accept a part in time, or there is no memory for one.
            BrokenResourceError: the connection broke.
        """
        self._connection.enter(self._between_parts)
        with self._scope:
            if self._response.is_live:
                await self._write_until_disconnected()
            else:
                await self._response.write(self._send)

    async def _write_until_disconnected(self) -> None:
        errors: list[Exception] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_with_peer)
            # Caught here: the nursery would wrap it in a group.
            try:
                await self._response.write(self._send)
            except Exception as error:  # noqa: BLE001 - raised again
                errors.append(error)
            nursery.cancel_scope.cancel()
        if errors:
            raise errors.pop()

    async def _end_with_peer(self) -> None:
        """Close the connection once the peer has closed it; the next send would notice too late."""
        await self._connection.wait_until_disconnected()
        self._connection.scope.cancel()

    async def _send(self, data: bytes) -> None:
        """See ``Send``. Connections take turns: many live answers may continue at once."""
        if not self._began_ns:
            await self._turns.wait(self._took_ns)
            self._began_ns = time.perf_counter_ns()
        if not data:
            return
        connection = self._connection
        _ = connection.certified  # raises once the certificate has expired
        connection.hold_answer(len(data))
        self._is_sending = True
        connection.enter(Phase.SENDING)
        with trio.move_on_after(self._response.stall_seconds) as stall:
            await connection.stream.send_all(self._protocol.part(data))
        if stall.cancelled_caught:
            seconds = self._response.stall_seconds
            raise ClosingError(f"the client has not read its answer for {seconds:g} s")
        connection.keep(self._protocol.bytes_held)
        connection.enter(self._between_parts)
        self._is_sending = False
        took_ns, self._began_ns = time.perf_counter_ns() - self._began_ns, 0
        self._took_ns = took_ns if took_ns < _WAITED_NS_MIN else 0
        if self._is_ending:
            self._scope.cancel()
            await trio.lowlevel.checkpoint()


class LiveBodies:
    """The bodies that one server sends. Live ones have no end until the server drains."""

    def __init__(self) -> None:
        self._writers: Final[set[BodyWriter]] = set()
        self._has_ended = False

    async def run(self, writer: BodyWriter) -> None:
        """Run ``writer``; see ``BodyWriter.run``."""
        self._writers.add(writer)
        if self._has_ended:
            writer.end_if_live()
        try:
            await writer.run()
        finally:
            self._writers.discard(writer)

    def end(self) -> None:
        """Complete all live bodies, including those that begin from now on."""
        self._has_ended = True
        for writer in self._writers:
            writer.end_if_live()
