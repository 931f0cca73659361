"""The surfaces of a target, without a socket: encode questions and requests, and decode answers.

**Invariant:** an event that cannot be asked has a reason, and is counted under it. An answer can be
read in only one way; an unreadable one ends the lane.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import msgspec

from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import PatternType
from authorizerd.protocol.decisions.stream import (
    ALLOWED,
    DENIED,
    INVALID,
    OPERATION_OF,
    RESOURCE_TYPE_OF,
    STREAM_VERSION,
    StreamClientConnection,
)
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.replay.errors import LoadError
from authorizerd.replay.judging.asking import unasked_reason

STREAM: Final = "stream"
HTTP: Final = "http"
BATCH_MAX: Final = 1000
"""Maximum number of questions in one request: the AuthZEN endpoint's limit."""
USER: Final = "User:"
"""The only type of principal that AuthZEN requests have."""
NOT_READY_ERRORS: Final = frozenset(
    {f"{ErrorCode.AUTHORIZER_NOT_READY.value} {ErrorCode.AUTHORIZER_NOT_READY.name}", "HTTP 503"}
)
_ERROR_NAMES: Final = {error.value: error.name for error in ErrorCode}
_ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_NO_OFFSET: Final = -1
_pack: Final = msgspec.msgpack.Encoder().encode
_json: Final = msgspec.json.Encoder().encode


class RecordedQuestion(msgspec.Struct, frozen=True, gc=False):
    """The question of an event: ``judging.asking.QUESTION_FIELDS``, and ``pattern_type``."""

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str = PatternType.LITERAL.name


def reason_not_asked(question: RecordedQuestion, surface: str) -> str | None:
    """Return why ACLs cannot decide ``question``, or ``surface`` rejects it; None if neither."""
    undecidable = unasked_reason(question)
    if undecidable is not None:
        return undecidable.value
    if ":" not in question.principal:
        return "principal without a type"
    if surface == HTTP and not question.principal.startswith(USER):
        return "principal type is not User (HTTP)"
    if not question.resource_name:
        return "empty resource name"
    if question.host is not None and host_address(question.host) is None:
        return "host is not an IP address"
    return None


_PROBE: Final = RecordedQuestion("User:ANONYMOUS", None, "DESCRIBE", "CLUSTER", "kafka-cluster")


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

    def __init__(self, host: str, token: str | None) -> None:
        self._connection = StreamClientConnection(_ANSWER_BYTES_MAX)
        self._token = token
        self._is_greeted = False

    @staticmethod
    def encode_question(question: RecordedQuestion) -> bytes:
        """Return one question of a frame, as an efficient client writes it."""
        operation = OPERATION_OF[question.operation]
        kind = RESOURCE_TYPE_OF[question.resource_type]
        asked = (question.principal, question.host, operation, kind, question.resource_name)
        return _pack(asked)

    @staticmethod
    def encode_body(number: int, questions: list[bytes]) -> bytes:
        """Return the planned body of a frame; ``number`` is its correlation ID."""
        return frame(_pack((number, [msgspec.Raw(question) for question in questions])))

    @staticmethod
    def question_at(body: bytes, position: int) -> list[object]:
        """Return the five fields of a question in a planned body, for a report."""
        _, questions = msgspec.msgpack.decode(body[4:], type=tuple[int, list[list[object]]])
        return questions[position]

    def greeting(self) -> bytes:
        """Return the first bytes of a connection, which contain one question."""
        probe = self.encode_body(0, [self.encode_question(_PROBE)])
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

    @staticmethod
    def encode_question(question: RecordedQuestion) -> bytes:
        evaluation: dict[str, object] = {
            "subject": {"type": "user", "id": question.principal.removeprefix(USER)},
            "action": {"name": question.operation},
            "resource": {"type": question.resource_type, "id": question.resource_name},
        }
        if question.host is not None:
            evaluation["context"] = {"host": question.host}
        return _json(evaluation)

    @staticmethod
    def encode_body(number: int, questions: list[bytes]) -> bytes:
        return b'{"evaluations":[' + b",".join(questions) + b"]}"

    @staticmethod
    def question_at(body: bytes, position: int) -> list[object]:
        evaluation = msgspec.json.decode(body)["evaluations"][position]
        return [
            USER + evaluation["subject"]["id"],
            evaluation.get("context", {}).get("host"),
            evaluation["action"]["name"],
            evaluation["resource"]["type"],
            evaluation["resource"]["id"],
        ]

    def greeting(self) -> bytes:
        return self.request(self.encode_body(0, [self.encode_question(_PROBE)]))

    def request(self, body: bytes) -> bytes:
        """Return a whole request; a planned body must not contain the token."""
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
SURFACES: Final[dict[str, type[Surface]]] = {STREAM: StreamSurface, HTTP: HttpSurface}


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
