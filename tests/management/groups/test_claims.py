"""Claims in notes: the same claims give the same notes, and a damaged note is an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl
from authorizerd.acl.notes import Note, make_note
from authorizerd.management.groups.claims import (
    CLAIMS_PER_NOTE_MAX,
    claim,
    is_made_note,
    read_claims,
    write_claims,
)
from authorizerd.management.plan.errors import PlanError
from tests.support.acls import acl
from tests.support.strategies import acls

MANY = [acl(f"User:{user}", topic=f"t{topic}") for user in range(50) for topic in range(20)]


@given(st.lists(acls(), max_size=5), st.lists(acls(), max_size=5))
def test_written_claims_are_read(some: list[Acl], others: list[Acl]) -> None:
    notes = [*write_claims("a", some), *write_claims("b", others)]
    found = read_claims([*notes, *some])
    assert found.sets == {
        claim(each): tuple(name for name, of in (("a", some), ("b", others)) if each in of)
        for each in (*some, *others)
    }
    assert all(map(is_made_note, notes))
    assert write_claims("a", some[::-1]) == write_claims("a", some)


def test_notes_are_small_and_few_change_with_one_member() -> None:
    notes = set(write_claims("a", MANY))
    sizes = [len(read_claims([note]).sets) for note in notes]
    assert sum(sizes) == len(MANY)
    assert max(sizes) <= CLAIMS_PER_NOTE_MAX
    assert len(notes) < 2.5 * len(MANY) / CLAIMS_PER_NOTE_MAX
    fewer = set(write_claims("a", [each for each in MANY if each.principal != "User:7"]))
    assert len(notes - fewer) <= 2
    assert max(len(note.resource_name) for note in notes) < 1_200


def test_claims_of_one_principal_are_split() -> None:
    notes = write_claims("a", [acl(topic=f"t{number}") for number in range(1_000)])
    assert len(read_claims(notes).sets) == 1_000


GOOD = write_claims("a", MANY[:2])[0]
TEXT = GOOD.resource_name.partition("acls=")[2]


@pytest.mark.parametrize("fields", [
    {"set": "a"}, {"acls": TEXT}, {"set": "a", "acls": TEXT[:-1]}, {"set": "a", "acls": ""},
    {"set": "a b", "acls": TEXT}, {"acls": TEXT, "set": "a"}, {"set": "a", "acls": TEXT, "x": ""},
    {"set": "a", "acls": TEXT[16:] + TEXT[:16]}, {"set": "a", "acls": TEXT + TEXT},
])  # fmt: skip
def test_unreadable_note_is_an_error(fields: dict[str, str]) -> None:
    with pytest.raises(PlanError, match="it is unknown which ACLs are theirs"):
        read_claims([GOOD, make_note(Note("made", fields))])


def test_other_notes_are_ignored() -> None:
    assert not read_claims([make_note(Note("grant", {"id": "1"}))]).sets
