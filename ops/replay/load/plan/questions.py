"""Encode recorded events as questions of a surface: the decision stream, or AuthZEN over HTTP.

**Invariant:** an event that cannot be asked has a reason, and is counted under it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import PatternType
from authorizerd.protocol.decisions.stream import OPERATION_OF, RESOURCE_TYPE_OF
from authorizerd.protocol.framing import frame
from authorizerd.replay.judging.asking import unasked_reason

STREAM: Final = "stream"
HTTP: Final = "http"
SURFACES: Final = (STREAM, HTTP)

BATCH_MAX: Final = 1000
"""Maximum number of questions in one request: the AuthZEN endpoint's limit."""
FRAME_BYTES_MAX: Final = 100_000
"""Maximum size of a frame's questions, below the daemon's default limit."""

_USER: Final = "User:"


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
    if surface == HTTP and not question.principal.startswith(_USER):
        return "principal type is not User (HTTP)"
    if not question.resource_name:
        return "empty resource name"
    if question.host is not None and host_address(question.host) is None:
        return "host is not an IP address"
    return None


_pack: Final = msgspec.msgpack.Encoder().encode
_json: Final = msgspec.json.Encoder().encode


def stream_question(question: RecordedQuestion) -> bytes:
    """Return one question of a frame, with codes for names, as an efficient client writes it."""
    return _pack(
        (
            question.principal,
            question.host,
            OPERATION_OF[question.operation],
            RESOURCE_TYPE_OF[question.resource_type],
            question.resource_name,
        )
    )


def http_question(question: RecordedQuestion) -> bytes:
    """Return one evaluation of a batch, without the host if it is unknown."""
    evaluation: dict[str, object] = {
        "subject": {"type": "user", "id": question.principal.removeprefix(_USER)},
        "action": {"name": question.operation},
        "resource": {"type": question.resource_type, "id": question.resource_name},
    }
    if question.host is not None:
        evaluation["context"] = {"host": question.host}
    return _json(evaluation)


def stream_body(number: int, questions: list[bytes]) -> bytes:
    """Return a whole frame; ``number`` is its correlation ID."""
    return frame(_pack((number, [msgspec.Raw(question) for question in questions])))


def http_body(number: int, questions: list[bytes]) -> bytes:
    """Return the body of a request; its head, which may contain a token, is added on sending."""
    return b'{"evaluations":[' + b",".join(questions) + b"]}"


ENCODE_QUESTION: Final[dict[str, Callable[[RecordedQuestion], bytes]]] = {
    STREAM: stream_question,
    HTTP: http_question,
}
ENCODE_BODY: Final[dict[str, Callable[[int, list[bytes]], bytes]]] = {
    STREAM: stream_body,
    HTTP: http_body,
}


def question_at(surface: str, body: bytes, position: int) -> list[object]:
    """Return the five fields of a question in a planned body, for a report."""
    if surface == STREAM:
        _, questions = msgspec.msgpack.decode(body[4:], type=tuple[int, list[list[object]]])
        return questions[position]
    evaluation = msgspec.json.decode(body)["evaluations"][position]
    return [
        _USER + evaluation["subject"]["id"],
        evaluation.get("context", {}).get("host"),
        evaluation["action"]["name"],
        evaluation["resource"]["type"],
        evaluation["resource"]["id"],
    ]
