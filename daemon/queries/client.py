"""Ask the query process, from a process with decision ports.

**Invariant:** a caller's wait is limited, even if the query process hangs. Only a complete answer
counts.
"""

from __future__ import annotations

import os
import socket
import time
import zlib
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Final, Protocol

import trio

from authorizerd.config.bounds import RECEIVE_BYTES
from authorizerd.daemon.errors import BusyError, ClosingError, PastRefusedError
from authorizerd.daemon.queries.admission import LISTINGS_MAX, RUNNING_MAX, WAITING_MAX
from authorizerd.daemon.queries.handover import send_header
from authorizerd.daemon.queries.refusals import error_of
from authorizerd.protocol.framing import SIZE_BYTES, Frames
from authorizerd.protocol.queries import (
    REPLY_BYTES_MAX,
    Answer,
    Header,
    QueryQuestion,
    Refusal,
    decode_reply,
    encode_frame,
    has_lines,
    takes_long,
)

AWAY: Final = "long-running questions cannot be answered now: retry later, or ask another daemon"
LISTING_SECONDS_MAX: Final = 120.0
OPEN_MAX: Final = 2 * (WAITING_MAX + RUNNING_MAX + LISTINGS_MAX)
"""Maximum number of open questions, which use descriptors even if nothing receives them."""
LOST: Final = "the process that was answering has ended: retry later, or ask another daemon"


class OpenAnswer(Protocol):
    """An answer, and the lines that follow it if ``has_lines``."""

    answer: Answer

    async def next_lines(self) -> bytes:
        """Return the next lines, or nothing at their end.

        Raises:
            ClosingError: it ends early.
        """

    def close(self) -> None:
        """Tell the query process to stop."""


class Queries(ABC):
    """Answers long-running questions."""

    async def ask(self, question: QueryQuestion, *, caller: str | None, offset: int) -> Answer:
        """Return the answer to a question without lines. Raises like ``open``."""
        opened = await self.open(question, caller=caller, offset=offset)
        opened.close()
        return opened.answer

    @abstractmethod
    async def open(self, question: QueryQuestion, *, caller: str | None, offset: int) -> OpenAnswer:
        """Return the answer to a question, which must be closed.

        Args:
            caller: the principal that asks, None if callers cannot be told apart.
            offset: the offset of this process's state.

        Raises:
            BusyError: it cannot be answered now, or the time is up.
            Others: one of ``answers.ERRORS``.
        """


class NoQueries(Queries):
    """Refuses every question: a plugin's decisions do not depend on the ACLs alone."""

    async def open(self, question: QueryQuestion, *, caller: str | None, offset: int) -> OpenAnswer:
        raise PastRefusedError(
            "as_of: authorizer.class.name names a class that cannot answer about the past"
        )


NO_QUERIES: Final = NoQueries()


class QueryClient(Queries):
    """Sends questions to the query process.

    Args:
        questions: the socket from which the query process receives them.
        timeout_ms: the maximum time of a question, including its wait. A question about all ACLs
            may take ``LISTING_SECONDS_MAX``.
    """

    def __init__(self, questions: socket.socket, timeout_ms: int) -> None:
        self._questions: Final = questions
        self._timeout_ms: Final = timeout_ms
        self._opened: Final[set[_OpenAnswer]] = set()

    async def open(self, question: QueryQuestion, *, caller: str | None, offset: int) -> OpenAnswer:
        timeout_ms, key = self._timeout_ms, " (authorizerd.search.timeout.ms)"
        if takes_long(question):
            timeout_ms, key = int(LISTING_SECONDS_MAX * 1000), ""
        deadline = time.monotonic() + timeout_ms / 1000
        header = Header(caller, offset, deadline, has_lines(question))
        if len(self._opened) >= OPEN_MAX:  # the query process is down, or does not read
            raise BusyError(AWAY)
        try:
            opened = _OpenAnswer(self._questions, header, self._opened)
        except OSError as error:
            raise BusyError(AWAY) from error
        try:
            with trio.move_on_after(timeout_ms / 1000):
                await opened.ask(encode_frame(question))
                return opened
        except BaseException:
            opened.close()
            raise
        opened.close()
        raise BusyError(
            f"the question took longer than {timeout_ms} ms, including its wait for"
            f" others{key}: retry later, or ask another daemon"
        )


class _OpenAnswer(OpenAnswer):
    """A question's socket, and for a listing, its file.

    Raises:
        OSError: the query process is down, or has not received earlier questions.
    """

    answer: Answer

    def __init__(self, questions: socket.socket, header: Header, opened: set[_OpenAnswer]) -> None:
        self._file = -1
        self._is_complete = False  # True once the file is complete
        self._position = 0  # the child, which writes, uses the descriptor's own position
        ours, theirs = socket.socketpair()
        self._link: Final = trio.socket.from_stdlib_socket(ours)
        self._frames: Final = Frames()
        opened.add(self)
        self._opened: Final = opened
        try:
            with theirs:
                if header.is_listing:
                    self._file = os.memfd_create("lines")
                files = () if self._file < 0 else (self._file,)
                send_header(questions, header, theirs.fileno(), *files)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        self._opened.discard(self)
        self._link.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    async def ask(self, question: bytes) -> None:
        """Send a question, and wait for its answer.

        Raises:
            BusyError: the process that was to answer has ended.
            Others: one of ``answers.ERRORS``.
        """

        async def send() -> None:
            left = memoryview(question)
            with suppress(OSError):  # there may still be a refusal to be read
                while left:
                    left = left[await self._link.send(left) :]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            while (frame := self._frames.next(REPLY_BYTES_MAX)) is None and await self._receive():
                pass
            nursery.cancel_scope.cancel()
        if frame is None:
            raise BusyError(LOST)
        reply = decode_reply(frame)
        if isinstance(reply, Refusal):
            raise error_of(reply)
        self.answer = reply

    async def _receive(self) -> bool:
        """Wait for more; return False at the end."""
        try:
            data = await self._link.recv(RECEIVE_BYTES)
        except ConnectionResetError:
            return False
        self._frames.receive_data(data)
        return bool(data)

    async def next_lines(self) -> bytes:
        while (lines := self._read_lines()) is None:
            if self._is_complete:
                raise ClosingError(f"a listing ended early: {LOST}")
            self._is_complete = not await self._receive()
        return lines

    def _read_lines(self) -> bytes | None:
        """Return the file's next lines, nothing at their end, or None if they are incomplete."""
        file, position = self._file, self._position
        head = os.pread(file, SIZE_BYTES, position)
        size = int.from_bytes(head)
        data = os.pread(file, size, position + SIZE_BYTES)
        if len(head) < SIZE_BYTES or len(data) < size:
            return None
        self._position += SIZE_BYTES + size
        return zlib.decompress(data) if size else b""
