"""The bytes of AuthZEN's answers."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import DEFAULT_DENY, Decision, DefaultRule
from authorizerd.acl.model import Question, ResourceType
from authorizerd.protocol.decisions.authzen_answers import (
    encode_answer,
    encode_answers,
    encode_failed_answer,
)
from authorizerd.protocol.decisions.opa import ALLOWED, DENIED

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
def test_answer_says_what_decided(decision: Decision, offset: int, question: Question) -> None:
    answer = encode_answer(decision, offset, question)
    decoded = msgspec.json.decode(answer)
    assert msgspec.json.encode(decoded) == answer
    assert decoded.keys() == {"decision", "context"}
    context = decoded["context"]
    assert context.keys() - {"hint"} == {"offset", "reason", "rule"}
    assert (decoded["decision"], context["offset"]) == (decision.allowed, offset)
    assert context["rule"] == str(decision.rule)


@given(st.text(max_size=5))
def test_failed_evaluation_is_a_denial(message: str) -> None:
    failed = encode_failed_answer(400, message)
    decoded = {"decision": False, "context": {"error": {"status": 400, "message": message}}}
    assert msgspec.json.decode(failed) == decoded
    assert msgspec.json.decode(encode_answers([failed, failed])) == {"evaluations": 2 * [decoded]}


def test_opas_answers_are_json() -> None:
    for text, result in ((ALLOWED, True), (DENIED, False)):
        assert msgspec.json.decode(text) == {"result": result}
