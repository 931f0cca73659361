"""The audit stream: standard output, standard error, a pipe or a device.

**Invariant:** a slow or stuck reader is waited for in a worker thread, and costs only audit lines.
Lines are whole, even if several processes write: they take turns, and each writes only as much as
the pipe accepts at once.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import trio

from authorizerd.actors.audit_log import PartialWriteError
from authorizerd.daemon.audit.file import Write, whole_lines
from authorizerd.daemon.audit.turns import AuditTurns

_LOOK_MS: Final = 200
"""How soon a waiting thread notices that it was abandoned."""


class AuditStream:
    """Write audit lines to a stream.

    Args:
        descriptor: open for writing. Its flags are left alone, since other processes may share it.
        is_ours: True if ``close`` closes it.
    """

    def __init__(
        self, descriptor: int, turns: AuditTurns, *, is_ours: bool, write: Write = os.write
    ) -> None:
        self._descriptor: Final = descriptor
        self._turns: Final = turns
        self._is_ours: Final = is_ours
        self._write: Final = write
        self._is_torn = False
        self._is_left = False
        self._is_busy = False
        self._poll: Final = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._limiter = trio.CapacityLimiter(1)

    def reopen(self) -> None:
        """Do nothing: a stream cannot be reopened."""

    async def write(self, lines: Sequence[bytes]) -> None:
        """Write lines, waiting for the reader; cancellation abandons the thread.

        Raises:
            PartialWriteError, OSError: the reader has gone, or the device is full.
        """
        if not (lines or self._is_torn):
            return
        try:
            await trio.to_thread.run_sync(
                self._send, lines, abandon_on_cancel=True, limiter=self._limiter
            )
        except trio.Cancelled:
            self._is_left = True
            raise

    def close(self) -> None:
        self._is_left = True
        if self._is_ours and not self._is_busy:
            os.close(self._descriptor)

    def _send(self, lines: Sequence[bytes]) -> None:
        self._is_busy = True
        written = 0
        try:
            with self._turns.taken():
                if self._is_torn:
                    sum(self._sizes_sent(b"\n"))
                for piece in _pieces(lines):
                    for size in self._sizes_sent(piece):
                        written += size
        except OSError as error:
            raise PartialWriteError(error, whole_lines(lines, written)) from error
        finally:
            self._is_busy = False

    def _sizes_sent(self, piece: bytes) -> Iterator[int]:
        """Send ``piece`` and yield the size of each partial write; stop if abandoned."""
        while piece and not self._is_left:
            size = self._send_some(piece)
            piece = piece[size:]
            yield size

    def _send_some(self, data: bytes) -> int:
        """Wait until a pipe has room for ``data``, then send what it accepts."""
        if not self._poll.poll(_LOOK_MS):
            return 0
        with suppress(BlockingIOError):
            size = self._write(self._descriptor, data)
            self._is_torn = not data[:size].endswith(b"\n")
            return size
        return 0


def _pieces(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the lines in blocks that a pipe accepts at once; a longer line comes in parts."""
    piece = b""
    for line in lines:
        if len(piece) + len(line) >= select.PIPE_BUF:
            yield from _parts(piece)
            piece = b""
        piece += line + b"\n"
    yield from _parts(piece)


def _parts(piece: bytes) -> Iterator[bytes]:
    for start in range(0, len(piece), select.PIPE_BUF):
        yield piece[start : start + select.PIPE_BUF]
