"""The stream of one connection: reading and writing its socket, and ending it.

**Invariant:** receiving yields to other tasks; sending writes at once and waits only if the socket
is full. The last answer is not lost to a reset.
"""

from __future__ import annotations

import os
from typing import Final

import trio

from authorizerd.config.bounds import RECEIVE_BYTES

LINGER_SECONDS: Final = 1.0


class SocketStream(trio.abc.HalfCloseableStream):
    """A stream that waits before reading, and writes without waiting: half the work of trio's own.

    trio's stream tries to read before it waits, which always fails between requests.

    Args:
        is_readable: True if bytes have arrived, and the task that reads them has just begun.
    """

    def __init__(self, stream: trio.SocketStream, *, is_readable: bool = False) -> None:
        self._stream = stream
        self._descriptor = stream.socket.fileno()
        self._is_readable = is_readable

    @property
    def descriptor(self) -> int:
        """The socket's number; -1 once it is closed."""
        return self._descriptor

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            try:
                if self._is_readable:
                    self._is_readable = False
                else:
                    await trio.lowlevel.wait_readable(self._descriptor)
                return os.read(self._descriptor, max_bytes or RECEIVE_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        # trio's stream would yield to other tasks even after a write that did not block.
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
        self._descriptor = -1  # the kernel may reuse the number at once
        await self._stream.aclose()


async def send_last(stream: trio.abc.HalfCloseableStream, data: bytes) -> None:
    """Send ``data`` and the end of the stream, then give the peer a moment to read it.

    Closing with unread bytes would reset the connection, and the peer might never see the answer.
    """
    with trio.move_on_after(LINGER_SECONDS):
        if data:
            await stream.send_all(data)
        await stream.send_eof()
        while await stream.receive_some(RECEIVE_BYTES):
            pass
