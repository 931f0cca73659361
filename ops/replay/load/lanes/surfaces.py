"""The client side of a surface, without a socket: encode requests and decode answers.

**Invariant:** an answer can be read in only one way. An unreadable answer ends the lane.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import msgspec

from authorizerd.protocol.decisions.stream import (
    ALLOWED,
    DENIED,
    INVALID,
    STREAM_VERSION,
    StreamClientConnection,
)
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.plan.questions import (
    RecordedQuestion,
    http_body,
    http_question,
    stream_body,
    stream_question,
)

NOT_READY_ERRORS: Final = frozenset(
    {f"{ErrorCode.AUTHORIZER_NOT_READY.value} {ErrorCode.AUTHORIZER_NOT_READY.name}", "HTTP 503"}
)
_ERROR_NAMES: Final = {error.value: error.name for error in ErrorCode}
_ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_PROBE: Final = RecordedQuestion("User:ANONYMOUS", None, "DESCRIBE", "CLUSTER", "kafka-cluster")
_NO_OFFSET: Final = -1


class Answer(msgspec.Struct, frozen=True, gc=False):
    """An answer to a frame: an error for all of its questions, or a byte for each decision.

    ``number`` is the frame's, or None if the surface does not number its answers.
    """

    number: int | None
    error: str | None
    offset: int
    decisions: bytes


class StreamSurface:
    """One connection to the decision stream: a hello and one question, then the load."""

    def __init__(self, token: str | None) -> None:
        self._connection = StreamClientConnection(_ANSWER_BYTES_MAX)
        self._token = token
        self._is_greeted = False

    def greeting(self) -> bytes:
        """Return the first bytes of a connection, which contain one question."""
        probe = stream_body(0, [stream_question(_PROBE)])
        return self._connection.hello(self._token) + probe

    def request(self, body: bytes) -> bytes:
        """Return the bytes to send for a planned body."""
        return body

    def receive_data(self, data: bytes) -> None:
        self._connection.receive_data(data)

    def next_answer(self) -> Answer | None:
        """Return the next answer, or None until it has fully arrived.

        Raises:
            LoadError, DecodeError: the target rejects this client, or sent something unexpected.
        """
        if not self._is_greeted:
            self._read_greeting()
        answer = self._connection.next_answer() if self._is_greeted else None
        if answer is None:
            return None
        error = error_named(answer.error_code) if answer.error_code else None
        return Answer(answer.correlation_id, error, answer.offset, answer.decisions)

    def _read_greeting(self) -> None:
        greeting = self._connection.next_greeting()
        if greeting is None:
            return
        if greeting.error_code or greeting.version != STREAM_VERSION:
            is_token = greeting.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            rejected = "token" if is_token else "hello"
            raise LoadError(f"it rejects the {rejected} ({error_named(greeting.error_code)})")
        self._is_greeted = True


def error_named(code: int) -> str:
    """Return the number and name of a Kafka error."""
    name = _ERROR_NAMES.get(code)
    return str(code) if name is None else f"{code} {name}"


class _Context(msgspec.Struct):
    """The context of a decision, as the daemon writes it."""

    offset: int = _NO_OFFSET
    error: object = None


class _Decision(msgspec.Struct):
    """One evaluation's answer."""

    decision: bool
    context: _Context | None = None

    @property
    def code(self) -> int:
        if self.context is not None and self.context.error is not None:
            return INVALID
        return ALLOWED if self.decision else DENIED


class _Decisions(msgspec.Struct):
    """The body of an answer."""

    evaluations: list[_Decision]


_decode_decisions: Final = msgspec.json.Decoder(_Decisions).decode
_HEAD_END: Final = b"\r\n\r\n"
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*\r", re.IGNORECASE)
_HEAD_BYTES_MAX: Final = 65536
_OK: Final = 200


class HttpSurface:
    """AuthZEN evaluations over one persistent connection, with pipelined requests.

    Its methods are those of ``StreamSurface``.
    """

    def __init__(self, host: str, token: str | None) -> None:
        authorization = "" if token is None else f"Authorization: Bearer {token}\r\n"
        self._head = (
            f"POST /access/v1/evaluations HTTP/1.1\r\nHost: {host}\r\n{authorization}"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        self._received = bytearray()

    def greeting(self) -> bytes:
        return self.request(http_body(0, [http_question(_PROBE)]))

    def request(self, body: bytes) -> bytes:
        return b"%b%d\r\n\r\n%b" % (self._head, len(body), body)

    def receive_data(self, data: bytes) -> None:
        self._received += data

    def next_answer(self) -> Answer | None:
        begin = self._received.find(_HEAD_END) + len(_HEAD_END)
        if begin < len(_HEAD_END):
            if len(self._received) > _HEAD_BYTES_MAX:
                raise LoadError("its answer is not HTTP")
            return None
        head = bytes(self._received[:begin])
        status, length = _STATUS.match(head), _LENGTH.search(head)
        if status is None or length is None or int(length[1]) > _ANSWER_BYTES_MAX:
            raise LoadError("its answer is not HTTP, or has no Content-Length")
        end = begin + int(length[1])
        if len(self._received) < end:
            return None
        body = bytes(self._received[begin:end])
        del self._received[:end]
        return _answered(int(status[1]), body)


Surface: TypeAlias = StreamSurface | HttpSurface
"""The protocol of one connection."""


def _answered(status: int, body: bytes) -> Answer:
    if status != _OK:
        return Answer(None, f"HTTP {status}", _NO_OFFSET, b"")
    try:
        decisions = _decode_decisions(body).evaluations
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LoadError(f"its answer is not a list of decisions: {error}") from None
    offsets = (decision.context.offset for decision in decisions if decision.context is not None)
    codes = bytes(decision.code for decision in decisions)
    return Answer(None, None, max(offsets, default=_NO_OFFSET), codes)


_FORBIDDEN: Final = (
    "the token's principal may not ask about others: list it in authorizerd.callers.ask"
)
_UNWELCOME: Final = {
    error_named(ErrorCode.CLUSTER_AUTHORIZATION_FAILED): _FORBIDDEN,
    "HTTP 401": "it rejects the token (HTTP 401)",
    "HTTP 403": _FORBIDDEN,
    "HTTP 404": "it has no AuthZEN endpoint (HTTP 404)",
}


def check_welcome(answer: Answer) -> None:
    """Check the answer to the greeting's question; "not ready" is also an answer.

    Raises:
        LoadError: the target rejects this client.
    """
    if answer.error is not None:
        if answer.error not in NOT_READY_ERRORS:
            raise LoadError(_UNWELCOME.get(answer.error, f"it answered with {answer.error}"))
    elif not answer.decisions:
        raise LoadError("it answered a question without a decision")
    elif len(answer.decisions) != 1 or INVALID in answer.decisions:
        raise LoadError("this caller may not ask about others: list it in authorizerd.callers.ask")
