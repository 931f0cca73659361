"""How far a plan has been carried out, and what others have changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl
from authorizerd.management.plan.changes import AclChanges, AclRequest, make_changes
from authorizerd.management.plan.selector import Selector
from authorizerd.management.plan.state import (
    apply_request,
    change_digest,
    compare,
    digest_acls,
    digest_ids,
    find_added,
    make_states,
    skip_changes,
)
from tests.support.acls import acl

POOL = [acl("User:a", topic=f"t{number}", deny=number % 2 == 0) for number in range(9)]
sets = st.sets(st.sampled_from(POOL))


def by_id(*acls: Acl) -> dict[bytes, Acl]:
    return {derive_id(each): each for each in acls}


def changes_between(before: set[Acl], after: set[Acl]) -> AclChanges:
    return make_changes(before, after, Selector(None))


@given(before=sets, after=sets)
def test_state_after_each_change_is_recognized(before: set[Acl], after: set[Acl]) -> None:
    changes = changes_between(before, after)
    states = make_states(digest_acls(before), changes)
    assert len(states) == changes.count + 1
    present = set(before)
    for made in range(changes.count + 1):
        assert states[digest_acls(present)] == made
        left = skip_changes(changes, made)
        assert left.count == changes.count - made
        assert change_digest(digest_acls(present), left) == digest_acls(after)
        for acls, add in ((left.created, present.add), (left.deleted, present.discard)):
            if acls:
                add(acls[0])
                break


@given(before=sets, after=sets, found=sets)
def test_other_states_are_not_recognized(
    before: set[Acl], after: set[Acl], found: set[Acl]
) -> None:
    """A state is one of the plan's only if it has exactly its first changes."""
    changes = changes_between(before, after)
    made = make_states(digest_acls(before), changes).get(digest_acls(found))
    order = [*changes.created, *changes.deleted]
    expected = [
        place
        for place in range(len(order) + 1)
        if (before | set(order[:place]) & set(changes.created))
        - (set(order[:place]) & set(changes.deleted))
        == found
    ]
    assert ([] if made is None else [made]) == expected


@given(before=sets, added=sets)
def test_up_to_two_added_acls_are_found(before: set[Acl], added: set[Acl]) -> None:
    after = before | added
    new = after - before
    acls = by_id(*after)
    found = find_added(digest_acls(before), acls, digest_ids(acls))
    assert set(found) == (new if len(new) in (1, 2) else set())


def test_no_acl_is_named_if_others_are_gone() -> None:
    after = by_id(*POOL[1:5])
    assert find_added(digest_acls(POOL[:3]), after, digest_ids(after)) == []


@given(
    before=sets, after=sets, own=st.sets(st.sampled_from(POOL), min_size=1), creates=st.booleans()
)
def test_changes_of_a_request_are_told_from_those_of_others(
    before: set[Acl], after: set[Acl], own: set[Acl], creates: bool
) -> None:
    request = AclRequest("create_allow" if creates else "delete_allow", tuple(own))
    found = compare(by_id(*before), request, by_id(*after))
    assert set(found.unseen) == (own - after if creates else own & after)
    assert set(found.created) == after - before - own
    assert set(found.deleted) == before - after - own
    applied = set(apply_request(by_id(*before), request).values())
    assert applied == (before | own if creates else before - own)
