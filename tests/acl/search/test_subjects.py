"""Who can, compared with the decision of every principal."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.errors import SearchLimitError
from authorizerd.acl.model import Acl, Operation, ResourceType
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.search import joined_rules
from authorizerd.acl.search.hosts import HostAccess
from authorizerd.acl.search.subjects import SubjectAccess, Subjects, find_subjects
from authorizerd.acl.snapshot import with_rules
from tests.acl.search.worlds import ASKING, FROM_HOSTS, OPERATIONS, TYPES, World, worlds
from tests.support.acls import acl, snapshot_of

TOPIC = ResourceType.TOPIC
NOBODY = AuthorizerSettings()
PRINCIPALS = [*ASKING, "User:root", "User:c7"]


def access_of(found: Subjects, principal: str) -> HostAccess:
    """Read a result as its documentation says."""
    own = {each.principal: each.hosts for each in (*found.excluded, *found.named)}
    return own.get(principal, found.everyone)


@given(worlds(), st.sampled_from(OPERATIONS), st.sampled_from(TYPES))
def test_results_agree_with_every_decision(
    world: World, operation: Operation, resource_type: ResourceType
) -> None:
    for name in world.probes:
        found = find_subjects(world.snapshot, world.settings, operation, resource_type, name)
        for principal, host in product(PRINCIPALS, FROM_HOSTS):
            assert access_of(found, principal).allows(host) == world.allows(
                principal, host, operation, resource_type, name
            ), (name, principal, host)


@given(worlds(), st.sampled_from(OPERATIONS), st.data())
def test_lists_say_who_differs(world: World, operation: Operation, data: st.DataObject) -> None:
    """Named principals have a rule of their own that applies, or are super users."""
    name = data.draw(st.sampled_from(world.probes))
    found = find_subjects(world.snapshot, world.settings, operation, ResourceType.TOPIC, name)
    mine = {each.principal for each in world.held} | world.settings.super_users
    for listed in (found.named, found.excluded):
        names = [each.principal for each in listed]
        assert names == sorted(set(names))
        assert set(names) <= mine - {"User:*"}
    assert not any(each.hosts.is_nowhere for each in found.named)
    for each in found.excluded:
        assert any(
            found.everyone.allows(host) and not each.hosts.allows(host) for host in FROM_HOSTS
        ) or (found.everyone.others and not each.hosts.others)


@given(worlds(), st.sampled_from(OPERATIONS), st.integers(1, 3), st.data())
def test_pages_join_into_the_whole_result(
    world: World, operation: Operation, limit: int, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(world.probes))
    asked = (world.snapshot, world.settings, operation, ResourceType.TOPIC, name)
    named: list[SubjectAccess] = []
    excluded: list[SubjectAccess] = []
    after = None
    while True:
        page = find_subjects(*asked, after=after, limit=limit)
        assert len({each.principal for each in (*page.named, *page.excluded)}) <= limit
        named += page.named
        excluded += page.excluded
        if page.next_after is None:
            break
        assert after is None or page.next_after > after
        after = page.next_after
    whole = find_subjects(*asked)
    assert Subjects(tuple(named), page.everyone, tuple(excluded)) == whole


def who_can(*acls: Acl, allow_everyone: bool = False, super_users: str = "") -> tuple[object, ...]:
    """Return who may READ the topic ``t``: named, everyone, excluded; nowhere as None."""
    settings = AuthorizerSettings(frozenset(super_users.split()), allow_everyone)
    found = find_subjects(snapshot_of(*acls), settings, Operation.READ, TOPIC, "t")
    named, excluded = (
        {each.principal: describe(each.hosts) for each in listed}
        for listed in (found.named, found.excluded)
    )
    return named, describe(found.everyone), excluded


def describe(access: HostAccess) -> str:
    if access.is_nowhere:
        return "nowhere"
    return ("not " if access.others else "only ") * bool(access.hosts) + (
        " ".join(access.hosts) or "everywhere"
    )


ALICE, EVERYONE = "User:alice", "User:*"


@pytest.mark.parametrize(
    ("acls", "named", "everyone", "excluded"),
    [
        pytest.param([], {}, "nowhere", {}, id="no rule allows"),
        pytest.param([acl(ALICE)], {ALICE: "everywhere"}, "nowhere", {}, id="one principal"),
        pytest.param([acl(EVERYONE)], {}, "everywhere", {}, id="everyone, nobody is enumerated"),
        pytest.param(
            [acl(EVERYONE), acl(ALICE, topic="u")], {}, "everywhere", {}, id="another topic"
        ),
        pytest.param([acl(EVERYONE), acl(ALICE, deny=True)], {}, "everywhere", {ALICE: "nowhere"},
                     id="everyone except one"),
        pytest.param([acl(EVERYONE), acl(ALICE, host="10.0.0.1", deny=True)],
                     {ALICE: "not 10.0.0.1"}, "everywhere", {ALICE: "not 10.0.0.1"},
                     id="one principal not from one host"),
        pytest.param([acl(EVERYONE, host="10.0.0.1"), acl(ALICE, host="10.0.0.2")],
                     {ALICE: "only 10.0.0.1 10.0.0.2"}, "only 10.0.0.1", {},
                     id="hosts of both rules"),
        pytest.param([acl(ALICE), acl(ALICE, host="10.0.0.1"), acl(EVERYONE, deny=True)], {},
                     "nowhere", {}, id="all are denied"),
        pytest.param(
            [acl(ALICE, topic="", pattern="PREFIXED"), acl(EVERYONE, host="10.0.0.1", deny=True)],
            {ALICE: "not 10.0.0.1"},
            "nowhere",
            {},
            id="a host that is denied to everyone",
        ),
        pytest.param(
            [
                acl(ALICE, host="10.0.0.1"),
                acl(ALICE, host="10.0.0.2"),
                acl(ALICE, host="10.0.0.1", deny=True),
            ],
            {ALICE: "only 10.0.0.2"},
            "nowhere",
            {},
            id="a host that is both allowed and denied",
        ),
        pytest.param(
            [acl(EVERYONE, host="10.0.0.1"), acl(ALICE, host="10.0.0.1", topic="*", deny=True)],
            {},
            "only 10.0.0.1",
            {ALICE: "nowhere"},
            id="the only host of everyone is denied to one",
        ),
        pytest.param(
            [acl(EVERYONE, host="10.0.0.1"), acl(ALICE), acl(ALICE, host="10.0.0.1", deny=True)],
            {ALICE: "not 10.0.0.1"},
            "only 10.0.0.1",
            {ALICE: "not 10.0.0.1"},
            id="more hosts than everyone, but not theirs",
        ),
        pytest.param(
            [acl(ALICE, "WRITE"), acl(ALICE, "DESCRIBE")], {}, "nowhere", {}, id="other operations"
        ),
    ],
)  # fmt: skip
def test_examples(
    acls: list[Acl], named: dict[str, str], everyone: str, excluded: dict[str, str]
) -> None:
    assert who_can(*acls) == (named, everyone, excluded)


@pytest.mark.parametrize(
    ("rules", "net"),
    [
        (RULES_4_3, {}),
        (RULES_4_4, {"User:net": "only from 10.9.0.0/16 (except 10.9.1.2)"}),
        (
            ANY_RELEASE,
            {
                "User:net": "from no host by Kafka 4.3, or only from 10.9.0.0/16 (except 10.9.1.2)"
                " by Kafka 4.4"
            },
        ),
    ],
)
def test_hosts_that_never_match_say_nothing(rules: ReleaseRules, net: dict[str, str]) -> None:
    """Nobody is excluded, and nobody is allowed from them."""
    acls = (
        acl("User:app", topic="t"),
        acl("User:app", topic="t", host="evil.example.com", deny=True),
        acl("User:app2", topic="t"),
        acl("User:app2", topic="t", host="::1", deny=True),
        acl("User:net", topic="t", host="10.9.0.0/16"),
        acl("User:net", topic="t", host="10.9.1.2", deny=True),
        acl("User:v6", topic="t", host="fe80::1"),
    )
    found = find_subjects(with_rules(snapshot_of(*acls), rules), NOBODY, Operation.READ, TOPIC, "t")
    listed = {each.principal: str(each.hosts) for each in found.named}
    assert listed == {"User:app": "from any host", "User:app2": "from any host", **net}
    assert found.everyone.is_nowhere
    assert not found.excluded


def test_principal_without_a_rule_that_can_match_is_not_listed() -> None:
    silent = acl(ALICE, host="evil.example.com", deny=True)
    assert who_can(acl(EVERYONE), silent) == ({}, "everywhere", {})


def test_allow_everyone_applies_only_if_no_acls_pattern_matches() -> None:
    """This includes the patterns of ACLs for others and for other operations."""
    assert who_can(allow_everyone=True) == ({}, "everywhere", {})
    assert who_can(acl(ALICE, topic="u"), allow_everyone=True) == ({}, "everywhere", {})
    assert who_can(acl(ALICE, "WRITE"), allow_everyone=True) == ({}, "nowhere", {})


def test_super_users_are_named_whatever_is_denied() -> None:
    denied = acl(EVERYONE, "ALL", topic="*", deny=True)
    assert who_can(denied, super_users="User:root User:admin") == (
        {"User:admin": "everywhere", "User:root": "everywhere"},
        "nowhere",
        {},
    )


def test_more_hosts_than_the_limit_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_rules, "HOSTS_MAX", 2)
    rules = [acl(ALICE, host=f"10.0.{number // 200}.{number % 200}") for number in range(3)]
    assert who_can(*rules[:2])[0] == {ALICE: "only 10.0.0.0 10.0.0.1"}
    with pytest.raises(SearchLimitError, match="more than 2 single hosts"):
        who_can(*rules)
    with pytest.raises(SearchLimitError):
        who_can(*rules[:2], acl(EVERYONE, host="10.0.0.9"))
