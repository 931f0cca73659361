"""Send the body of one streamed answer, part by part.

**Invariant:** at most one part of a connection waits in memory, and the port's budget counts it. A
peer that does not accept a part in time loses its connection. A live body ends soon after its peer,
and it ends completely when the server drains.
"""

from __future__ import annotations

from typing import Final

import trio

from authorizerd.daemon.errors import ClosingError
from authorizerd.daemon.net.connection import Connection, Phase
from authorizerd.protocol.http.connection import ServerConnection
from authorizerd.protocol.http.streamed import StreamedResponse


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
            # Caught here: the nursery would put it into a group.
            try:
                await self._response.write(self._send)
            except Exception as error:  # noqa: BLE001 - raised again
                errors.append(error)
            nursery.cancel_scope.cancel()
        if errors:
            raise errors.pop()

    async def _end_with_peer(self) -> None:
        """Close the connection once the peer has: the next part would come too late to notice."""
        await self._connection.wait_until_disconnected()
        self._connection.scope.cancel()

    async def _send(self, data: bytes) -> None:
        """See ``Send``. Parts of all connections are sent in turns."""
        if not data:
            return
        connection = self._connection
        await connection.admission.wait()
        connection.admission.leave(has_backlog=False)
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
        if self._is_ending:
            self._scope.cancel()
            await trio.lowlevel.checkpoint()
