"""Plans with groups: they lead to what a model with groups says, and remove only what they made."""

from collections.abc import Collection

from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.management.groups.changes import (
    GovernedChanges,
    GroupSet,
    make_governed_changes,
)
from authorizerd.management.groups.claims import claim, read_claims
from authorizerd.management.groups.expansion import expand
from authorizerd.management.groups.membership import Membership, find_group
from authorizerd.management.plan.changes import AclChanges, split_requests
from authorizerd.management.plan.selector import Managed, Selector
from tests.management.groups.worlds import (
    QUESTIONS,
    World,
    allows_with_groups,
    hand_made_acls,
    worlds,
)
from tests.support.acls import snapshot_of
from tests.support.sizes import size

NOTHING = Selector([Managed(principal="User:nobody")])
"""A scope without ACLs: everything that changes is made by groups."""


def plan(
    present: Collection[Acl],
    desired: Collection[Acl],
    groups: dict[str, set[str]] | None,
    *,
    name: str = "payments",
    selector: Selector = NOTHING,
) -> GovernedChanges:
    if groups is None:
        return make_governed_changes(present, desired, selector, None)
    membership = Membership({group: frozenset(members) for group, members in groups.items()})
    hand = [each for each in desired if find_group(each.principal) is None]
    own = GroupSet(name, expand(desired, membership))
    return make_governed_changes(present, hand, selector, own)


def carry_out(
    present: Collection[Acl], changes: AclChanges, acls_max: int = 10_000, stop: int | None = None
) -> set[Acl]:
    """Return the ACLs after the first ``stop`` requests of a plan."""
    state = set(present)
    for request in list(split_requests(changes, acls_max=acls_max))[:stop]:
        for each in request.acls:
            if request.is_creation:
                assert each not in state
                state.add(each)
            else:
                state.remove(each)
    return state


def without_notes(acls: Collection[Acl]) -> set[Acl]:
    return {each for each in acls if not is_note(each)}


@settings(max_examples=size(10, 500))
@given(worlds)
def test_expanded_acls_decide_as_a_model_with_groups(world: World) -> None:
    state = carry_out((), plan((), world.acls, world.members, selector=Selector(None)).changes)
    snapshot = snapshot_of(*state)
    for rules in (AuthorizerSettings(), AuthorizerSettings(allow_everyone_if_no_acl_found=True)):
        for each in QUESTIONS:
            is_open = rules.allow_everyone_if_no_acl_found
            assert is_allowed(snapshot, rules, each) == allows_with_groups(
                world, each, is_open=is_open
            )


steps = st.lists(
    st.tuples(worlds, st.integers(1, 4), st.none() | st.integers(0, 5), st.sampled_from("ab")),
    min_size=1,
    max_size=6,
)
"""Worlds, each planned with its own limit of ACLs in a request; some plans stop after a number of
requests. There are two sets."""


@settings(max_examples=size(10, 1000), deadline=None)
@given(steps, hand_made_acls)
def test_changes_of_members_never_touch_other_acls(
    history: list[tuple[World, int, int | None, str]], hand_made: set[Acl]
) -> None:
    """Whatever stops halfway, the ACLs are those made by hand, and those that the groups of each
    set gave when it was planned as a whole the last time."""
    state = set(hand_made)
    for name in "ab":  # ends with a whole plan of each set
        history = [*history, (history[-1][0], 10, None, name)]
    for world, acls_max, stop, name in history:
        acls = [each for each in world.acls if find_group(each.principal) is not None]
        governed = plan(state, acls, world.members, name=name)
        state = carry_out(state, governed.changes, acls_max, stop)
        assert hand_made <= state
        if stop is None:
            again = plan(state, acls, world.members, name=name)
            assert again.changes == AclChanges()
    given = expand(acls, Membership({g: frozenset(m) for g, m in world.members.items()})).given
    assert without_notes(state) == hand_made | set(given)
    final = {claim(each) for each in set(given) - hand_made}
    assert read_claims(state).sets == dict.fromkeys(final, ("a", "b")) or not final
