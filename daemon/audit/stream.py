"""The audit stream: standard output, standard error, a pipe or a device.

**Invariant:** a slow or stuck reader blocks only a thread, and only audit lines are lost. Lines are
whole, even if several processes write: they take turns, and each writes only as much as the pipe
accepts at once.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import trio

from authorizerd.actors.audit_log import PartialWriteError
from authorizerd.daemon.audit.file import AuditLock, Write, count_whole_lines
from authorizerd.daemon.process.threads import run_in_thread

_LOOK_MS: Final = 200
"""How often a waiting thread checks whether it was abandoned."""


class AuditStream:
    """Write audit lines to a stream.

    Args:
        descriptor: open for writing. Its flags stay unchanged, since other processes may share it.
        is_ours: True if ``close`` closes it.
    """

    def __init__(
        self, descriptor: int, turns: AuditLock, *, is_ours: bool, write: Write = os.write
    ) -> None:
        self._descriptor: Final = descriptor
        self._turns: Final = turns
        self._is_ours: Final = is_ours
        self._write: Final = write
        self._is_torn = False
        self._is_abandoned = False
        self._is_busy = False
        self._poll: Final = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._limiter = trio.CapacityLimiter(1)

    def reopen(self) -> None:
        """Do nothing: a stream cannot be reopened."""

    async def write(self, lines: Sequence[bytes]) -> None:
        """Write lines, and wait for the reader. Cancellation abandons the thread.

        Raises:
            PartialWriteError, OSError: the reader has closed the pipe, or the device is full.
        """
        # Even if there are no new lines, a torn line must be ended.
        if not (lines or self._is_torn):
            return
        try:
            await run_in_thread(self._send, lines, abandon_on_cancel=True, limiter=self._limiter)
        except trio.Cancelled:
            self._is_abandoned = True
            raise

    def close(self) -> None:
        """Close the stream if it is ours, unless an abandoned thread may still use it."""
        self._is_abandoned = True
        if self._is_ours and not self._is_busy:
            os.close(self._descriptor)

    def _send(self, lines: Sequence[bytes]) -> None:
        self._is_busy = True
        written = 0
        try:
            with self._turns.hold():
                if self._is_torn:
                    sum(self._send_in_parts(b"\n"))  # run the generator to its end
                for block in _blocks(lines):
                    for size in self._send_in_parts(block):
                        written += size
        except OSError as error:
            raise PartialWriteError(error, count_whole_lines(lines, written)) from error
        finally:
            self._is_busy = False

    def _send_in_parts(self, block: bytes) -> Iterator[int]:
        """Send ``block`` and yield the size of each partial write. Stop if abandoned."""
        while block and not self._is_abandoned:
            size = self._send_some(block)
            block = block[size:]
            yield size

    def _send_some(self, data: bytes) -> int:
        """Wait until the pipe has room for ``data``, then send what it accepts."""
        if not self._poll.poll(_LOOK_MS):
            return 0
        # The descriptor may be non-blocking, and another process may fill the pipe after the poll.
        with suppress(BlockingIOError):
            size = self._write(self._descriptor, data)
            self._is_torn = not data[:size].endswith(b"\n")
            return size
        return 0


def _blocks(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the lines in blocks that a pipe accepts at once. Long lines become several blocks."""
    block = b""
    for line in lines:
        if len(block) + len(line) >= select.PIPE_BUF:
            yield from _parts(block)
            block = b""
        block += line + b"\n"
    yield from _parts(block)


def _parts(block: bytes) -> Iterator[bytes]:
    for start in range(0, len(block), select.PIPE_BUF):
        yield block[start : start + select.PIPE_BUF]
