"""The decision stream without a socket: many questions per frame, one byte per answer.

**Invariant:** the same bytes give the same frames, however they were split. An invalid frame ends
the connection. A valid frame with invalid questions is answered by an error, and the next one is
read.

Each frame is a 4-byte big-endian size and one msgpack array; see docs/stream.md. A later version
may append fields to a hello and to answers, but not to a question: a daemon that ignored such a
field could allow what the field forbids.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from authorizerd.acl.model import OPERATIONS, RESOURCE_TYPES, Operation, ResourceType
from authorizerd.acl.text.decoding_errors import DECODING_ERRORS, describe_decoding_error
from authorizerd.protocol.framing import Frames, frame
from authorizerd.protocol.kafka.error_codes import ErrorCode

STREAM_VERSION: Final = 1
HELLO: Final = "hello"

DENIED: Final = 0
ALLOWED: Final = 1
INVALID: Final = 2
NOT_READY: Final = 3

StreamQuestion: TypeAlias = tuple[str, str | None, int | str, int | str, str]
"""Principal, host, operation, resource type, resource name. Types are codes or Kafka's names."""


class Hello(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The first frame of a client. ``token`` is None if the client has none."""

    hello: str
    version: int
    token: str | None = None

    def __repr__(self) -> str:
        """Return a text without the token, safe for logs."""
        return f"Hello(version={self.version})"


class Ask(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True, gc=False):
    """Questions to answer together, once ``min_offset`` is applied."""

    correlation_id: int
    questions: list[StreamQuestion]
    min_offset: int = -1


class Unreadable(msgspec.Struct, frozen=True, gc=False):
    """A frame with a correlation id, but invalid questions."""

    correlation_id: int
    reason: str


class _Correlated(msgspec.Struct, array_like=True, frozen=True, gc=False):
    correlation_id: int


_decode_hello: Final = msgspec.msgpack.Decoder(Hello).decode
_decode_ask: Final = msgspec.msgpack.Decoder(Ask).decode
_decode_correlated: Final = msgspec.msgpack.Decoder(_Correlated).decode
_encode: Final = msgspec.msgpack.Encoder().encode

OPERATION_OF: Final[dict[int | str, int]] = {
    key: code for code in OPERATIONS for key in (code, Operation(code).name)
}
"""The codes of operations, keyed by code and by Kafka's name."""
RESOURCE_TYPE_OF: Final[dict[int | str, int]] = {
    key: code for code in RESOURCE_TYPES for key in (code, ResourceType(code).name)
}
"""The codes of resource types, keyed by code and by Kafka's name."""


class StreamServerConnection:
    """Reads frames one by one. The first is a hello, which may have a lower size limit."""

    __slots__ = ("_bytes_max", "_frames", "_has_greeted", "_hello_bytes_max")

    def __init__(self, frame_bytes_max: int, *, hello_bytes_max: int | None = None) -> None:
        self._frames = Frames()
        self._bytes_max = frame_bytes_max
        self._hello_bytes_max = frame_bytes_max if hello_bytes_max is None else hello_bytes_max
        self._has_greeted = False

    @property
    def bytes_held(self) -> int:
        """The bytes received but not returned yet."""
        return self._frames.bytes_held

    def receive_data(self, data: bytes) -> None:
        """Add data from the peer. After a DecodeError, data is dropped."""
        self._frames.receive_data(data)

    def next_frame(self) -> Hello | Ask | Unreadable | None:
        """Return the next frame, or None until it is complete.

        Raises:
            DecodeError: the frame is invalid, or the first one is not a hello.
        """
        data = self._frames.next(self._bytes_max if self._has_greeted else self._hello_bytes_max)
        if data is None:
            return None
        if not self._has_greeted:
            return self._greet(data)
        try:
            return _decode_ask(data)
        except DECODING_ERRORS as error:
            return self._unreadable(data, describe_decoding_error(error))

    def _greet(self, data: bytearray) -> Hello:
        try:
            hello = _decode_hello(data)
        except DECODING_ERRORS as error:
            raise self._frames.refuse(
                f"expected a hello: {describe_decoding_error(error)}", 0
            ) from None
        if hello.hello != HELLO:
            raise self._frames.refuse("expected a hello", 0)
        self._has_greeted = True
        return hello

    def _unreadable(self, data: bytearray, reason: str) -> Unreadable:
        try:
            return Unreadable(_decode_correlated(data).correlation_id, reason)
        except DECODING_ERRORS:
            raise self._frames.refuse(f"expected a frame of questions: {reason}", 0) from None


def encode_hello(error_code: ErrorCode, offset: int) -> bytes:
    """Return the frame that answers a hello."""
    return frame(_encode((HELLO, STREAM_VERSION, int(error_code), offset)))


def encode_answer(
    correlation_id: int, error_code: int, offset: int, decisions: bytes | bytearray = b""
) -> bytes:
    """Return the frame that answers a frame of questions.

    If an error rejects the whole frame, ``decisions`` is empty.
    """
    return frame(_encode((correlation_id, error_code, offset, decisions)))


class Answer(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The daemon's answer to a frame of questions."""

    correlation_id: int
    error_code: int
    offset: int
    decisions: bytes


class Greeting(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The daemon's answer to a hello."""

    hello: str
    version: int
    error_code: int
    offset: int


_decode_greeting: Final = msgspec.msgpack.Decoder(Greeting).decode
_decode_answer: Final = msgspec.msgpack.Decoder(Answer).decode


class StreamClientConnection:
    """The client's end of a stream, without a socket."""

    __slots__ = ("_bytes_max", "_frames")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frames = Frames()
        self._bytes_max = frame_bytes_max

    def hello(self, token: str | None = None) -> bytes:
        """Return the first frame of a connection."""
        return frame(_encode((HELLO, STREAM_VERSION, token)))

    def ask(
        self, correlation_id: int, questions: list[StreamQuestion], min_offset: int = -1
    ) -> bytes:
        """Return a frame of questions.

        Raises:
            ValueError, OverflowError: msgpack cannot encode a text or a number.
        """
        fields: tuple[object, ...] = (correlation_id, questions)
        if min_offset >= 0:
            fields = (*fields, min_offset)
        return frame(_encode(fields))

    def receive_data(self, data: bytes) -> None:
        """Add data from the daemon. After a DecodeError, data is dropped."""
        self._frames.receive_data(data)

    def next_greeting(self) -> Greeting | None:
        """Return the answer to the hello, or None until it is complete.

        Raises:
            DecodeError: the frame is not the answer to a hello.
        """
        data = self._frames.next(self._bytes_max)
        if data is None:
            return None
        try:
            greeting = _decode_greeting(data)
        except DECODING_ERRORS as error:
            reason = describe_decoding_error(error)
            raise self._frames.refuse(f"expected an answer to the hello: {reason}", 0) from None
        if greeting.hello != HELLO:
            raise self._frames.refuse("expected an answer to the hello", 0)
        return greeting

    def next_answer(self) -> Answer | None:
        """Return the next answer, or None until it is complete.

        Raises:
            DecodeError: the frame is not an answer.
        """
        data = self._frames.next(self._bytes_max)
        if data is None:
            return None
        try:
            return _decode_answer(data)
        except DECODING_ERRORS as error:
            raise self._frames.refuse(
                f"expected an answer: {describe_decoding_error(error)}", 0
            ) from None
