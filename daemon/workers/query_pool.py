"""The query process from the daemon's point of view: a pool of one process that nothing waits for.

**Invariant:** no acknowledgement and no decision waits for the query process. While it is down,
each question is refused at once.
"""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Self

import trio

from authorizerd.daemon.queries.children import ENDED, EndCounts, Question
from authorizerd.daemon.queries.handover import receive_header
from authorizerd.daemon.workers.pool import WorkerPool

_logger = logging.getLogger("authorizerd")


class QueryPool(WorkerPool):
    """Start, feed, watch and replace the query process; its arguments are those of a pool with one
    worker.

    ``questions`` is the socket on which decision ports send questions. It stays the same when the
    process is replaced. The process receives questions from ``descriptor``.
    """

    questions: socket.socket
    _received: socket.socket

    def __init__(self, *arguments: Any, **more: Any) -> None:  # noqa: ANN401 - of another class
        super().__init__(1, *arguments, **more)

    def __enter__(self) -> Self:
        """Open the sockets."""
        # Each question arrives as a whole, whichever process sends it.
        self.questions, self._received = socket.socketpair(type=socket.SOCK_SEQPACKET)
        return self

    def __exit__(self, *_: object) -> None:
        self.questions.close()
        self._received.close()

    @property
    def descriptor(self) -> int:
        return self._received.fileno()

    def ended(self) -> dict[str, int]:
        """Return the number of questions that ended without an answer, by reason."""
        return asdict(self.sums().statistics(EndCounts, ENDED))

    async def _rest(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            while True:
                await trio.lowlevel.wait_readable(self._received)
                with suppress(BlockingIOError):
                    received = receive_header(self._received)
                    if received is not None:
                        Question(*received).close()  # the caller notices that

    def _name(self, number: int) -> str:
        return "the query process"

    def _report_complete(self) -> None:
        _logger.info("the query process answers")
