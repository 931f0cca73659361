"""Grants and their notes: what is written is read, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.acl.grants.model import Grant, make_grant_note, read_grant_note
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.acl.notes import NAME_BYTES_MAX, Note, NoteError, is_note, list_notes, make_note
from authorizerd.acl.text.named_acl import NamedAcl, parse_acl
from authorizerd.acl.validation import find_creation_fault

_READ = parse_acl(NamedAcl("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW"))
_GRANT = Grant(
    id="a1", acl=_READ, begin_ms=1_000_000_000_000, end_ms=1_000_000_060_000,
    author="User:ops", reason="INC-123",
)  # fmt: skip
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    id=_texts, name=_texts.filter(bool), principal=_texts, author=_texts, reason=_texts,
    acl_id=st.none() | st.binary(min_size=16, max_size=16), is_waiting=st.booleans(),
)  # fmt: skip
def test_a_note_gives_back_its_grant(
    id: str, name: str, principal: str, author: str, reason: str, acl_id: bytes | None,
    is_waiting: bool,
) -> None:  # fmt: skip
    acl = replace(_READ, resource_name=name, principal=f"User:{principal}")
    grant = replace(
        _GRANT, id=id, acl=acl, author=author, reason=reason, acl_id=acl_id, is_waiting=is_waiting
    )
    note = make_grant_note(grant)
    assert is_note(note)
    assert find_creation_fault(note) is None
    assert note.resource_name.isascii()
    assert not set(note.resource_name) & set(" ,'\"`()")
    assert read_grant_note(note) == grant


def _altered(**fields: str) -> Acl:
    note = make_grant_note(_GRANT)
    name = note.resource_name
    for key, value in fields.items():
        name = f"{name}&{key}={value}" if key not in name else _set(name, key, value)
    return replace(note, resource_name=name)


def _set(name: str, key: str, value: str) -> str:
    pairs = [
        f"{key}={value}" if pair.startswith(f"{key}=") else pair
        for pair in name.removeprefix("authorizerd-grant?").split("&")
    ]
    return f"authorizerd-grant?{'&'.join(pairs)}"


@pytest.mark.parametrize(
    "note",
    [
        _altered(later="1"),
        _altered(end="tomorrow"),
        _altered(end="2806"),
        _altered(end="2026-12-01T10:00:00Z"),
        _altered(state="ended"),
        _altered(operation="READER"),
        _altered(resource_name=""),
        _altered(acl_id="zz"),
        _altered(principal="alice"),
        _altered(principal="Authorizerd%3Anote"),
        replace(make_grant_note(_GRANT), host="10.0.0.1"),
        replace(make_grant_note(_GRANT), resource_name="authorizerd-grant"),
        replace(make_grant_note(_GRANT), resource_name="anything"),
        replace(make_grant_note(_GRANT), resource_name="authorizerd-grant?id=1&id=2"),
        replace(make_grant_note(_GRANT), resource_name="authorizerd-grant?id=%FF"),
    ],
    ids=lambda note: note.resource_name[-40:],
)
def test_a_note_that_is_not_understood_is_an_error(note: Acl) -> None:
    with pytest.raises(NoteError, match="cannot be read"):
        read_grant_note(note)


def test_a_note_of_another_kind_is_no_grant() -> None:
    assert read_grant_note(make_note(Note("other", {"a": "1"}))) is None


def test_a_note_is_no_longer_than_kafka_accepts() -> None:
    with pytest.raises(NoteError, match="32767"):
        make_grant_note(replace(_GRANT, reason="x" * NAME_BYTES_MAX))


def test_every_note_that_is_read_has_room_for_the_id_of_its_acl() -> None:
    """Otherwise, to add the id would fail, and end the keeper of all grants."""
    length = len(make_grant_note(_GRANT).resource_name) + 32
    longest = replace(_GRANT, reason=_GRANT.reason + "x" * (NAME_BYTES_MAX - length))
    note = make_grant_note(longest)
    assert len(make_grant_note(replace(longest, acl_id=b"i" * 16)).resource_name) == NAME_BYTES_MAX
    with pytest.raises(NoteError, match="cannot be read"):
        read_grant_note(_with_longer_reason(note))


def _with_longer_reason(note: Acl) -> Acl:
    return replace(note, resource_name=note.resource_name.replace("&state=", "x&state=", 1))


@given(count=st.integers(0, 20))
def test_the_notes_of_a_snapshot_are_found(count: int) -> None:
    notes = [make_grant_note(replace(_GRANT, id=str(number))) for number in range(count)]
    added = [AclAdded(bytes([number]) * 16, acl) for number, acl in enumerate([_READ, *notes])]
    assert sorted(map(str, list_notes(build(added, 0)))) == sorted(map(str, notes))
