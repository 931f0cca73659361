"""AuthZEN's searches: results, pages and refusals. (test_search_rights has the callers.)"""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from authorizerd.acl.decision import authorize
from authorizerd.acl.model import Acl, AclAdded, Operation, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.snapshot import apply_changes, at_offset
from authorizerd.protocol.decisions.searches import PAGE_LIMIT_MAX
from tests.daemon.search_place import SearchPlace, image_of, search_body
from tests.support.acls import acl
from tests.support.sizes import size
from tests.support.strategies import acls, resource_names

ALICE = acl("User:alice", "READ", topic="t")
PREFIX = acl("User:alice", "WRITE", topic="orders-", pattern="PREFIXED")
KINDS = ("subject", "resource", "action")


def names_of(answer: Any) -> list[str]:  # noqa: ANN401 - JSON
    """Return the ids or names of the results."""
    return [each.get("id", each.get("name")) for each in answer["results"]]


async def test_subjects_are_those_that_are_allowed() -> None:
    place = SearchPlace(
        None,
        ALICE,
        acl("User:bob", "ALL", topic="*"),
        acl("User:carol", "WRITE", topic="t"),
        acl("User:dave", "READ", topic="t", host="10.0.0.7"),
        acl("Group:ops", "READ", topic="t"),
        acl("User:bob", "READ", topic="x", deny=True),
    )
    answer = await place.search("subject")
    assert answer == {
        "page": {"next_token": "", "count": 3},
        "context": {"offset": 0, "some_hosts": 1},
        "results": [{"type": "user", "id": each} for each in ("alice", "bob", "root")],
    }
    at_host = await place.search("subject", host="10.0.0.7")
    assert names_of(at_host) == ["alice", "bob", "dave", "root"]
    body = search_body("subject")
    body["subject"] = {"type": "Group", "id": 7}
    groups = await place.post("subject", body)
    assert json.loads(groups.body)["results"] == [{"type": "Group", "id": "ops"}]


async def test_everyone_is_said_and_not_listed() -> None:
    """A principal that only ``User:*`` allows cannot be listed: nobody knows all principals."""
    place = SearchPlace(
        None,
        acl("User:*", "READ", topic="t"),
        ALICE,
        acl("User:bob", "READ", topic="t", deny=True),
        acl("User:eve", "READ", topic="t", deny=True, host="10.0.0.1"),
    )
    answer = await place.search("subject", host="10.0.0.2")
    assert answer["context"] == {"offset": 0, "everyone": True, "everyone_except": ["bob"]}
    assert names_of(answer) == ["alice", "eve", "root"]
    unknown = await place.search("subject")
    assert unknown["context"]["everyone_except"] == ["bob", "eve"]


async def test_resources_are_patterns_and_names() -> None:
    """A pattern has its type and its exceptions. Names are those of ACLs and of known topics."""
    place = SearchPlace(
        None,
        PREFIX,
        acl("User:alice", "WRITE", topic="a"),
        acl("User:bob", "READ", topic="orders-acl"),
        acl("User:alice", "WRITE", topic="orders-secret", deny=True),
        topics=("orders-1", "other", "orders-secret"),
    )
    answer = await place.search("resource", action="write")
    prefix = {
        "pattern_type": "PREFIXED",
        "exceptions": [{"pattern_type": "LITERAL", "id": "orders-secret"}],
    }
    assert answer["results"] == [
        {"type": "topic", "id": "a"},
        {"type": "topic", "id": "orders-", "properties": prefix},
        {"type": "topic", "id": "orders-1"},
        {"type": "topic", "id": "orders-acl"},
    ]


async def test_a_pattern_whose_own_name_is_denied_is_no_result() -> None:
    """Each result must be allowed when its id is asked about. The context counts the others."""
    place = SearchPlace(None, PREFIX, acl("User:alice", "WRITE", topic="orders-", deny=True))
    answer = await place.search("resource", action="write")
    assert answer["results"] == []
    assert answer["context"] == {"offset": 0, "patterns_left_out": 1}


async def test_everything_is_one_pattern_for_a_super_user() -> None:
    place = SearchPlace(None, ALICE, topics=("t2",))
    answer = await place.search("resource", "root")
    assert answer["context"] == {"offset": 0, "everything": True}
    assert answer["results"][0] == {
        "type": "topic", "id": "*", "properties": {"pattern_type": "LITERAL"},
    }  # fmt: skip
    assert names_of(answer) == ["*", "t", "t2"]
    assert await place.all_pages("resource", 1, "root") == answer["results"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"subject": {"type": "spaceship", "id": "a"}}, "subject.type: unknown type 'spaceship'"),
        (
            {"action": {"name": "raed"}},
            "action.name: unknown operation 'raed' (did you mean READ?)",
        ),
        (
            {"resource": {"type": "tpoic", "id": "a"}},
            "(did you mean topic?): expected one of topic",
        ),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
async def test_unknown_name_is_not_found(kind: str, change: dict[str, object], reason: str) -> None:
    """The certification scenario demands this. The context says why."""
    if kind == "action" and "action" in change:
        return
    response = await SearchPlace(None, ALICE).post(kind, search_body(kind) | change)
    answer = json.loads(response.body)
    assert answer["results"] == []
    assert answer["page"] == {"next_token": "", "count": 0}
    assert reason in answer["context"]["reason"]


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("subject", {"action": None}, "action: expected an object, found null"),
        ("subject", {"resource": {"type": "topic"}}, "resource.id is missing"),
        ("subject", {"subject": {"id": "alice"}}, "subject.type is missing"),
        ("resource", {"subject": {"type": "user"}}, "subject.id is missing"),
        ("resource", {"action": {}}, "action.name is missing"),
        ("action", {"subject": {"type": "user"}}, "subject.id is missing"),
        ("action", {"resource": {"type": "topic"}}, "resource.id is missing"),
        ("action", {"page": {"limit": -1}}, "page.limit: expected an integer of at least 1"),
        ("action", {"page": {"limit": 0}}, "page.limit: expected an integer of at least 1"),
        ("action", {"page": {"limit": "1"}}, "page.limit: expected an integer, found a string"),
        ("action", {"page": {"token": 1}}, "page.token: expected a string, found an integer"),
        ("action", {"context": {"host": "x"}}, "context.host: expected an IP address, found 'x'"),
        ("action", {"subject": {"type": "user", "id": "*"}}, "principal User:* means everyone"),
        ("resource", {"subject": {"type": "user", "id": "*"}}, "principal User:* means everyone"),
    ],
)
async def test_invalid_search_is_rejected(kind: str, change: dict[str, Any], said: str) -> None:
    place = SearchPlace(None, ALICE)
    response = await place.post(kind, search_body(kind) | change)
    assert response.status == 400
    assert said in response.body.decode()
    assert place.authorizer.counts["Search"].invalid == 1


@pytest.mark.parametrize("missing", ["subject", "action", "resource"])
@pytest.mark.parametrize("kind", KINDS)
async def test_missing_entity_is_rejected(kind: str, missing: str) -> None:
    body = search_body(kind)
    if body.pop(missing, None) is not None:
        response = await SearchPlace(None, ALICE).post(kind, body)
        assert (response.status, response.body) == (400, f"{missing} is missing\n".encode())


async def test_repeated_key_is_rejected() -> None:
    body = json.dumps(search_body("action")).replace('"id": "alice"', '"id": "a", "id": "alice"')
    response = await SearchPlace(None, ALICE).post("action", body.encode())
    assert (response.status, b"'id' occurs twice" in response.body) == (400, True)


async def test_the_searched_id_and_unknown_fields_are_ignored() -> None:
    place = SearchPlace(None, ALICE, PREFIX, acl("User:bob", "READ", topic="t"))
    for kind in ("subject", "resource"):
        plain = await place.post(kind, search_body(kind))
        body = search_body(kind) | {"x": {"y": 1}, "context": {"ip": "1.2.3.4"}}
        body[kind]["id"] = ["alice"]
        assert (await place.post(kind, body)).body == plain.body


async def test_limit_is_the_maximum_of_a_page() -> None:
    place = SearchPlace(None, topics=tuple(f"t{n:05}" for n in range(PAGE_LIMIT_MAX + 5)))
    for limit, count in ((3, 3), (PAGE_LIMIT_MAX + 1, PAGE_LIMIT_MAX), (None, PAGE_LIMIT_MAX)):
        page = {} if limit is None else {"limit": limit}
        answer = await place.search("resource", "root", **page)
        assert answer["page"]["count"] == len(answer["results"]) == count
        assert answer["page"]["next_token"] != ""


async def test_the_empty_token_begins_a_search() -> None:
    place = SearchPlace(None, ALICE)
    assert await place.search("action", token="") == await place.search("action")


async def token_of(place: SearchPlace, kind: str = "resource") -> str:
    """Return the token of a second page."""
    token = (await place.search(kind, "root", limit=1))["page"]["next_token"]
    assert token
    return str(token)


@pytest.mark.parametrize("kind", KINDS)
async def test_another_worker_answers_the_next_page(kind: str) -> None:
    """A token contains all that is needed, but counts only with the same secret."""
    place = SearchPlace(None, ALICE, acl("User:a", "READ", topic="t"), topics=("u",))
    token = await token_of(place, kind)
    body = search_body(kind, "root", token=token)
    wanted = await place.post(kind, body)
    assert wanted.status == 200
    assert (await place.post(kind, body, handler=place.new_handler())).body == wanted.body
    stranger = place.new_handler(secret=b"\1" * 32)
    assert (await place.post(kind, body, handler=stranger)).status == 400


async def test_token_belongs_to_one_search() -> None:
    place = SearchPlace(None, ALICE, topics=("u",))
    token = await token_of(place)
    assert (await place.search("resource", "root", token=token, limit=1))["results"]
    for change in ({"action": "write"}, {"host": "10.0.0.1"}, {"user": "alice"}):
        arguments = {"user": "root", **change}
        refused = await place.refusal("resource", token=token, **arguments)
        assert refused.startswith("page.token: unknown: expected the next_token of the previous")
    assert "unknown" in await place.refusal("action", "root", token=token)
    refused = await place.refusal("resource", "root", token=token, limit=2)
    assert refused == "page.limit: expected 1, as for the previous page"


async def test_made_up_token_is_refused() -> None:
    place = SearchPlace(None, ALICE, topics=("u",))
    token = await token_of(place)
    changed = [
        token[:place_] + ("A" if token[place_] != "A" else "B") + token[place_ + 1 :]
        for place_ in range(len(token) - 1)
    ]
    for made_up in ("x", "é", "=", "A" * 100, "A" * 20_000, token[:-4], token * 2, *changed):
        assert "unknown" in await place.refusal("resource", "root", token=made_up)


@pytest.mark.parametrize("what", ["acl", "settings", "topic"])
async def test_token_expires_when_the_state_changes(what: str) -> None:
    """A mixed listing could miss a permission that existed all the time."""
    place = SearchPlace(None, ALICE, topics=("u", "v"))
    token = await token_of(place)
    snapshot = place.snapshot.newest
    assert snapshot is not None
    match what:
        case "acl":
            changes = [AclAdded(b"\7" * 16, acl("User:z", "READ", topic="z"))]
            place.snapshot.publish(at_offset(apply_changes(snapshot, changes), 1))
        case "settings":
            place.authorizer.configure({"super.users": "User:root;User:other"})
        case _:
            place.image.publish(image_of("u", "w"))
    refused = await place.refusal("resource", "root", token=token)
    assert refused == (
        "page.token: expired: the ACLs, the settings or the topics have changed since the page"
        ' before; begin the search again without a token; with "as_of":OFFSET in its context, later'
        " changes of ACLs do not matter"
    )


async def test_token_survives_a_new_offset_of_the_same_state() -> None:
    """A cluster's log grows twice a second, even if nobody changes an ACL."""
    place = SearchPlace(None, ALICE, topics=("u", "v"))
    token = await token_of(place)
    snapshot = place.snapshot.newest
    assert snapshot is not None
    place.snapshot.publish(at_offset(snapshot, 99))
    answer = await place.search("resource", "root", token=token)
    assert answer["context"]["offset"] == 99
    added = AclAdded(b"\7" * 16, acl("User:z", "READ", topic="z"))
    place.snapshot.publish(at_offset(apply_changes(snapshot, [added]), 100))
    assert "expired" in await place.refusal("resource", "root", token=token)


async def test_a_change_of_topics_expires_only_searches_for_topics() -> None:
    place = SearchPlace(None, ALICE, topics=("u", "v"))
    token = await token_of(place, "action")
    place.image.publish(image_of("u", "w"))
    assert (await place.search("action", "root", token=token))["results"]


HOSTS = (None, "10.0.0.1", "10.0.0.7")


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=size(10, 60))
@given(
    st.lists(acls(), max_size=12, unique=True),
    st.lists(resource_names.filter(bool), max_size=4, unique=True),
    resource_names,
    st.sampled_from(HOSTS),
    st.booleans(),
    st.integers(1, 4),
)
async def test_all_pages_together_are_the_whole_search(
    chosen: list[Acl],
    topics: list[str],
    name: str,
    host: str | None,
    allow_everyone: bool,
    limit: int,
) -> None:
    """Each result is allowed if it is asked about, and each known name that is allowed is one."""
    place = SearchPlace(None, *chosen, topics=tuple(topics))
    place.authorizer.configure(
        {"super.users": "User:root", "allow.everyone.if.no.acl.found": str(allow_everyone).lower()}
    )
    state = place.authorizer.current_state()
    assert state.snapshot is not None
    snapshot, rules = state.snapshot, state.settings

    def allowed(user: str, operation: int, topic: str) -> bool:
        return authorize(snapshot, rules, f"User:{user}", host, operation, 2, topic)

    for kind in KINDS:
        for user in ("a", "root", "nobody"):
            arguments = {"user": user, "topic": name, "action": "describe", "host": host}
            whole = await place.search(kind, **arguments)
            assert whole["page"]["next_token"] == ""
            results = whole["results"]
            assert await place.all_pages(kind, limit, **arguments) == results
            match kind:
                case "subject":
                    known = {each.principal for each in chosen} | {"User:root"}
                    named = {
                        each.removeprefix("User:")
                        for each in known
                        if each.startswith("User:") and each != "User:*"
                    }
                    wanted = {each for each in named if allowed(each, 8, name)}
                    found = set(names_of(whole))
                    assert found <= wanted
                    # The others are allowed only as everyone is.
                    assert found == wanted or whole["context"]["everyone"]
                    is_stranger_allowed = allowed("stranger", 8, name)
                    assert whole["context"].get("everyone", False) == is_stranger_allowed
                    left_out = set(whole["context"].get("everyone_except", ()))
                    if is_stranger_allowed:
                        assert left_out == {each for each in named if not allowed(each, 8, name)}
                case "resource":
                    assert all(allowed(user, 8, each["id"]) for each in results)
                    single = {each["id"] for each in results if "properties" not in each}
                    literals = {
                        each.resource_name
                        for each in chosen
                        if (each.resource_type, each.pattern_type) == (2, 3)
                        and each.resource_name != "*"
                    }
                    assert single == {
                        each for each in literals | set(topics) if allowed(user, 8, each)
                    }
                case _:
                    assert names_of(whole) == [
                        Operation(code).name.lower()
                        for code in sorted(SUPPORTED[ResourceType.TOPIC])
                        if allowed(user, code, name)
                    ]
