"""The stream of one HTTP connection: its bytes to and from the socket, and its end.

Law: to receive is where others get their turn; to send is to write at once, and to wait only where
the socket is full. What is sent last is not lost to a reset.
"""

from __future__ import annotations

import os
from typing import Final

import trio

RECEIVE_BYTES: Final = 16 * 1024
LINGER_SECONDS: Final = 1.0


class SocketStream(trio.abc.HalfCloseableStream):
    """A socket read when it is ready and written at once: half the work of trio's own stream.

    trio's tries to read first, which between a request and the next always fails, and passes
    through the loop after each write. Here ``receive_some`` alone is where others get their turn.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._descriptor = stream.socket.fileno()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            try:
                await trio.lowlevel.wait_readable(self._descriptor)
                return os.read(self._descriptor, max_bytes or RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            sent = os.write(self._descriptor, data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error
        if sent < len(data):
            await self._stream.send_all(memoryview(data)[sent:])

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        self._descriptor = -1
        await self._stream.aclose()


async def send_last(stream: trio.abc.HalfCloseableStream, data: bytes) -> None:
    """Send ``data`` and the end, then wait a moment for the peer to have read it.

    To close with bytes unread would reset the connection, and the peer might never see the answer.
    """
    with trio.move_on_after(LINGER_SECONDS):
        if data:
            await stream.send_all(data)
        await stream.send_eof()
        while await stream.receive_some(RECEIVE_BYTES):
            pass
