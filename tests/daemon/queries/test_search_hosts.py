"""A search without a host says what it leaves out because only some hosts are allowed."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from authorizerd.acl.decision import authorize
from authorizerd.acl.model import Acl, Operation, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.snapshot import with_rules
from tests.daemon.search_place import SearchPlace
from tests.support.acls import acl
from tests.support.sizes import size
from tests.support.strategies import acls, resource_names

HOST = "10.0.0.5"
LEFT_OUT = {"some_hosts", "everyone_some_hosts", "hosts_matter"}
ALICE = acl("User:alice", "READ", topic="t")
BOB = acl("User:bob", "READ", topic="t", host=HOST)
DENIED_AT_HOST = acl("User:*", "READ", topic="t", deny=True, host=HOST)


async def context_of(place: SearchPlace, kind: str, *arguments: Any, **more: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the context of an answer without its offset."""
    context = (await place.search(kind, *arguments, **more))["context"]
    del context["offset"]
    return context


@pytest.mark.parametrize(
    ("kind", "chosen", "context"),
    [
        ("subject", [ALICE], {}),
        ("subject", [ALICE, BOB], {"some_hosts": 1}),
        ("subject", [ALICE, BOB, DENIED_AT_HOST], {"some_hosts": 1}),
        ("subject", [ALICE, acl("Group:g", "READ", topic="t", host=HOST)], {}),
        ("subject", [acl("User:*", "READ", topic="t", host=HOST)], {"everyone_some_hosts": True}),
        ("action", [ALICE], {}),
        ("action", [ALICE, DENIED_AT_HOST], {"some_hosts": 1}),
        ("action", [acl("User:alice", "READ", topic="t", host=HOST)], {"some_hosts": 2}),
        ("resource", [ALICE, BOB], {}),
        ("resource", [ALICE, DENIED_AT_HOST], {"hosts_matter": True}),
        ("resource", [acl("User:alice", "READ", topic="t", host=HOST)], {"hosts_matter": True}),
    ],
)
async def test_what_only_some_hosts_may_do_is_said(
    kind: str, chosen: list[Acl], context: dict[str, object]
) -> None:
    place = SearchPlace(None, *chosen)
    assert await context_of(place, kind) == context
    assert LEFT_OUT.isdisjoint(await context_of(place, kind, host=HOST))


@pytest.mark.parametrize(
    ("kind", "rules", "count", "releases"),
    [
        ("subject", RULES_4_3, 1, None),
        ("subject", RULES_4_4, 2, None),
        ("subject", ANY_RELEASE, 2, ["4.3", "4.4"]),
        ("action", RULES_4_3, 0, None),
        ("action", ANY_RELEASE, 2, ["4.3", "4.4"]),
        ("resource", RULES_4_3, 0, None),
        ("resource", RULES_4_4, 1, None),
        ("resource", ANY_RELEASE, 1, ["4.3", "4.4"]),
    ],
)
async def test_result_of_one_release_is_a_result_and_the_releases_are_said(
    kind: str, rules: ReleaseRules, count: int, releases: list[str] | None
) -> None:
    place = SearchPlace(None, acl("User:alice", "READ", topic="t", host="10.0.0.0/8"))
    snapshot = place.authorizer.current_state().snapshot
    assert snapshot is not None
    place.snapshot.publish(with_rules(snapshot, rules))
    answer = await place.search(kind, host=HOST)
    assert answer["page"]["count"] == count
    assert answer["context"].get("releases") == releases


async def test_one_denied_host_does_not_empty_a_review_silently() -> None:
    """Nobody is allowed from every host, except the super user; each other one is counted."""
    names = [f"User:u{number}" for number in range(6)]
    place = SearchPlace(None, *(acl(each, "READ", topic="t") for each in names), DENIED_AT_HOST)
    answer = await place.search("subject")
    assert [each["id"] for each in answer["results"]] == ["root"]
    assert answer["context"]["some_hosts"] == 6
    elsewhere = await place.search("subject", host="10.0.0.6")
    assert elsewhere["page"]["count"] == 7


async def test_super_user_has_no_hosts() -> None:
    place = SearchPlace(None, DENIED_AT_HOST)
    assert await context_of(place, "resource", "root") == {"everything": True}


async def pages_of(place: SearchPlace, kind: str, **arguments: Any) -> list[Any]:  # noqa: ANN401 - JSON
    """Return the contexts of all pages of one result."""
    contexts: list[Any] = []
    page: dict[str, Any] = {"limit": 1}
    while True:
        answer = await place.search(kind, **arguments, **page)
        contexts.append(answer["context"])
        if not answer["page"]["next_token"]:
            return contexts
        page = {"token": answer["page"]["next_token"]}


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=size(10, 60))
@given(st.lists(acls(), max_size=10, unique=True), resource_names)
async def test_all_pages_together_count_each_once(chosen: list[Acl], name: str) -> None:
    """The hosts of the ACLs, and one that no ACL names, show what each answer leaves out."""
    place = SearchPlace(None, *chosen)
    state = place.authorizer.current_state()
    assert state.snapshot is not None
    snapshot, rules = state.snapshot, state.settings
    hosts = ({each.host for each in chosen} - {"*"}) | {"10.9.9.9"}

    def needs_host(principal: str, operation: int, topic: str) -> bool:
        def allowed(host: str | None) -> bool:
            return authorize(snapshot, rules, principal, host, operation, 2, topic)

        return not allowed(None) and any(map(allowed, hosts))

    def named(kind: str, contexts: list[Any]) -> int:
        return sum(each.get(kind, 0) for each in contexts)

    known = {each.principal for each in chosen if each.principal.startswith("User:")} - {"User:*"}
    subjects = await pages_of(place, "subject", action="describe", topic=name)
    is_everyone = needs_host("User:stranger", 8, name)
    assert {each.get("everyone_some_hosts", False) for each in subjects} == {is_everyone}
    wanted = {each for each in known if needs_host(each, 8, name)}
    # Those that are allowed only as everyone is are not named.
    counted = named("some_hosts", subjects)
    assert counted == len(wanted) or (is_everyone and counted < len(wanted))
    for user in ("a", "nobody"):
        principal = f"User:{user}"
        actions = await pages_of(place, "action", user=user, topic=name)
        assert named("some_hosts", actions) == sum(
            needs_host(principal, operation, name) for operation in SUPPORTED[ResourceType.TOPIC]
        )
        resources = await pages_of(place, "resource", user=user, action="describe")
        literals = {each.resource_name for each in chosen if each.resource_type == 2}
        if any(needs_host(principal, 8, each) for each in literals):
            assert all(each["hosts_matter"] for each in resources)


async def test_page_of_actions_counts_only_its_own() -> None:
    """WRITE is between READ and DESCRIBE, so the second page leaves it out."""
    place = SearchPlace(None, ALICE, acl("User:alice", "WRITE", topic="t", host=HOST))
    pages = await pages_of(place, "action", user="alice")
    assert pages == [{"offset": 0}, {"offset": 0, "some_hosts": 1}]


ANYWHERE = {"any": True, "except": [], "only": []}
ELSEWHERE = {"any": True, "except": [HOST], "only": []}


def with_hosts(answer: Any) -> list[Any]:  # noqa: ANN401 - JSON
    """Return the ids or names of the results with their hosts."""
    return [
        (each.get("id", each.get("name")), each["properties"]["hosts"])
        for each in answer["results"]
    ]


async def test_hosts_are_listed_on_demand() -> None:
    place = SearchPlace(
        None,
        ALICE,
        BOB,
        DENIED_AT_HOST,
        acl("User:carol", "READ", topic="t", host="10.0.0.6"),
        acl("Group:g", "READ", topic="t"),
    )
    answer = await place.search("subject", list_hosts=True)
    only = {"any": False, "except": [], "only": ["10.0.0.6"]}
    assert with_hosts(answer) == [("alice", ELSEWHERE), ("carol", only), ("root", ANYWHERE)]
    assert answer["context"] == {"offset": 0, "other_types": 1}
    there = await place.search("subject", list_hosts=True, host=HOST)
    assert with_hosts(there) == [("root", ANYWHERE)]
    actions = await place.search("action", list_hosts=True)
    assert with_hosts(actions) == [("read", ELSEWHERE), ("describe", ANYWHERE)]
    resources = await place.search("resource", list_hosts=True)
    assert resources["results"] == [
        {"type": "topic", "id": "t", "properties": {"pattern_type": "LITERAL", "hosts": ELSEWHERE}}
    ]
    assert resources["context"] == {"offset": 0}
    everything = await place.search("resource", "root", list_hosts=True)
    assert with_hosts(everything) == [("*", ANYWHERE)]


async def test_everyone_has_hosts_and_all_exceptions_are_listed() -> None:
    denied = [f"User:d{number:03}" for number in range(150)]
    place = SearchPlace(
        None,
        acl("User:*", "READ", topic="t"),
        DENIED_AT_HOST,
        BOB,
        *(acl(each, "READ", topic="t", deny=True) for each in denied),
    )
    answer = await place.search("subject", list_hosts=True)
    assert answer["context"]["everyone"]
    assert answer["context"]["everyone_hosts"] == ELSEWHERE
    assert answer["context"]["everyone_except"] == [each[5:] for each in denied]
    assert with_hosts(answer) == [("bob", ELSEWHERE), ("root", ANYWHERE)]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=size(10, 60))
@given(st.lists(acls(), max_size=10, unique=True))
async def test_pages_with_hosts_leave_nothing_out(chosen: list[Acl]) -> None:
    """Each decision about a name and a host follows from the patterns that match the name."""
    place = SearchPlace(None, *chosen)
    state = place.authorizer.current_state()
    assert state.snapshot is not None
    for kind in ("subject", "action", "resource"):
        whole = await place.search(kind, "a", "describe", list_hosts=True)
        assert await place.all_pages(kind, 1, "a", "describe", list_hosts=True) == whole["results"]
    patterns = [
        (each["id"], each["properties"]["pattern_type"], each["properties"])
        for each in whole["results"]
    ]

    def matches(kind: str, pattern: str, name: str) -> bool:
        if kind == "PREFIXED":
            return name.startswith(pattern)
        return name == pattern or (pattern == "*" and not name.startswith("*"))

    names = {each.resource_name for each in chosen} | {"zz"}
    for name in {f"{each}{end}" for each in names for end in ("", "x")} - {"*"}:
        for host in (HOST, "10.0.0.7", "10.0.0.8"):
            said = any(
                matches(kind, pattern, name)
                and not any(
                    matches(each["pattern_type"], each["id"], name)
                    for each in properties.get("exceptions", ())
                )
                and (host not in properties["hosts"]["except"]
                     if properties["hosts"]["any"] else host in properties["hosts"]["only"])
                for pattern, kind, properties in patterns
            )  # fmt: skip
            asked = ("User:a", host, Operation.DESCRIBE, ResourceType.TOPIC, name)
            assert said == authorize(state.snapshot, state.settings, *asked)


async def test_page_with_long_names_or_many_hosts_ends_early() -> None:
    """A page ends after a name with which a token can say where the next one begins."""
    for length, is_whole in ((2_900, False), (30_000, True)):
        names = [f"User:{number}{'n' * length}" for number in range(200)]
        place = SearchPlace(None, *(acl(each, "READ", topic="t") for each in names))
        page = await place.search("subject")
        assert (page["page"]["count"] == 201) == is_whole
        assert len(await place.all_pages("subject", 1000)) == 201
        topics = [acl("User:alice", "READ", topic=each[5:]) for each in names[:130]]
        place = SearchPlace(None, *topics)
        page = await place.search("resource", list_hosts=True)
        assert (page["page"]["count"] == 130) == is_whole
        assert len(await place.all_pages("resource", 1000, list_hosts=True)) == 130
    hosts = [f"10.{one}.{two}.0" for one in range(100) for two in range(100)]
    rules = [acl("User:alice", "ALL", topic="t", host=each) for each in hosts]
    place = SearchPlace(None, *rules)
    page = await place.search("action", list_hosts=True)
    assert page["page"]["count"] == 1
    assert len(await place.all_pages("action", 1000, list_hosts=True)) == 8


async def test_hosts_of_absurd_length_are_refused() -> None:
    hosts = [f"fe80:0:0:0:0:0:0:{number:x}%{'z' * 100}" for number in range(1, 9500)]
    place = SearchPlace(None, *(acl("User:alice", "READ", topic="t", host=each) for each in hosts))
    assert "more than 1048576 characters" in await place.refusal("action", list_hosts=True)
