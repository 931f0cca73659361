"""The decision stream without a socket: frames, their encoding, and the matching of answers.

**Invariant:** decisions come only from a complete answer with error code 0, the expected
correlation id and one byte per question. Bytes that violate the protocol end the connection.

A frame is a 4-byte big-endian length and one msgpack array; docs/stream.md of authorizerd
specifies the protocol.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from authorizerd_client.errors import (
    CONNECTION_REFUSED_SECONDS,
    AuthorizerdError,
    ConnectionLostError,
    InvalidQuestionError,
    ProtocolError,
    TlsError,
    new_answer_error,
)
from authorizerd_client.values import AnyQuestion, Decisions, Question

FRAME_BYTES_MAX: Final = 131_072
"""The daemon's default limit for a frame of questions."""
QUESTIONS_PER_FRAME: Final = 256
RECEIVE_BYTES: Final = 65_536

_VERSION: Final = 1
_HELLO: Final = "hello"
_NO_CORRELATION_ID: Final = -1
"""The id of the answer to a frame that the daemon refused before it was complete."""
_SIZE_BYTES: Final = 4
_HEAD_BYTES: Final = 32
"""An upper bound for the part of a frame that is not questions."""
_LIST_HEAD_BYTES: Final = 5
"""The maximum size of a list's length in msgpack."""
_TLS_ALERT: Final = b"\x15\x03"
"""The first bytes of a TLS server's answer to a client that does not speak TLS."""
_CLOSED_EARLY: Final = (
    "the daemon closed the connection without answering the hello; if it expects TLS at this "
    "address, use tls://HOST:PORT"
)
_ANSWER_EXTRA_BYTES: Final = 1024
"""Space for fields that later versions may append to an answer."""


class _Greeting(msgspec.Struct, array_like=True, frozen=True, gc=False):
    hello: str
    version: int
    error_code: int
    offset: int


class _Answer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    correlation_id: int
    error_code: int
    offset: int
    decisions: bytes


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_greeting: Final = msgspec.msgpack.Decoder(_Greeting).decode
_decode_answer: Final = msgspec.msgpack.Decoder(_Answer).decode


@dataclass(frozen=True, slots=True)
class Request:
    """Encoded questions, ready to be sent on any connection."""

    questions: msgspec.Raw
    count: int
    min_offset: int

    def with_min_offset(self, offset: int) -> Request:
        """Return the same request with a ``min_offset`` of at least ``offset``."""
        return self if offset <= self.min_offset else replace(self, min_offset=offset)


def encode_request(
    questions: Sequence[AnyQuestion], min_offset: int, frame_bytes_max: int
) -> Request:
    """Return the request for ``questions``.

    Raises:
        InvalidQuestionError: a text or number cannot be encoded, or the frame would be larger
            than ``frame_bytes_max``.
    """
    encoded = _encode_questions(list(questions))
    _encode_questions(min_offset)  # raises before anything is sent
    size = len(encoded) + _HEAD_BYTES
    if size > frame_bytes_max:
        raise InvalidQuestionError(
            f"{len(questions)} questions take {size} bytes, but a frame has at most "
            f"{frame_bytes_max}: ask fewer questions at once"
        )
    return Request(msgspec.Raw(encoded), len(questions), min_offset)


def plan_frames(
    question: Question, names: Sequence[str], bytes_max: int
) -> Iterator[list[Question]]:
    """Yield the questions about all ``names``, in lists that each fit into one frame.

    Args:
        question: the question to repeat with each name.
    """
    frame: list[Question] = []
    size = _HEAD_BYTES
    for name in names:
        asked = question._replace(resource_name=name)
        asked_size = len(_encode_questions(asked))
        if frame and (
            len(frame) == QUESTIONS_PER_FRAME or size + asked_size > bytes_max - _LIST_HEAD_BYTES
        ):
            yield frame
            frame, size = [], _HEAD_BYTES
        frame.append(asked)
        size += asked_size
    if frame:
        yield frame


def _encode_questions(value: object) -> bytes:
    try:
        return _encode(value)
    except (ValueError, OverflowError, TypeError) as error:
        raise InvalidQuestionError(f"the question cannot be encoded: {error}") from error


class Exchange:
    """A frame of questions and, once it is settled, its outcome."""

    __slots__ = ("_count", "_outcome", "correlation_id")

    def __init__(self, correlation_id: int, count: int) -> None:
        self.correlation_id = correlation_id
        self._count = count
        self._outcome: Decisions | AuthorizerdError | None = None

    @property
    def is_settled(self) -> bool:
        """Return True once the answer has arrived or cannot arrive any more."""
        return self._outcome is not None

    def settle(self, outcome: Decisions | AuthorizerdError) -> None:
        """Record the outcome, which ``get_decisions`` returns or raises.

        Raises:
            ProtocolError: the number of decisions is not the number of questions.
        """
        if isinstance(outcome, Decisions) and len(outcome.codes) != self._count:
            raise ProtocolError(
                f"expected {self._count} decisions, found {len(outcome.codes)} in the answer"
            )
        self._outcome = outcome

    def get_decisions(self) -> Decisions:
        """Return the decisions of a settled exchange.

        Raises:
            AuthorizerdError: the error that settled the exchange.
        """
        assert self._outcome is not None, "not settled yet"
        if isinstance(self._outcome, Decisions):
            return self._outcome
        raise self._outcome


class Connection:
    """One connection: bytes to send, and outcomes from the bytes received.

    Send ``encode_hello`` first. When ``receive_data`` raises an error, call ``end``: it settles
    every exchange, and later calls raise that error.

    Attributes:
        offset: the log offset in the daemon's hello; None until it has arrived.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self.offset: int | None = None
        self._bytes_max: Final = frame_bytes_max + _ANSWER_EXTRA_BYTES
        self._buffer = bytearray()
        self._in_flight: deque[Exchange] = deque()
        self._correlation_id = 0
        self._new_error: Callable[[], AuthorizerdError] | None = None

    @property
    def in_flight(self) -> Sequence[Exchange]:
        """Return the exchanges that wait for their answers, the oldest first."""
        return self._in_flight

    @property
    def has_ended(self) -> bool:
        """Return True if this connection accepts no more questions."""
        return self._new_error is not None

    def check(self) -> None:
        """Raise the error that ended the connection, if it has ended."""
        if self._new_error is not None:
            raise self._new_error()

    def encode_hello(self, token: str | None) -> bytes:
        """Return the first frame of the connection."""
        return _frame(_encode((_HELLO, _VERSION, token)))

    def ask(self, request: Request) -> tuple[Exchange, bytes]:
        """Return a new exchange, and the frame to send for it.

        Raises:
            AuthorizerdError: the connection has ended.
        """
        self.check()
        self._correlation_id += 1
        exchange = Exchange(self._correlation_id, request.count)
        self._in_flight.append(exchange)
        fields: tuple[object, ...] = (exchange.correlation_id, request.questions)
        if request.min_offset >= 0:
            fields = (*fields, request.min_offset)
        return exchange, _frame(_encode(fields))

    def receive_data(self, data: bytes | bytearray) -> list[Exchange]:
        """Add data from the daemon; return the exchanges that it settles.

        Args:
            data: empty if the daemon has closed the connection.

        Raises:
            AuthorizerdError: the connection has ended.
            ProtocolError: the data violates the protocol.
            TlsError: the daemon expects TLS.
            AnswerError: the daemon refuses the hello, or has no memory left for the next frame.
            ConnectionLostError: the daemon has closed the connection.
        """
        self.check()
        if not data:
            raise ConnectionLostError(
                "the daemon closed the connection" if self.offset is not None else _CLOSED_EARLY
            )
        self._buffer += data
        settled: list[Exchange] = []
        while (content := self._next_frame()) is not None:
            if self.offset is None:
                self._greet(content)
            else:
                settled.append(self._settle_next(content))
        return settled

    def end(self, new_error: Callable[[], AuthorizerdError]) -> list[Exchange]:
        """Settle every exchange with an error, and return them.

        Args:
            new_error: makes the error. Each exchange gets its own, since several tasks that raise
                the same exception would mix their tracebacks.
        """
        # Keep the first error, since later ones are its consequences.
        self._new_error = self._new_error or new_error
        self._buffer.clear()
        ended = [*self._in_flight]
        self._in_flight.clear()
        for exchange in ended:
            exchange.settle(self._new_error())
        return ended

    def _next_frame(self) -> bytes | None:
        if len(self._buffer) < _SIZE_BYTES:
            return None
        if self.offset is None and self._buffer.startswith(_TLS_ALERT):
            raise TlsError("the daemon expects TLS at this address: use tls://HOST:PORT")
        size = int.from_bytes(self._buffer[:_SIZE_BYTES], "big")
        if size > self._bytes_max:
            raise ProtocolError(
                f"expected a frame of at most {self._bytes_max} bytes, found a size of {size}"
            )
        end = _SIZE_BYTES + size
        if len(self._buffer) < end:
            return None
        content = bytes(self._buffer[_SIZE_BYTES:end])
        del self._buffer[:end]
        return content

    def _greet(self, content: bytes) -> None:
        try:
            greeting = _decode_greeting(content)
        # msgspec lets Python's own errors through for invalid UTF-8 and deep nesting.
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"expected the answer to a hello: {error}") from None
        if greeting.hello != _HELLO:
            raise ProtocolError(f"expected the answer to a hello, found {greeting.hello[:20]!r}")
        if greeting.error_code:
            raise new_answer_error(
                greeting.error_code, retry_after_seconds=CONNECTION_REFUSED_SECONDS
            )
        self.offset = greeting.offset

    def _settle_next(self, content: bytes) -> Exchange:
        try:
            answer = _decode_answer(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"expected an answer: {error}") from None
        if answer.correlation_id == _NO_CORRELATION_ID and answer.error_code:
            raise new_answer_error(
                answer.error_code, retry_after_seconds=CONNECTION_REFUSED_SECONDS
            )
        if not self._in_flight or self._in_flight[0].correlation_id != answer.correlation_id:
            expected = f"id {self._in_flight[0].correlation_id}" if self._in_flight else "no answer"
            raise ProtocolError(
                f"expected {expected}, found an answer with correlation id {answer.correlation_id}"
            )
        # Removed only at the end: if the answer is invalid, `end` must still settle the exchange.
        exchange = self._in_flight[0]
        if answer.error_code:
            exchange.settle(new_answer_error(answer.error_code))
        else:
            exchange.settle(Decisions(answer.offset, answer.decisions))
        return self._in_flight.popleft()


def _frame(content: bytes) -> bytes:
    return len(content).to_bytes(_SIZE_BYTES, "big") + content
