import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.decision import DEFAULT_DENY, SUPER_USER, Decision, MatchingAcl, UnjudgeableAcl
from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from authorizerd.protocol.decisions.authzen import (
    AuthZenError,
    Evaluation,
    Vocabulary,
    build_question,
    decode_evaluation,
)
from authorizerd.protocol.decisions.authzen_answers import (
    PRINCIPAL_SHOWN_MAX,
    encode_answer,
    encode_answers,
    encode_failed_answer,
)
from authorizerd.protocol.decisions.authzen_batches import (
    EVALUATIONS_MAX,
    Semantic,
    apply_defaults,
    decode_evaluation_of,
    decode_evaluations,
)

VOCABULARY = Vocabulary(
    {"user": "User", "app": "Service"},
    {"topic": ResourceType.TOPIC, "Queue": ResourceType.GROUP, "cluster": ResourceType.CLUSTER},
)
GOOD: dict[str, Any] = {
    "subject": {"type": "user", "id": "alice"},
    "action": {"name": "read"},
    "resource": {"type": "topic", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}


def asked(**changed: object) -> Question:
    return build_question(decode_evaluation(json.dumps(GOOD | changed).encode()), VOCABULARY)


def refused(**changed: object) -> str:
    with pytest.raises(AuthZenError) as error:
        asked(**changed)
    return str(error.value)


def test_evaluation_becomes_kafkas_question() -> None:
    assert asked() == Question(
        "User:alice", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "orders"
    )
    assert asked(subject={"type": "app", "id": "a:b"}).principal == "Service:a:b"


@pytest.mark.parametrize("name", ["READ", "Read", "rEaD"])
def test_types_and_operations_match_in_any_case(name: str) -> None:
    assert asked(action={"name": name}).operation == Operation.READ
    assert asked(resource={"type": "QUEUE", "id": "g"}).resource_type == ResourceType.GROUP
    for subject_type in ("USER", "User", "uSEr"):
        assert asked(subject={"type": subject_type, "id": "a"}).principal == "User:a"


@pytest.mark.parametrize(
    "changed",
    [
        {"subject": {"type": "u\u017fer", "id": "a"}},
        {"action": {"name": "wr\u0131te"}},
        {"action": {"name": "de\u017fcribe"}},
        {"action": {"name": "\uff52\uff45\uff41\uff44"}},
        {"resource": {"type": "\u212aeys", "id": "k"}},
        {"resource": {"type": "\u1e9eue", "id": "q"}},
    ],
)
def test_only_ascii_letters_match_in_any_case(changed: dict[str, Any]) -> None:
    """Unicode's case mappings would turn other texts into known names."""
    vocabulary = Vocabulary(
        {"user": "User"}, {"topic": ResourceType.TOPIC, "keys": ResourceType.GROUP, "ssue": 5}
    )
    evaluation = decode_evaluation(json.dumps(GOOD | changed).encode())
    with pytest.raises(AuthZenError, match="unknown"):
        build_question(evaluation, vocabulary)


def test_host_may_be_a_property_of_the_subject() -> None:
    """If there are two hosts, they must be equal. Without any, the host is unknown."""
    with_host = {"type": "user", "id": "alice", "properties": {"host": "::1"}}
    assert asked(subject=with_host, context={}).host == "0:0:0:0:0:0:0:1"
    assert asked(subject=with_host, context=None).host == "0:0:0:0:0:0:0:1"
    assert asked(subject=with_host, context={"host": "0::1"}).host == "0:0:0:0:0:0:0:1"
    assert asked(context=None).host is None
    assert asked(context={"time": "now"}).host is None
    assert "differ" in refused(subject=with_host)
    assert "differ" in refused(subject=GOOD["subject"] | {"properties": {"host": "nonsense"}})


def test_unknown_fields_are_ignored() -> None:
    """The specification requires this."""
    assert (
        asked(
            more=[1],
            subject=GOOD["subject"] | {"mail": {}},
            resource=GOOD["resource"] | {"x": None},
        )
        == asked()
    )
    text = json.dumps(GOOD | {"more": "many digits"}).encode()
    many = text.replace(b'"many digits"', b"9" * 5000)
    assert decode_evaluation(many) == decode_evaluation(text)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"subject": None}, "subject is missing"),
        ({"action": None}, "action is missing"),
        ({"resource": None}, "resource is missing"),
        ({"subject": {"id": "alice"}}, "subject.type is missing"),
        ({"subject": {"type": "user"}}, "subject.id is missing"),
        ({"action": {}}, "action.name is missing"),
        ({"resource": {"type": "topic"}}, "resource.id is missing"),
        ({"subject": "alice"}, "subject: expected an object, found a string"),
        ({"subject": {"type": "user", "id": 1}}, "subject.id: expected a string, found an integer"),
        ({"action": {"name": ["read"]}}, "action.name: expected a string, found an array"),
        ({"context": {"host": 1}}, "context.host: expected a string, found an integer"),
        ({"context": []}, "context: expected an object, found an array"),
        ({"subject": {"type": "uesr", "id": "a"}},
         "subject.type: unknown type 'uesr' (did you mean user?): expected one of user, app"),
        ({"action": {"name": "can_read"}},
         "action.name: unknown operation 'can_read': expected one of ALL, READ, WRITE, CREATE,"),
        ({"action": {"name": "any"}}, "action.name: unknown operation 'any'"),
        ({"action": {"name": "unknown"}}, "action.name: unknown operation 'unknown'"),
        ({"resource": {"type": "any", "id": "x"}}, "resource.type: unknown type 'any'"),
        ({"resource": {"type": "account", "id": "x"}},
         "resource.type: unknown type 'account': expected one of topic, queue"),
        ({"context": {"host": "localhost"}},
         "context.host: expected an IP address, found 'localhost'"),
        ({"subject": {"type": "user", "id": "a", "properties": {"host": "*"}}, "context": {}},
         "subject.properties.host: expected an IP address, found '*'"),
        ({"context": {"host": "2001:db8::9%x"}},
         "context.host: expected an IP address, found '2001:db8::9%x'"),
    ],
)  # fmt: skip
def test_missing_unknown_or_ill_typed_field_is_named(changed: dict[str, object], said: str) -> None:
    assert said in refused(**changed)


@pytest.mark.parametrize(
    ("once", "twice"),
    [
        ('"id": "alice"', '"id": "bob", "id": "alice"'),
        ('"id": "alice"', '"\\u0069d": "bob", "id": "alice"'),
        ('"action":', '"action": {"name": "write"}, "action":'),
        ('"context":', '"context": null, "context":'),
        ('"host":', '"time": {"a": 1, "a": 2}, "host":'),
    ],
)
def test_repeated_key_is_rejected(once: str, twice: str) -> None:
    """A proxy may have checked the value that the daemon ignores."""
    text = json.dumps(GOOD)
    assert once in text
    with pytest.raises(AuthZenError, match="twice"):
        decode_evaluation(text.replace(once, twice, 1).encode())
    many = text[:-1] + ', "evaluations": [{}]}'
    with pytest.raises(AuthZenError, match="twice"):
        decode_evaluations(many.replace(once, twice, 1).encode())


def test_error_escapes_control_characters_and_shortens_names() -> None:
    said = refused(action={"name": "x\r\nSet-Cookie: a" + "y" * 500})
    assert "\n" not in said
    assert "\r" not in said
    assert len(said) < 400


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b'{"subject":"\xff"}']
)
def test_other_text_than_a_json_object_is_rejected(body: bytes) -> None:
    for decode in (decode_evaluation, decode_evaluations):
        with pytest.raises(AuthZenError):
            decode(body)


@given(st.text(max_size=5), st.text(max_size=5))
def test_any_text_may_be_an_id(subject: str, resource: str) -> None:
    """Except half of a surrogate pair, which is not valid text."""
    question = None
    try:
        question = asked(
            subject={"type": "user", "id": subject}, resource={"type": "topic", "id": resource}
        )
    except AuthZenError:
        assert any("\ud800" <= letter <= "\udfff" for letter in subject + resource)
    if question is not None:
        assert (question.principal, question.resource_name) == (f"User:{subject}", resource)
        question.principal.encode()


def read_batch(body: dict[str, Any]) -> list[str]:
    """Return who asks for what from where, or the error, of each of a batch's evaluations."""
    batch, evaluations = decode_evaluations(json.dumps(body).encode())
    answers = []
    for each in evaluations:
        try:
            if not isinstance(each, Evaluation):
                each = decode_evaluation_of(batch, each)
            whole = apply_defaults(each, batch.defaults or Evaluation())
            question = build_question(whole, VOCABULARY)
            answers.append(f"{question.principal} {question.resource_name} {question.host or ''}")
        except AuthZenError as error:
            answers.append(str(error))
    return [each.strip() for each in answers]


def test_defaults_replace_absent_fields_as_a_whole() -> None:
    evaluations = [
        {}, {"resource": {"type": "topic", "id": "other"}}, {"context": {"time": "now"}},
    ]  # fmt: skip
    assert read_batch(GOOD | {"evaluations": evaluations}) == [
        "User:alice orders 10.0.0.1", "User:alice other 10.0.0.1", "User:alice orders",
    ]  # fmt: skip


def test_type_of_the_batch_completes_an_entity_that_has_only_an_id() -> None:
    """An entity with a type replaces the batch's; an id is never inherited by one without."""
    app, topic = {"type": "app"}, {"type": "topic"}
    bob, orders = {"type": "user", "id": "bob"}, {"type": "topic", "id": "orders"}
    ids = {"subject": {"id": "api"}, "resource": {"id": "a"}}
    batch = {"action": {"name": "read"}, "subject": app, "resource": topic}
    rows: list[tuple[dict[str, Any], str]] = [
        (ids, "Service:api a"),
        ({}, "subject is missing"),
        ({"resource": orders}, "subject is missing"),
        (ids | {"subject": bob}, "User:bob a"),
        (ids | {"resource": orders}, "Service:api orders"),
        (ids | {"resource": topic}, "resource.id is missing"),
        (ids | {"resource": {"id": 1}}, "resource.id: expected a string, found an integer"),
        (ids | {"resource": {"id": "a", "type": None}}, "resource.type: expected a string"),
        (ids | {"action": 1}, "action: expected an object"),
    ]
    answers = read_batch(batch | {"evaluations": [asked for asked, _ in rows]})
    assert [
        each for each, (_, wanted) in zip(answers, rows, strict=True) if wanted not in each
    ] == []
    whole = batch | {"subject": bob, "resource": orders}
    own = [{}, {"subject": {"id": "eve"}}, {"resource": {"id": "b"}}, {"resource": {}}]
    assert read_batch(whole | {"evaluations": own}) == [
        "User:bob orders", "User:eve orders", "User:bob b", "resource.id is missing",
    ]  # fmt: skip


def test_key_that_occurs_twice_is_not_completed() -> None:
    body = b'{"resource":{"type":"topic"},"evaluations":[{"resource":{"id":"a","id":"b"}}]}'
    batch, evaluations = decode_evaluations(body)
    assert isinstance(evaluations[0], msgspec.Raw)
    with pytest.raises(AuthZenError):
        decode_evaluation_of(batch, evaluations[0])


@pytest.mark.parametrize("entity", [b"{}", b'{"id":"a"}', b'{"type":"topic","id":null}', b"1"])
def test_batch_whose_default_has_no_type_is_refused(entity: bytes) -> None:
    with pytest.raises(AuthZenError, match="resource"):
        decode_evaluations(b'{"resource":%b,"evaluations":[{}]}' % entity)


def test_number_of_evaluations_is_limited() -> None:
    empty: dict[str, object] = {}
    body = {"evaluations": [empty] * (EVALUATIONS_MAX + 1)}
    with pytest.raises(AuthZenError, match="evaluations: expected at most 1000, found more"):
        decode_evaluations(json.dumps(body).encode())
    body["evaluations"].pop()
    assert len(decode_evaluations(json.dumps(body).encode())[1]) == EVALUATIONS_MAX


@pytest.mark.parametrize("item", [b"0", b"{}"])
def test_evaluations_above_the_limit_are_not_created(item: bytes) -> None:
    """Creating them would block the loop, and take many times their size."""
    body = b'{"evaluations":[%b]}' % b",".join([item] * 50_000)
    tracemalloc.start()
    try:
        with pytest.raises(AuthZenError, match="found more"):
            decode_evaluations(body)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(body)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        ("5", "evaluations: expected an array, found an integer"),
        ("{}", "evaluations: expected an array, found an object"),
    ],
)
def test_evaluations_must_be_an_array(array: str, reason: str) -> None:
    with pytest.raises(AuthZenError, match=reason):
        decode_evaluations(f'{{"evaluations":{array}}}'.encode())


@pytest.mark.parametrize(
    ("semantic", "after_allow", "after_deny"),
    [
        ("execute_all", False, False),
        ("deny_on_first_deny", False, True),
        ("permit_on_first_permit", True, False),
    ],
)
def test_semantics_end_as_specified(semantic: str, after_allow: bool, after_deny: bool) -> None:
    options: dict[str, object] = {"evaluations_semantic": semantic, "other": 1}
    body: dict[str, object] = {"evaluations": [{}], "options": options}
    read = decode_evaluations(json.dumps(body).encode())[0].semantic
    assert (read.ends_after(allowed=True), read.ends_after(allowed=False)) == (
        after_allow,
        after_deny,
    )
    options["evaluations_semantic"] = "any_of"
    with pytest.raises(AuthZenError, match="'any_of': expected one of execute_all, deny_on_first"):
        decode_evaluations(json.dumps(body).encode())
    assert decode_evaluations(b"{}")[0].semantic is Semantic.EXECUTE_ALL


def test_answer_has_rule_offset_and_reason() -> None:
    acl = Acl(2, "t", 3, "User:a", "*", 3, 2)
    denied = json.loads(encode_answer(Decision(False, MatchingAcl(acl)), 17, asked()))
    assert denied == {
        "decision": False,
        "context": {"offset": 17, "reason": "an ACL denies it", "rule": f"MatchingAcl(acl={acl})"},
    }
    failing = Decision(False, UnjudgeableAcl(replace(acl, principal="est")))
    context = json.loads(encode_answer(failing, 17, asked()))["context"]
    assert context["rule"] == str(failing.rule)
    assert context["reason"].startswith("Kafka fails on an ACL whose principal has no colon")
    assert json.loads(encode_answer(SUPER_USER, -1, asked()))["context"]["rule"] == "SuperUser"


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        ({"subject": {"type": "user", "id": "User:alice"}},
         "the subject's id begins with User:, which its type already adds:"
         " the principal asked about is User:User:alice"),
        ({"subject": {"type": "user", "id": "User:" + "a" * 30_000}},
         "the subject's id begins with User:, which its type already adds:"
         f" the principal asked about is User:User:{'a' * (PRINCIPAL_SHOWN_MAX - 10)}…"),
        ({"resource": {"type": "cluster", "id": "my-cluster"}},
         "the id of the resource cluster is always kafka-cluster in Kafka's ACLs"),
        ({"subject": {"type": "user", "id": "user:alice"}},
         "the subject's id begins with user:, which its type already adds:"
         " the principal asked about is User:user:alice"),
        ({"resource": {"type": "topic", "id": "orders-*"}},
         "the resource's id contains *, which is an ordinary character in a question"),
        ({"subject": {"type": "user", "id": "Group:alice"}}, None),
        ({"subject": {"type": "app", "id": "User:alice"}}, None),
        ({"resource": {"type": "cluster", "id": "kafka-cluster"}}, None),
        ({"resource": {"type": "topic", "id": "my-cluster"}}, None),
    ],
)  # fmt: skip
def test_only_a_denial_after_a_likely_mistake_has_a_hint(
    changed: dict[str, object], hint: str | None
) -> None:
    question = asked(**changed)
    assert json.loads(encode_answer(DEFAULT_DENY, 1, question))["context"].get("hint") == hint
    assert "hint" not in json.loads(encode_answer(SUPER_USER, 1, question))["context"]


def test_answers_are_listed_in_order() -> None:
    """A failed evaluation is a denial with its reason."""
    answers = [encode_answer(DEFAULT_DENY, 1, asked()), encode_failed_answer(400, "why")]
    assert json.loads(encode_answers(answers))["evaluations"] == [
        {
            "decision": False,
            "context": {"offset": 1, "reason": "no ACL allows it", "rule": "DefaultDeny"},
        },
        {"decision": False, "context": {"error": {"status": 400, "message": "why"}}},
    ]
