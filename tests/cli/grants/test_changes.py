"""What ``acls grant`` changes for one ACL, and what it refuses."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.cli.grants.changes import (
    LATE_MS,
    Change,
    GrantRequest,
    Listed,
    RefusedError,
    find_change,
    find_new,
    is_reached,
)
from tests.support.acls import acl

_ACL = acl("User:alice", "READ", topic="orders")
_NOW, _END, _LATER = 1_000_000_000_000, 1_000_000_060_000, 1_000_000_090_000
_GRANT = Grant(id="1", acl=_ACL, begin_ms=_NOW, end_ms=_END, author="User:ops", reason="why")
_WAITING = replace(_GRANT, begin_ms=_NOW + 1, is_waiting=True)
_OTHER = replace(_GRANT, id="2", end_ms=_LATER)
_LONGER = replace(_GRANT, end_ms=_LATER, author="User:eve")
_note = make_grant_note


def _refuse(text: str) -> None:
    raise AssertionError(text)


_EXTEND = GrantRequest(refuse=_refuse, action="extend", end_ms=_LATER)  # type: ignore[arg-type]
_PERMANENT = replace(_EXTEND, action="permanent", end_ms=None)
_REVOKE = replace(_PERMANENT, action="revoke")


@pytest.mark.parametrize(
    ("listed", "new", "expected"),
    [
        (Listed([], False), _GRANT, Change(_GRANT, (_ACL, _note(_GRANT)))),
        (Listed([], False), _WAITING, Change(_WAITING, (_note(_WAITING),))),
        # An earlier attempt made it, or a note of a deleted ACL was left.
        (Listed([_GRANT], False), _GRANT, Change(_GRANT, (_ACL, _note(_GRANT)))),
        (Listed([], True), _GRANT, "exists without an end"),
        (Listed([], True), _WAITING, "exists without an end"),
        (Listed([_OTHER], True), _GRANT, "use --extend for a later end: it is granted until "),
        # A note whose ACL was deleted goes first.
        (Listed([_OTHER], False), _GRANT, Change(_GRANT, (), (_note(_OTHER),), is_last=False)),
        (Listed([replace(_WAITING, id="2")], False), _GRANT, "granted and waiting until"),
    ],
)
def test_new_grants(listed: Listed, new: Grant, expected: Change | str) -> None:
    if isinstance(expected, Change):
        assert find_new(listed, new) == expected
    else:
        with pytest.raises(RefusedError, match=expected):
            find_new(listed, new)


@pytest.mark.parametrize(
    ("listed", "request_", "expected"),
    [
        (
            Listed([_GRANT], True), _EXTEND,
            Change(_LONGER, (_note(_LONGER),), (_note(_GRANT),)),
        ),
        (Listed([_OTHER], True), _EXTEND, "expected a later end: it is granted until "),
        # An earlier attempt made the note.
        (
            Listed([_GRANT, _LONGER], True), _EXTEND,
            Change(_LONGER, (_note(_LONGER),), (_note(_GRANT),)),
        ),
        (Listed([], True), _EXTEND, "exists without an end"),
        (Listed([], False), _EXTEND, "not granted"),
        (Listed([_GRANT], False), _EXTEND, "not granted"),
        (
            Listed([_GRANT], True), _PERMANENT,
            Change(_GRANT, (), (_note(_GRANT),), is_last=False),
        ),
        (
            Listed([_GRANT, _OTHER], True), _PERMANENT,
            Change(_OTHER, (), (_note(_GRANT), _note(_OTHER)), is_last=False),
        ),
        (Listed([_WAITING], False), _PERMANENT, "has not begun"),
        (Listed([_GRANT], True), _REVOKE, Change(_GRANT, (), (_ACL, _note(_GRANT)))),
        (Listed([_WAITING], False), _REVOKE, Change(_WAITING, (), (_note(_WAITING),))),
        # This ACL is not the waiting grant's.
        (Listed([_WAITING], True), _REVOKE, Change(_WAITING, (), (_note(_WAITING),))),
        (Listed([], True), _REVOKE, "exists without an end"),
    ],
)  # fmt: skip
def test_changes_of_grants(listed: Listed, request_: GrantRequest, expected: Change | str) -> None:
    if isinstance(expected, Change):
        assert find_change(listed, request_, "User:eve", _NOW) == expected
    else:
        with pytest.raises(RefusedError, match=expected):
            find_change(listed, request_, "User:eve", _NOW)


@pytest.mark.parametrize("request_", [_EXTEND, _PERMANENT])
def test_nothing_is_kept_shortly_before_its_end(request_: GrantRequest) -> None:
    listed = Listed([_GRANT], True)
    find_change(listed, request_, "", _END - LATE_MS)
    with pytest.raises(RefusedError, match="may be deleted at any moment"):
        find_change(listed, request_, "", _END - LATE_MS + 1)
    find_change(listed, _REVOKE, "", _END + 1)


def test_an_extension_keeps_the_reason_unless_it_has_its_own() -> None:
    request = replace(_EXTEND, reason="more")
    assert find_change(Listed([_GRANT], True), request, "", _NOW).grant.reason == "more"


@pytest.mark.parametrize(
    ("request_", "listed", "expected"),
    [
        (_EXTEND, Listed([replace(_GRANT, acl_id=b"i" * 16)], True), True),
        (_EXTEND, Listed([_GRANT], False), False),
        (_EXTEND, Listed([_GRANT, _LONGER], True), False),
        (_EXTEND, Listed([], True), False),
        (_EXTEND, Listed([_OTHER], True), False),
        (_EXTEND, Listed([_WAITING], False), True),
        (_PERMANENT, Listed([], True), True),
        (_PERMANENT, Listed([_GRANT], True), False),
        (_PERMANENT, Listed([], False), False),
        (_REVOKE, Listed([], False), True),
        (_REVOKE, Listed([], True), False),
        (_REVOKE, Listed([_GRANT], False), False),
    ],
)
def test_what_a_listing_shows(request_: GrantRequest, listed: Listed, expected: bool) -> None:
    assert is_reached(listed, request_, _GRANT) is expected
