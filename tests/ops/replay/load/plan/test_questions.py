from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.decisions.stream import (
    OPERATION_OF,
    RESOURCE_TYPE_OF,
    Ask,
    StreamServerConnection,
)
from authorizerd.replay.load.plan.questions import (
    ENCODE_BODY,
    ENCODE_QUESTION,
    HTTP,
    STREAM,
    RecordedQuestion,
    question_at,
    reason_not_asked,
)

QUESTIONS = st.builds(
    RecordedQuestion,
    principal=st.text(max_size=5).map("User:".__add__),
    host=st.sampled_from([None, "10.0.0.1", "::1"]),
    operation=st.sampled_from([name for name in OPERATION_OF if isinstance(name, str)]),
    resource_type=st.sampled_from([name for name in RESOURCE_TYPE_OF if isinstance(name, str)]),
    resource_name=st.text(min_size=1, max_size=5),
)
GOOD = RecordedQuestion("User:a", "10.0.0.1", "READ", "TOPIC", "orders")


@given(st.lists(QUESTIONS, min_size=1, max_size=5), st.integers(0, 2**40))
def test_daemon_reads_a_stream_body(questions: list[RecordedQuestion], number: int) -> None:
    body = ENCODE_BODY[STREAM](number, [ENCODE_QUESTION[STREAM](each) for each in questions])
    connection = StreamServerConnection(1 << 20)
    connection.receive_data(b"\0\0\0\x08\x92\xa5hello\x01" + body)
    connection.next_frame()
    asked = connection.next_frame()
    assert isinstance(asked, Ask)
    assert asked.correlation_id == number
    codes = [(OPERATION_OF[q.operation], RESOURCE_TYPE_OF[q.resource_type]) for q in questions]
    assert asked.questions == [
        (q.principal, q.host, *code, q.resource_name)
        for q, code in zip(questions, codes, strict=True)
    ]
    assert question_at(STREAM, body, len(questions) - 1) == list(asked.questions[-1])


@given(st.lists(QUESTIONS, min_size=1, max_size=5))
def test_http_body_contains_the_questions(questions: list[RecordedQuestion]) -> None:
    body = ENCODE_BODY[HTTP](0, [ENCODE_QUESTION[HTTP](each) for each in questions])
    assert len(msgspec.json.decode(body)["evaluations"]) == len(questions)
    last = questions[-1]
    assert question_at(HTTP, body, len(questions) - 1) == [*msgspec.structs.astuple(last)][:5]


@pytest.mark.parametrize(("changed", "reason"), [
    ({}, None),
    ({"host": None}, None),
    ({"host": "localhost"}, "host is not an IP address"),
    ({"principal": "alice"}, "principal without a type"),
    ({"resource_name": ""}, "empty resource name"),
    ({"resource_name": None}, "no principal or no resource name"),
    ({"pattern_type": "PREFIXED"}, "pattern type is not LITERAL"),
])  # fmt: skip
@pytest.mark.parametrize("surface", [STREAM, HTTP])
def test_unusable_question_has_a_reason(
    changed: dict[str, str | None], reason: str | None, surface: str
) -> None:
    assert reason_not_asked(msgspec.structs.replace(GOOD, **changed), surface) == reason


def test_http_accepts_only_users() -> None:
    group = msgspec.structs.replace(GOOD, principal="Group:a")
    assert reason_not_asked(group, STREAM) is None
    assert reason_not_asked(group, HTTP) == "principal type is not User (HTTP)"
