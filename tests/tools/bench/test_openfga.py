"""OpenFGA gets the ACLs that its model can express, and the questions that these can answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl, Question, ResourceType
from tests.support.acls import acl, question
from tools.bench.figures import Absent
from tools.bench.openfga import answerable
from tools.bench.openfga_peer import (
    is_expressible,
    make_model,
    make_object_search,
    make_surface,
    make_tuple,
    make_user_search,
    ready_openfga,
)
from tools.bench.sets import AclSet, kind

PREFIXED = acl("User:b", "READ", topic="pre", pattern="PREFIXED")
DENIED = acl("User:c", "READ", topic="t", deny=True)


@pytest.mark.parametrize(
    ("given", "expressible"),
    [
        (acl("User:a", "READ", topic="t"), True),
        (acl("User:*", "ALL", topic="t"), True),
        (PREFIXED, False),
        (DENIED, False),
        (acl("User:a", "READ", topic="t", host="10.0.0.1"), False),
        (acl("User:a", "READ", topic="*"), False),
        (acl("Group:a", "READ", topic="t"), False),
    ],
)
def test_literal_permissions_for_any_host_are_expressible(given: Acl, expressible: bool) -> None:
    assert is_expressible(given) is expressible


def test_acl_becomes_a_tuple_of_the_model() -> None:
    made = make_tuple(acl("User:*", "READ", topic="t"))
    assert made == {"user": "user:*", "relation": "read", "object": "topic:t"}
    user, topic = make_model([ResourceType.TOPIC])["type_definitions"]
    assert (user["type"], topic["type"]) == ("user", "topic")
    assert topic["relations"]["read"] == {"this": {}}
    assert {"type": "user", "wildcard": {}} in topic["metadata"]["relations"]["read"][
        "directly_related_user_types"
    ]


@pytest.mark.parametrize(
    ("operation", "allowing"),
    [
        ("READ", {"read", "all"}),
        ("DESCRIBE", {"describe", "read", "write", "delete", "alter", "all"}),
        ("DESCRIBE_CONFIGS", {"describe_configs", "alter_configs", "all"}),
    ],
)
def test_model_has_the_operations_that_imply_another(operation: str, allowing: set[str]) -> None:
    topic = make_model([ResourceType.TOPIC])["type_definitions"][1]
    children = topic["relations"][f"may_{operation.lower()}"]["union"]["child"]
    assert {child["computedUserset"]["relation"] for child in children} == allowing


def test_questions_whose_answer_needs_another_acl_are_left_out() -> None:
    acls = [
        acl("User:a", "READ", topic="t"), acl("User:c", "READ", topic="t"), PREFIXED, DENIED,
    ]  # fmt: skip
    kept = [question("User:a", "READ", topic="t"), question("User:b", "READ", topic="other")]
    left_out = [question("User:b", "READ", topic="prefix"), question("User:c", "READ", topic="t")]
    given = AclSet("few", lambda: iter(acls), lambda: iter([*left_out, *kept]))
    assert answerable(given) == kept


def test_batch_numbers_its_checks() -> None:
    surface = make_surface("/stores/s", "m")
    asked: list[Question] = [question("User:a", "READ", topic="t")] * 2
    batch = surface.many([surface.one(each) for each in asked])
    assert [each["correlation_id"] for each in batch["checks"]] == ["0", "1"]
    assert batch["checks"][0]["tuple_key"] == {
        "user": "user:a", "relation": "may_read", "object": "topic:t",
    }  # fmt: skip
    assert (surface.one_path, surface.many_path) == ("/stores/s/check", "/stores/s/batch-check")


def test_searches_ask_for_what_a_question_leaves_out() -> None:
    surface = make_surface("/stores/s", "m")
    asked = question("User:a", "READ", topic="t")
    assert make_user_search(surface, asked) == (
        "/stores/s/list-users",
        {
            "authorization_model_id": "m",
            "object": {"type": "topic", "id": "t"},
            "relation": "may_read",
            "user_filters": [{"type": "user"}],
        },
    )
    assert make_object_search(surface, asked) == (
        "/stores/s/list-objects",
        {
            "authorization_model_id": "m",
            "type": "topic",
            "relation": "may_read",
            "user": "user:a",
        },
    )


def test_openfga_is_absent_if_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with ready_openfga(tmp_path, kind().acls()) as peer:
        assert peer == Absent("no openfga")
