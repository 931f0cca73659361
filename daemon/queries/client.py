"""Ask the query process, from a process that has decision ports.

**Invariant:** a caller waits for a limited time, however the query process fares. An answer counts
only as a whole.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final, Protocol

import trio

from authorizerd.config.bounds import RECEIVE_BYTES
from authorizerd.daemon.errors import BusyError, ClosingError, PastRefusedError
from authorizerd.daemon.queries.answers import error_of
from authorizerd.daemon.queries.handover import send_header
from authorizerd.protocol.framing import Frames
from authorizerd.protocol.queries import (
    REPLY_BYTES_MAX,
    Answer,
    Header,
    ListingQuestion,
    QueryQuestion,
    Refusal,
    decode_reply,
    encode_frame,
)

AWAY: Final = "questions that take long cannot be answered now: retry later, or ask another daemon"
LISTING_SECONDS_MAX: Final = 120.0
LOST: Final = "the process that was to answer has ended: retry later, or ask another daemon"


class OpenAnswer(Protocol):
    """An answer, and the lines that follow that to a ``ListingQuestion``."""

    @property
    def answer(self) -> Answer: ...

    def lines(self) -> AsyncIterator[bytes]:
        """Yield what follows.

        Raises:
            ClosingError: it ends early.
        """

    def close(self) -> None:
        """Let the query process know that nothing more is wanted."""


class Queries(ABC):
    """What answers questions that take long."""

    async def ask(self, question: QueryQuestion, *, caller: str | None, offset: int) -> Answer:
        """Return the answer to a question that is no listing; see ``open``."""
        opened = await self.open(question, caller=caller, offset=offset)
        opened.close()
        return opened.answer

    @abstractmethod
    async def open(self, question: QueryQuestion, *, caller: str | None, offset: int) -> OpenAnswer:
        """Return the answer to a question, which must be closed.

        Args:
            caller: the principal that asks, None if callers cannot be told apart.
            offset: that of the state by which this process decides.

        Raises:
            BusyError: it cannot be answered now, or the time is over.
            Others: one of ``answers.ERRORS``.
        """


class NoQueries(Queries):
    """Answers nothing: another authorizer's decisions do not depend on the ACLs alone."""

    async def open(self, question: QueryQuestion, *, caller: str | None, offset: int) -> OpenAnswer:
        raise PastRefusedError("as_of: authorizer.class.name names a class without a past")


NO_QUERIES: Final = NoQueries()


class QueryClient(Queries):
    """Send questions to the query process.

    Args:
        questions: the socket from which the query process receives them.
        timeout_ms: the maximum time of a question, including its wait.
    """

    def __init__(self, questions: socket.socket, timeout_ms: int) -> None:
        self._questions: Final = questions
        self._timeout_ms: Final = timeout_ms

    async def open(self, question: QueryQuestion, *, caller: str | None, offset: int) -> OpenAnswer:
        is_listing = isinstance(question, ListingQuestion)
        seconds = LISTING_SECONDS_MAX if is_listing else self._timeout_ms / 1000
        link = self._connect(Header(caller, offset, int(seconds * 1000), is_listing))
        try:
            with trio.move_on_after(self._timeout_ms / 1000):
                frames = _FrameReader(link)
                reply = await _exchange(link, frames, encode_frame(question))
                if isinstance(reply, Refusal):
                    raise error_of(reply)
                return _OpenAnswer(link, frames, reply)
        except BaseException:
            link.close()
            raise
        link.close()
        raise BusyError(
            f"the question took longer than {self._timeout_ms} ms, including its wait for"
            " others (authorizerd.search.timeout.ms): retry later, or ask another daemon"
        )

    def _connect(self, header: Header) -> trio.socket.SocketType:
        """Send the header, with one end of a new connection; return the other end.

        Raises:
            BusyError: the query process is away, or has not received what was sent before.
        """
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    send_header(self._questions, header, theirs.fileno())
                except OSError:
                    ours.close()
                    raise
        except OSError as error:
            raise BusyError(AWAY) from error
        return trio.socket.from_stdlib_socket(ours)


class _OpenAnswer(OpenAnswer):
    def __init__(self, link: trio.socket.SocketType, frames: _FrameReader, answer: Answer) -> None:
        self._link: Final = link
        self._frames: Final = frames
        self._answer: Final = answer

    @property
    def answer(self) -> Answer:
        return self._answer

    async def lines(self) -> AsyncIterator[bytes]:
        while lines := await self._frames.read():
            yield bytes(lines)
        if lines is None:
            raise ClosingError(f"a listing of ACLs ended early: {LOST}")

    def close(self) -> None:
        self._link.close()


class _FrameReader:
    """Read the frames of a connection."""

    def __init__(self, link: trio.socket.SocketType) -> None:
        self._link: Final = link
        self._frames: Final = Frames()

    async def read(self) -> bytearray | None:
        """Return the next frame, None if the other end has closed before its end."""
        while (found := self._frames.next(REPLY_BYTES_MAX)) is None:
            try:
                data = await self._link.recv(RECEIVE_BYTES)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._frames.receive_data(data)
        return found


async def _exchange(
    link: trio.socket.SocketType, frames: _FrameReader, question: bytes
) -> Answer | Refusal:
    """Send a question, and return its reply.

    Raises:
        BusyError: the process that was to answer has ended.
    """

    async def send() -> None:
        left = memoryview(question)
        with suppress(OSError):  # there may be a refusal nevertheless
            while left:
                left = left[await link.send(left) :]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        reply = await frames.read()
        nursery.cancel_scope.cancel()
    if reply is None:
        raise BusyError(LOST)
    return decode_reply(reply)
