"""The bytes of AuthZEN's answers, and the structs that describe them."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import DEFAULT_DENY, Decision, DefaultRule
from authorizerd.acl.model import Question, ResourceType
from authorizerd.protocol.decisions.authzen_answers import (
    EvaluationAnswer,
    EvaluationAnswers,
    FailedEvaluation,
    encode_answer,
    encode_answers,
    encode_failed_answer,
)
from authorizerd.protocol.decisions.opa import ALLOWED, DENIED, OpaAnswer

DECISIONS = st.one_of(
    st.just(DEFAULT_DENY),
    st.builds(
        Decision, st.booleans(), st.one_of(st.sampled_from(DefaultRule), st.text(max_size=3))
    ),
)
QUESTIONS = st.builds(
    Question,
    st.sampled_from(["User:a", "User:User:a", 'User:"\\']),
    st.none(),
    st.just(3),
    st.sampled_from([int(ResourceType.TOPIC), int(ResourceType.CLUSTER)]),
    st.text(max_size=3),
)


@given(DECISIONS, st.integers(-1, 2**63 - 1), QUESTIONS)
def test_answers_are_the_bytes_of_their_struct(
    decision: Decision, offset: int, question: Question
) -> None:
    """They are written without the struct, which would take longer."""
    answer = encode_answer(decision, offset, question)
    assert msgspec.json.encode(msgspec.json.decode(answer, type=EvaluationAnswer)) == answer


@given(st.text(max_size=5))
def test_batches_are_the_bytes_of_their_struct(message: str) -> None:
    failed = encode_failed_answer(400, message)
    decoded = msgspec.json.decode(failed, type=FailedEvaluation)
    assert (decoded.decision, decoded.context.error.message) == (False, message)
    answers = encode_answers([failed, failed])
    assert msgspec.json.encode(msgspec.json.decode(answers, type=EvaluationAnswers)) == answers


def test_opas_answers_are_the_bytes_of_their_struct() -> None:
    for text, result in ((ALLOWED, True), (DENIED, False)):
        assert msgspec.json.encode(OpaAnswer(result)) == text
