"""What can, by name, compared with every decision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import Operation, PatternType, ResourceType
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.acl.search.names import find_names
from authorizerd.acl.snapshot import with_rules
from tests.acl.search.worlds import ASKING, FROM_HOSTS, OPERATIONS, TYPES, World, worlds
from tests.support.acls import acl, snapshot_of

TOPIC, READ = ResourceType.TOPIC, Operation.READ
NOBODY = AuthorizerSettings()


@given(
    worlds(), st.sampled_from(ASKING), st.sampled_from(FROM_HOSTS), st.sampled_from(OPERATIONS),
    st.sampled_from(TYPES), st.data(),
)  # fmt: skip
def test_results_agree_with_every_decision(
    world: World,
    principal: str,
    host: str | None,
    operation: Operation,
    resource_type: ResourceType,
    data: st.DataObject,
) -> None:
    """A known name or literal of an ACL is listed if and only if it is allowed. Pages join."""
    known = data.draw(st.lists(st.sampled_from(world.probes), max_size=6))
    asked = (world.snapshot, world.settings, principal, host, operation, resource_type, known)
    literals = {
        each.resource_name
        for each in world.held
        if each.resource_type == resource_type in range(2, 8)
        and each.pattern_type == PatternType.LITERAL
        and each.resource_name != "*"
    }
    expected = tuple(
        name
        for name in sorted({*literals, *known})
        if world.allows(principal, host, operation, resource_type, name)
    )
    assert find_names(*asked) == expected
    paged: list[str] = []
    while page := find_names(*asked, after=paged[-1] if paged else None, limit=2):
        assert len(page) <= 2
        paged += page
    assert tuple(paged) == expected


@pytest.mark.parametrize("limit", [None, 1, 7, 1000])
def test_many_names_are_sorted(limit: int | None) -> None:
    """A page has the first ones."""
    names = [f"t{number * 7919 % 1000:03}" for number in range(1000)]
    snapshot = snapshot_of(acl(topic="t", pattern="PREFIXED"), *(acl(topic=n) for n in names[:500]))
    found = find_names(snapshot, NOBODY, "User:a", None, READ, TOPIC, names, limit=limit)
    assert found == tuple(sorted(names)[:limit])


def test_names_that_only_everyone_or_a_prefix_allows_are_listed() -> None:
    snapshot = snapshot_of(
        acl("User:b", topic="orders"),
        acl("User:b", topic="payments"),
        acl("User:a", topic="ord", pattern="PREFIXED"),
        acl("User:*", topic="news", pattern="PREFIXED"),
    )
    asked = (snapshot, NOBODY, "User:a", "10.0.0.1", READ, TOPIC)
    assert find_names(*asked, ["news-eu", "other"]) == ("news-eu", "orders")
    assert find_names(*asked, ["news-eu"], after="news-eu") == ("orders",)


def test_a_question_about_everyone_is_rejected() -> None:
    with pytest.raises(InvalidQuestionError, match=r"User:\*"):
        find_names(snapshot_of(), NOBODY, "User:*", None, READ, TOPIC, [])


@pytest.mark.parametrize(
    ("rules", "expected"),
    [(RULES_4_3, ("denied",)), (RULES_4_4, ("own",)), (ANY_RELEASE, ("denied", "own"))],
)
@pytest.mark.parametrize("own_only", [False, True])
def test_names_that_any_release_allows_are_listed(
    rules: ReleaseRules, expected: tuple[str, ...], own_only: bool
) -> None:
    acls = (
        acl("User:a", topic="own", host="10.9.0.0/16"),
        acl("User:a", topic="denied"),
        acl("User:a", topic="denied", host="10.9.3.0/24", deny=True),
    )
    snapshot = with_rules(snapshot_of(*acls), rules)
    found = find_names(snapshot, NOBODY, "User:a", "10.9.3.4", READ, TOPIC, (), own_only=own_only)
    assert found == expected
