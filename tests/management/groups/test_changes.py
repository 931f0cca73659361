"""Plans with groups: they lead to what a model with groups says, and remove only what they made."""

from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.acl.decision import AuthorizerSettings, is_allowed
from authorizerd.acl.grants.model import Grant, make_grant_note
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
from tests.support.acls import acl, snapshot_of
from tests.support.group_worlds import (
    QUESTIONS,
    World,
    allows_with_groups,
    hand_made_acls,
    worlds,
)
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


def given_by(world: World) -> set[Acl]:
    members = {group: frozenset(users) for group, users in world.members.items()}
    return {*expand(world.acls, Membership(members)).given}


@given(worlds, worlds, hand_made_acls, hand_made_acls)
def test_scope_applies_only_to_acls_made_by_hand(
    first: World, second: World, before: set[Acl], desired: set[Acl]
) -> None:
    """Another set's ACLs stay, until the desired files have them."""
    groups = [each for each in first.acls if find_group(each.principal) is not None]
    state = carry_out(before, plan(before, groups, first.members, name="other").changes)
    others = given_by(World(groups, first.members)) - before
    groups = [each for each in second.acls if find_group(each.principal) is not None]
    wanted = [*desired, *groups]
    governed = plan(state, wanted, second.members, selector=Selector(None))
    state = carry_out(state, governed.changes)
    given = given_by(World(groups, second.members))
    assert without_notes(state) == desired | given | others
    claims = read_claims(state).sets
    assert {each for each in others if claim(each) in claims} == others - desired
    assert plan(state, wanted, second.members, selector=Selector(None)).changes == AclChanges()


READ = acl("Group:g", topic="orders")
A, B, C = (acl(f"User:{name}", topic="orders") for name in "abc")
EVERYTHING = Selector(None)


def state_of(groups: dict[str, set[str]], *desired: Acl, name: str = "payments") -> set[Acl]:
    return carry_out((), plan((), desired, groups, name=name).changes)


def test_claims_precede_what_they_claim_and_outlive_it() -> None:
    deny = acl("Group:g", "DESCRIBE_TOKENS", user="x", deny=True)  # sorts behind notes
    governed = plan((), [READ, deny], {"g": {"User:a"}})
    order = [is_note(each) for each in governed.changes.created]
    assert order == [True, False, False]
    state = carry_out((), governed.changes)
    changes = plan(state, [], {"g": {"User:a"}}).changes
    assert [is_note(each) for each in changes.deleted] == [False, False, True]


def test_acl_that_was_there_before_stays_when_its_member_leaves() -> None:
    joined = plan([A], [READ], {"g": {"User:a", "User:b"}})
    assert joined.outcome is not None
    assert joined.outcome.there_before == (A,)
    left = carry_out({A}, joined.changes)
    left = carry_out(left, plan(left, [READ], {"g": {"User:c"}}).changes)
    assert without_notes(left) == {A, C}


def test_acl_of_two_groups_goes_with_the_last_one() -> None:
    both = [READ, acl("Group:h", topic="orders")]
    state = state_of({"g": {"User:a"}, "h": {"User:a"}}, *both)
    state = carry_out(state, plan(state, both, {"g": set(), "h": {"User:a"}}).changes)
    assert without_notes(state) == {A}
    state = carry_out(state, plan(state, both, {"g": set(), "h": set()}).changes)
    assert state == set()


def test_acl_of_two_sets_goes_with_the_last_one() -> None:
    state = state_of({"g": {"User:a"}}, READ, name="x")
    state = carry_out(state, plan(state, [READ], {"g": {"User:a"}}, name="y").changes)
    state = carry_out(state, plan(state, [READ], {"g": set()}, name="x").changes)
    assert without_notes(state) == {A}
    assert carry_out(state, plan(state, [READ], {"g": set()}, name="y").changes) == set()


@pytest.mark.parametrize("groups", [None, {"g": {"User:b"}}, {"g": {"User:a", "User:b"}}])
def test_acl_that_is_desired_by_itself_becomes_permanent(
    groups: dict[str, set[str]] | None,
) -> None:
    """Whether or not the plan is about groups, and in every set."""
    state = state_of({"g": {"User:a", "User:b"}}, READ)
    desired = [A] if groups is None else [A, READ]
    selector = Selector([Managed(principal="User:a")])
    governed = plan(state, desired, groups, selector=selector)
    assert governed.permanent == 1
    state = carry_out(state, governed.changes)
    assert without_notes(state) == {A, B}
    state = carry_out(state, plan(state, [READ], {"g": set()}).changes)
    assert state == {A}


@pytest.mark.parametrize("selector", [NOTHING, Selector(None)])
@pytest.mark.parametrize("members", [{"User:a"}, set[str]()])
def test_acl_that_was_made_again_by_a_grant_lasts_until_its_end(
    members: set[str], selector: Selector
) -> None:
    """Somebody deletes the ACL that a group made, and grants it. The claim outlives the grant."""
    made = acl("User:a", topic="t")
    groups = [acl("Group:g", topic="t")]
    state = carry_out((), plan((), groups, {"g": {"User:a"}}).changes)
    grant = Grant(id="1", acl=made, begin_ms=0, end_ms=9, author="User:ops", reason="why")
    note = make_grant_note(grant)
    state = {*state, note}
    kept = [made, note] if selector is not NOTHING else []  # as settle_grants has it
    governed = plan(state, [*groups, *kept], {"g": members}, selector=selector)
    assert (governed.changes, governed.permanent) == (AclChanges(), 0)
    state -= {note}  # for example, because it was about an ACL that no longer exists
    governed = plan(state, groups, {"g": members}, selector=selector)
    assert without_notes(governed.changes.deleted) == {made for _ in [0] if not members}


def test_listing_of_everything_makes_nothing_permanent() -> None:
    """It has the notes as well, so it describes the same state."""
    state = state_of({"g": {"User:a"}}, READ) | {B}
    governed = plan(state, state, None, selector=EVERYTHING)
    assert (governed.changes, governed.permanent) == (AclChanges(), 0)


@pytest.mark.parametrize("groups", [None, {}])
def test_other_plans_keep_what_a_set_made(groups: dict[str, set[str]] | None) -> None:
    state = state_of({"g": {"User:a"}}, READ)
    governed = plan(state | {B}, [C], groups, name="other", selector=EVERYTHING)
    assert without_notes(carry_out(state | {B}, governed.changes)) == {A, C}
    assert governed.kept == {"payments": 1}


def test_file_without_groups_removes_what_its_set_made() -> None:
    state = state_of({"g": {"User:a"}}, READ)
    assert carry_out(state, plan(state, [], {}).changes) == set()


def test_claim_whose_acl_is_gone_is_pruned() -> None:
    state = state_of({"g": {"User:a", "User:b"}}, READ) - {A}
    governed = plan(state, [READ], {"g": {"User:b"}})
    assert set(read_claims(carry_out(state, governed.changes)).sets) == {claim(B)}


def test_reasons_are_the_groups() -> None:
    state = state_of({"g": {"User:a"}, "h": {"User:a"}}, READ, acl("Group:h", topic="payments"))
    governed = plan(state, [READ], {"g": {"User:b"}})
    assert governed.reasons == {B: ("g",), A: ("g",), acl("User:a", topic="payments"): ()}
