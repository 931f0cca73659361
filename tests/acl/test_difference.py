"""Differences: applying them gives the wanted ACLs, and nothing else is changed."""

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.difference import plan_differences
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Acl, AclAdded, AclRemoved
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes
from authorizerd.acl.steps import finish
from tests.support.acls import acl, snapshot_of
from tests.support.strategies import acls

ONE, TWO = b"1" * 16, b"2" * 16
READ, WRITE = acl("User:a", "READ"), acl("User:a", "WRITE")


@st.composite
def states(draw: st.DrawFn) -> dict[bytes, Acl]:
    """Return ACLs by few ids, so that two states share ids and bindings."""
    bindings = draw(st.lists(acls(unknown_codes=True), max_size=6, unique=True))
    ids = draw(st.permutations([bytes([number]) * 16 for number in range(8)]))
    return dict(zip(ids, bindings, strict=False))


def snapshot(state: dict[bytes, Acl]) -> AclSnapshot:
    return build([AclAdded(*item) for item in state.items()], 7)


@given(states(), states())
def test_differences_give_exactly_the_wanted_acls(
    held: dict[bytes, Acl], wanted: dict[bytes, Acl]
) -> None:
    """The result has the wanted ids and index, and unchanged ACLs are not touched."""
    before = snapshot(held)
    changes = finish(plan_differences(before, wanted))
    assert apply_changes(before, changes) == snapshot(wanted)
    assert len({change.id for change in changes if isinstance(change, AclAdded)}) == len(
        [each for key, each in wanted.items() if held.get(key) != each]
    )
    assert len([change for change in changes if isinstance(change, AclRemoved)]) == len(
        [each for key, each in held.items() if wanted.get(key) != each]
    )


@given(states())
def test_equal_states_have_no_differences(state: dict[bytes, Acl]) -> None:
    """Codes of later Kafka versions are compared as well."""
    assert finish(plan_differences(snapshot(state), state)) == []


def test_removals_come_first() -> None:
    """A binding moves to another id, and an id to another binding."""
    before = snapshot({ONE: READ})
    assert finish(plan_differences(before, {TWO: READ})) == [AclRemoved(ONE), AclAdded(TWO, READ)]
    assert finish(plan_differences(before, {ONE: WRITE})) == [AclRemoved(ONE), AclAdded(ONE, WRITE)]


def test_differences_of_many_acls_are_planned_in_steps() -> None:
    """Both the ACLs in force and the wanted ones are compared in steps."""
    many = snapshot_of(*(acl(topic=f"t{number}") for number in range(5_000)))
    for before, wanted in ((many, {}), (EMPTY_SNAPSHOT, dict(many.acls)), (many, dict(many.acls))):
        assert len(list(plan_differences(before, wanted))) >= 19
