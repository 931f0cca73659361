"""Plans keep grants, make their ACLs permanent only if they are desired, and begin none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.grants.reading import read_grants
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import Note, make_note
from authorizerd.management.formats.model import Scope
from authorizerd.management.plan.changes import AclChanges, make_changes, split_requests
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.grants import settle_grants
from authorizerd.management.plan.selector import Managed, Selector
from tests.support.acls import acl

_A, _B = acl("User:a", "READ", topic="t"), acl("User:b", "READ", topic="t", deny=True)
_BEGIN, _END = 1_000_000_000_000, 1_000_000_060_000
_GRANT = Grant(id="1", acl=_A, begin_ms=_BEGIN, end_ms=_END, author="User:ops", reason="why")
_WAITING = replace(_GRANT, is_waiting=True)
_IDENTIFIED = replace(_GRANT, acl_id=b"i" * 16)
_FUTURE = replace(_WAITING, begin_ms=_BEGIN + 1, end_ms=_END + 1)
_LATER = replace(_GRANT, end_ms=_END + 1)
_OTHER = make_note(Note("other", {"a": "1"}))
_DAMAGED = replace(_OTHER, resource_name="authorizerd-grant?end=soon")
_EVERYTHING = Selector(None)
_note = make_grant_note


def _plan(
    present: list[Acl], desired: list[Acl], selector: Selector = _EVERYTHING, now_ms: int = _BEGIN
) -> tuple[AclChanges, str]:
    settled = settle_grants(present, desired, selector, now_ms)
    return make_changes(present, settled.desired, selector), "; ".join(settled.sentences)


@pytest.mark.parametrize(
    ("present", "desired", "created", "deleted", "sentence"),
    [
        # A grant that no file has stays as it is, and so do notes of other kinds.
        ([_A, _note(_GRANT)], [], [], [], "1 grant is kept"),
        ([_A, _note(_GRANT), _note(_LATER)], [], [], [], "2 grants are kept"),
        ([_note(_WAITING)], [], [], [], "1 grant is kept"),
        ([_OTHER, _DAMAGED], [], [], [], ""),
        # A file with its ACL makes it permanent.
        ([_A, _note(_GRANT), _note(_LATER)], [_A], [], [_note(_GRANT), _note(_LATER)], ""),
        ([_note(_WAITING)], [_A], [_A], [_note(_WAITING)], ""),
        # A listing has both, perhaps an earlier one.
        ([_A, _note(_IDENTIFIED)], [_A, _note(_GRANT)], [], [], ""),
        ([_A, _note(_LATER)], [_A, _note(_GRANT)], [], [], ""),
        ([_A, _note(_IDENTIFIED)], [_note(_WAITING)], [], [], ""),
        # A grant that is not there is made, with its ACL.
        ([], [_A, _note(_IDENTIFIED)], [_A, _note(_GRANT)], [], ""),
        ([], [_note(_WAITING)], [_A, _note(_GRANT)], [], ""),
        ([], [_A, _note(_GRANT), _note(_FUTURE)], [_note(_FUTURE)], [], ""),
        ([_note(_WAITING)], [_A, _note(_GRANT)], [], [], ""),
        # What has no end gets none.
        ([_A], [_A, _note(_GRANT)], [], [], "has no end"),
        ([_A], [_A, _note(_WAITING)], [], [], "has no end"),
        ([_A], [_note(_WAITING)], [], [], "has no end"),
        ([_A], [_note(_FUTURE)], [_note(_FUTURE)], [_A], ""),
        # An ACL with only a waiting note is not the grant's.
        ([_A, _note(_WAITING)], [], [], [_A], "1 grant is kept"),
        ([_A, _note(_WAITING)], [_A, _note(_WAITING)], [], [], ""),
        # The note of an ACL that is gone is left to whoever ends grants.
        ([_note(_GRANT)], [_A, _note(_GRANT)], [], [], ""),
        # A damaged note that is there stays there.
        ([_A, _DAMAGED], [_A, _DAMAGED], [], [], ""),
        ([], [_OTHER], [_OTHER], [], ""),
    ],
)
def test_plans_and_grants(
    present: list[Acl], desired: list[Acl], created: list[Acl], deleted: list[Acl], sentence: str
) -> None:
    changes, sentences = _plan(present, desired)
    assert (set(changes.created), set(changes.deleted)) == (set(created), set(deleted))
    assert sentence in sentences
    assert bool(sentence) is bool(sentences)


def test_a_desired_grant_that_has_ended_is_left_out() -> None:
    changes, sentences = _plan([_B], [_A, _B, _note(_GRANT)], now_ms=_END)
    assert changes == AclChanges()
    assert "has ended" in sentences


def test_a_desired_note_that_cannot_be_read_is_rejected() -> None:
    with pytest.raises(PlanError, match="cannot be read"):
        _plan([], [_A, _DAMAGED])


def test_notes_are_outside_the_selection_but_follow_their_acl() -> None:
    selector = Selector([Managed(principal="User:b")])
    present = [_A, _note(_GRANT), _B, _OTHER, _DAMAGED]
    assert _plan(present, [], selector)[0] == AclChanges(delete_deny=(_B,))
    note = _note(replace(_GRANT, acl=_B))
    # Without the settling, as for a removal of everything that is selected:
    changes = make_changes([*present, note], [], selector)
    assert changes == AclChanges(delete_deny=(_B, note))
    assert make_changes([*present, note], [], _EVERYTHING) == AclChanges(
        delete_allow=(_A, _note(_GRANT)),
        delete_deny=(_B, note, *sorted([_OTHER, _DAMAGED], key=astuple)),
    )
    for wanted in (_A, _note(_FUTURE)):
        with pytest.raises(PlanError, match="does not manage"):
            _plan([], [wanted], selector)
    assert not Selector([Managed(principal=_OTHER.principal)]).manages(_OTHER)


@pytest.mark.parametrize(
    "scope",
    [
        Scope(frozenset(["User:a"])),
        Scope(acls=frozenset([_A])),
        Scope(entries=(Managed(principal="User:a"),)),
    ],
)
def test_the_scope_of_a_file_includes_notes_with_their_acls(scope: Scope) -> None:
    """Otherwise, a part that was not read would prevent that their ACLs become permanent."""
    assert scope.includes(_note(_GRANT))
    assert not any(map(scope.includes, [_note(replace(_GRANT, acl=_B)), _OTHER, _DAMAGED]))


def test_an_acl_and_its_notes_are_in_one_request() -> None:
    notes = [_note(_GRANT), _note(_LATER)]
    others = [acl("User:a", "READ", topic=f"s{number}") for number in range(3)]
    changes = make_changes([], [*notes, _A, *others], _EVERYTHING)
    sizes = [len(request.acls) for request in split_requests(changes, acls_max=4)]
    assert sizes == [3, 3]
    assert [request.acls for request in split_requests(changes, acls_max=2)][-1] == (_A, *notes)


_grants = st.builds(
    Grant, id=st.just("1"), acl=st.sampled_from([_A, _B]),
    begin_ms=st.sampled_from([_BEGIN, _BEGIN + 1]),
    end_ms=st.sampled_from([_END, _END + 1]), author=st.just("x"), reason=st.just(""),
    is_waiting=st.booleans(), acl_id=st.sampled_from([None, b"i" * 16]),
)  # fmt: skip
_states = st.lists(st.sampled_from([_A, _B, _OTHER]) | _grants.map(_note), unique=True)


@given(state=_states)
def test_a_listing_of_today_changes_nothing(state: list[Acl]) -> None:
    assert _plan(state, state)[0] == AclChanges()


@given(present=_states, desired=_states)
def test_a_plan_keeps_grants_and_leads_to_what_it_wants(
    present: list[Acl], desired: list[Acl]
) -> None:
    changes, _ = _plan(present, desired)
    for grant in read_grants(changes.deleted).grants:
        assert grant.acl in desired
        assert grant.acl not in changes.deleted
    for grant in read_grants(present).grants:
        assert grant.is_waiting or grant.acl not in changes.deleted
    for grant in read_grants(changes.created).grants:
        assert grant.is_waiting or grant.acl in changes.created
    after = (set(present) | set(changes.created)) - set(changes.deleted)
    assert not _plan(list(after), desired)[0].count
