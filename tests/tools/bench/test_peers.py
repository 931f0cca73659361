"""Peers get the same ACLs, as far as they can express them, and are absent with a reason."""

import shutil
from pathlib import Path

import pytest

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Acl, ResourceType
from tests.support.acls import acl, question
from tools.bench.decisions import answerable
from tools.bench.figures import Absent, MeasurementError
from tools.bench.in_memory import measure_kafka
from tools.bench.peers import (
    is_expressible,
    make_api,
    make_model,
    make_policy_data,
    make_search,
    make_tuple,
    ready_opa,
    ready_openfga,
)
from tools.bench.searches import WHAT_CAN, WHO_CAN, check_found
from tools.bench.servers import check_agreement
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
    topic = make_model([ResourceType.TOPIC])["type_definitions"][1]
    assert topic["relations"]["read"] == {"this": {}}
    users = topic["metadata"]["relations"]["read"]["directly_related_user_types"]
    assert {"type": "user", "wildcard": {}} in users


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
    acls = [acl("User:a", "READ", topic="t"), acl("User:c", "READ", topic="t"), PREFIXED, DENIED]
    kept = [question("User:a", "READ", topic="t"), question("User:b", "READ", topic="other")] * 50
    left_out = [question("User:b", "READ", topic="prefix"), question("User:c", "READ", topic="t")]
    assert answerable(AclSet("few", lambda: iter(acls), lambda: iter([*left_out, *kept]))) == kept


def test_requests_to_openfga_name_the_store_and_the_model() -> None:
    api, asked = make_api("/stores/s", "m"), question("User:a", "READ", topic="t")
    batch = api.many([api.one(asked)] * 2)
    assert [each["correlation_id"] for each in batch["checks"]] == ["0", "1"]
    check = {"user": "user:a", "relation": "may_read", "object": "topic:t"}
    assert batch["checks"][0]["tuple_key"] == check
    model = {"authorization_model_id": "m", "relation": "may_read"}
    wanted = {"object": {"type": "topic", "id": "t"}, "user_filters": [{"type": "user"}]}
    assert make_search(api, asked, for_users=True) == ("/stores/s/list-users", {**model, **wanted})
    wanted = {"type": "topic", "user": "user:a"}
    assert make_search(api, asked, for_users=False) == (
        "/stores/s/list-objects", {**model, **wanted},
    )  # fmt: skip


def test_policy_data_is_indexed_as_the_policy_reads_it() -> None:
    data = make_policy_data(kind().acls())
    assert data["acls"]["ALLOW"]["LITERAL"]["TOPIC"]["topic-00007"] == {
        "User:u7": {"READ": {"*": True}},
        "User:w7": {"WRITE": {"*": True}},
    }
    assert data["prefix_lengths"] == {"TOPIC": [9]}


def test_peers_that_are_not_installed_are_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with ready_openfga(tmp_path, kind().acls()) as openfga, ready_opa(tmp_path, ()) as opa:
        assert (openfga, opa) == (Absent("no openfga"), Absent("no opa"))
    assert measure_kafka("4.3.1", tmp_path, tmp_path, 1) == Absent("no java")


def test_different_answers_of_two_sides_are_an_error() -> None:
    asked = [question("User:a", "READ", topic=topic) for topic in ("one", "two")]
    check_agreement("AD", "AD", asked, "K")
    for theirs in ("AA", "A"):
        with pytest.raises(MeasurementError, match="K answers"):
            check_agreement("AD", theirs, asked, "K")


def test_objects_and_users_that_only_the_peer_finds_are_an_error() -> None:
    allowed = AclSet("few", lambda: iter([acl("User:a", "READ", topic="t")]), lambda: iter(()))
    snapshot, asked = build(allowed.added()), question("User:a", "READ", topic="t")
    check_found(WHAT_CAN, asked, snapshot, {"t"}, {"t"})
    check_found(WHO_CAN, asked, snapshot, {"a", "b"}, {"a"})
    for endpoint, theirs in ((WHAT_CAN, {"other"}), (WHO_CAN, {"c"})):
        with pytest.raises(MeasurementError, match="finds"):
            check_found(endpoint, asked, snapshot, {"a"}, theirs)


def test_pom_names_no_registry() -> None:
    """The machine's own Maven settings choose the registry."""
    pom = Path("tools/bench/jvm/pom.xml").read_text()
    assert "4.3.1" in pom
    assert "repositor" not in pom.lower()
