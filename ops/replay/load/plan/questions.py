"""Recorded events as questions of a surface: which of them can be asked, and in what bytes.

**Invariant:** what cannot be asked has a reason, and is counted under it; nothing is left out in
silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from authorizerd.acl.hosts import host_address
from authorizerd.protocol.decisions.stream import OPERATION_OF, RESOURCE_TYPE_OF

STREAM: Final = "stream"
HTTP: Final = "http"
SURFACES: Final = (STREAM, HTTP)

BATCH_MAX: Final = 1000
"""Questions in one request, as AuthZEN's endpoint takes them."""
FRAME_BYTES_MAX: Final = 100_000
"""Below what a daemon takes unless it is told otherwise."""

_USER: Final = "User:"
_EVERYONE: Final = "User:*"
_LITERAL: Final = "LITERAL"


class RecordedQuestion(msgspec.Struct, frozen=True, gc=False):
    """What an event asked, in the words of its row."""

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    pattern_type: str = _LITERAL


def reason_not_asked(question: RecordedQuestion, surface: str) -> str | None:
    """Return why ``surface`` cannot be asked ``question``, None where it can."""
    if question.pattern_type != _LITERAL:
        return "pattern type other than LITERAL"
    if ":" not in question.principal or question.principal == _EVERYONE:
        return "principal that is nobody's"
    if surface == HTTP and not question.principal.startswith(_USER):
        return "principal type other than User over HTTP"
    if question.operation not in OPERATION_OF:
        return "operation not known"
    if question.resource_type not in RESOURCE_TYPE_OF:
        return "resource type not known"
    if not question.resource_name:
        return "resource without a name"
    if question.host is not None and host_address(question.host) is None:
        return "host that is no IP address"
    return None


_pack: Final = msgspec.msgpack.Encoder().encode
_json: Final = msgspec.json.Encoder().encode


def stream_question(question: RecordedQuestion) -> bytes:
    """Return one question of a frame, in codes, as a client that asks often would put it."""
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
    """Return one of many evaluations; a host that is not known is left out."""
    evaluation: dict[str, object] = {
        "subject": {"type": "user", "id": question.principal.removeprefix(_USER)},
        "action": {"name": question.operation},
        "resource": {"type": question.resource_type, "id": question.resource_name},
    }
    if question.host is not None:
        evaluation["context"] = {"host": question.host}
    return _json(evaluation)


def stream_body(number: int, questions: list[bytes]) -> bytes:
    """Return a whole frame; ``number`` is its correlation id."""
    content = _pack((number, [msgspec.Raw(question) for question in questions]))
    return len(content).to_bytes(4, "big") + content


def http_body(number: int, questions: list[bytes]) -> bytes:
    """Return the body of a request; its head, which may hold a token, is no part of a plan."""
    return b'{"evaluations":[' + b",".join(questions) + b"]}"


ENCODE_QUESTION: Final[dict[str, Callable[[RecordedQuestion], bytes]]] = {
    STREAM: stream_question,
    HTTP: http_question,
}
ENCODE_BODY: Final[dict[str, Callable[[int, list[bytes]], bytes]]] = {
    STREAM: stream_body,
    HTTP: http_body,
}
_decode_packed: Final = msgspec.msgpack.Decoder(tuple[int, list[list[object]]]).decode


class _Evaluations(msgspec.Struct):
    evaluations: list[dict[str, dict[str, str]]]


_decode_json: Final = msgspec.json.Decoder(_Evaluations).decode


def question_at(surface: str, body: bytes, position: int) -> list[object]:
    """Return a question of a planned body, for people: its five fields as they were sent."""
    if surface == STREAM:
        return _decode_packed(body[4:])[1][position]
    evaluation = _decode_json(body).evaluations[position]
    return [
        _USER + evaluation["subject"]["id"],
        evaluation.get("context", {}).get("host"),
        evaluation["action"]["name"],
        evaluation["resource"]["type"],
        evaluation["resource"]["id"],
    ]
