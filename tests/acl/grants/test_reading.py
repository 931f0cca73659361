"""All grants, those of one ACL, and their words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.grants.reading import (
    State,
    describe_note,
    find_ends,
    find_state,
    format_utc,
    join_notes,
    read_grants,
    show_acl,
)
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import NAME_BYTES_MAX, Note, make_note
from tests.support.acls import acl, snapshot_of

_READ = acl("User:alice", "READ", topic="orders")
_GRANT = Grant(
    id="a1", acl=_READ, begin_ms=1_000_000_000_000, end_ms=1_000_000_060_000,
    author="User:ops", reason="INC-123",
)  # fmt: skip
_NOTE = make_grant_note(_GRANT)
_OTHER = make_note(Note("other", {"a": "1"}))
_DAMAGED = replace(_NOTE, resource_name="authorizerd-grant?")


def test_grants_are_sorted_and_unreadable_notes_are_named() -> None:
    later = replace(_GRANT, end_ms=_GRANT.end_ms + 1)
    found = read_grants([make_grant_note(later), _READ, _DAMAGED, _NOTE, _OTHER])
    assert found.grants == (_GRANT, later)
    [fault] = found.faults
    assert "cannot be read" in fault
    assert str(_DAMAGED) in fault


def test_the_ends_of_some_acls_are_found() -> None:
    grants = [
        replace(_GRANT, acl=each, id=str(number))
        for number, each in enumerate(
            [
                _READ, acl("User:alice", "READ", topic="my orders"), acl("User:alice", topic="s"),
                acl("User:alice", "READ", topic="orders", host="10.0.0.1"),
                acl("User:alice", "READ", topic="orders", pattern="PREFIXED"),
            ]
        )
    ]  # fmt: skip
    later = replace(_GRANT, end_ms=_GRANT.end_ms + 1, acl_id=b"i" * 16)
    waiting = replace(_GRANT, end_ms=_GRANT.end_ms + 2, is_waiting=True)
    notes = map(make_grant_note, [later, waiting, *grants])
    snapshot = snapshot_of(_READ, _OTHER, _DAMAGED, *notes)
    long = acl("User:alice", topic="x" * NAME_BYTES_MAX)
    assert find_ends(snapshot, [_READ, acl("User:bob", topic="orders"), long]) == {_READ: later}
    for grant in grants[1:]:
        assert find_ends(snapshot, [grant.acl]) == {grant.acl: grant}
    assert find_ends(snapshot, []) == {}


def test_notes_of_grants_are_joined_to_their_acls() -> None:
    alone = make_grant_note(replace(_GRANT, acl=acl("User:bob", "READ", topic="orders")))
    later = make_grant_note(replace(_GRANT, end_ms=_GRANT.end_ms + 1))
    other = acl("User:carol", "READ", topic="orders")
    joined = join_notes([_OTHER, alone, later, _READ, other, _NOTE, _DAMAGED])
    assert joined == [(_OTHER,), (alone,), (_READ, later, _NOTE), (other,), (_DAMAGED,)]


@pytest.mark.parametrize(
    ("now_ms", "waits", "state"),
    [
        (_GRANT.begin_ms - 1, True, State.WAITING),
        (_GRANT.begin_ms, True, State.OVERDUE),
        (_GRANT.end_ms - 1, False, State.ACTIVE),
        (_GRANT.end_ms, False, State.OVERDUE),
    ],
)
def test_the_state_of_a_grant(now_ms: int, waits: bool, state: State) -> None:
    assert find_state(replace(_GRANT, is_waiting=waits), now_ms) is state


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (
            _NOTE,
            "note: grant of READ on topic literal `orders` to User:alice until "
            "2001-09-09 01:47:40 UTC, by User:ops: INC-123",
        ),
        (
            make_grant_note(
                replace(
                    _GRANT, is_waiting=True, reason="",
                    acl=acl("User:alice", "READ", topic="o", host="10.0.0.1", deny=True),
                )
            ),
            "note: grant of DENY READ on topic literal `o` to User:alice at 10.0.0.1 from "
            "2001-09-09 01:46:40 UTC until 2001-09-09 01:47:40 UTC, by User:ops",
        ),
        (_OTHER, "note of the kind other"),
        (_DAMAGED, f"note that cannot be read: {_DAMAGED}"),
    ],
)  # fmt: skip
def test_the_words_for_a_note(note: Acl, text: str) -> None:
    assert describe_note(note) == show_acl(note) == text


def test_another_acl_is_shown_as_it_is() -> None:
    assert show_acl(_READ) == str(_READ)


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (1_000_000_000_999, "2001-09-09 01:46:40 UTC"),
        (1_000_000_020_000, "2001-09-09 01:47 UTC"),
        (10**18, f"{10**18} ms since 1970"),
    ],
)
def test_times(time_ms: int, text: str) -> None:
    assert format_utc(time_ms) == text
