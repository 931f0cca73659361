"""The audit's stream: standard output, standard error, a pipe or a device.

**Invariant:** a slow or stuck reader is waited for in a worker thread, and costs lines alone. Lines
are whole, those of several processes too: each writes only what a pipe takes at once, and all of
them take turns.
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
"""How soon a thread that waits for a reader sees that nobody waits for it any more."""


class AuditStream:
    """Args:
    descriptor: open for writing. How it is open otherwise is left alone, since others may share it.
    is_ours: whether ``close`` is to close it.
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
        """Go on: a stream is nowhere else."""

    async def write(self, lines: Sequence[bytes]) -> None:
        """Write lines, waiting for the reader; cancelled, leave the thread to itself.

        Raises:
            PartialWriteError, OSError: nobody reads any more, or the device is full.
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
        """Send ``piece``, and yield how much of it went each time; leave off when left."""
        while piece and not self._is_left:
            size = self._send_some(piece)
            piece = piece[size:]
            yield size

    def _send_some(self, data: bytes) -> int:
        """Send what is taken of ``data``, which a pipe has room for, once there is room."""
        if not self._poll.poll(_LOOK_MS):
            return 0
        with suppress(BlockingIOError):
            size = self._write(self._descriptor, data)
            self._is_torn = not data[:size].endswith(b"\n")
            return size
        return 0


def _pieces(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the lines, as many at a time as a pipe takes at once; a longer one in parts."""
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
