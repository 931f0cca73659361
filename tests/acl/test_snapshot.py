"""The snapshot: two roads to one state, nothing shared that could change, nothing left behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.builder import SnapshotBuilder, build
from authorizerd.acl.decision import AuthorizerSettings, explain
from authorizerd.acl.errors import DuplicateAclError, DuplicateIdError, UnknownIdError
from authorizerd.acl.model import (
    Acl,
    AclAdded,
    AclRemoved,
    Change,
    ChangeBatch,
    Operation,
    PatternType,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.acl.patterns import NO_PATTERNS
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, EMPTY_TYPE, AclSnapshot, apply, apply_changes
from authorizerd.image.errors import ChangeError
from tests.acl.questions import questions
from tests.support.strategies import acls, logs

ONE, TWO = b"1" * 16, b"2" * 16
ALLOW_READ = Acl(
    ResourceType.TOPIC,
    "t",
    PatternType.LITERAL,
    "User:a",
    "*",
    Operation.READ,
    PermissionType.ALLOW,
)


def remaining(log: list[ChangeBatch]) -> list[AclAdded]:
    """Return the ACLs that result from every change of a log."""
    live: dict[bytes, AclAdded] = {}
    for batch in log:
        for change in batch.changes:
            if isinstance(change, AclAdded):
                live[change.id] = change
            else:
                del live[change.id]
    return list(live.values())


def applied(log: list[ChangeBatch]) -> AclSnapshot:
    snapshot = EMPTY_SNAPSHOT
    for batch in log:
        snapshot = apply(snapshot, batch)
    return snapshot


def built(log: list[ChangeBatch]) -> AclSnapshot:
    builder = SnapshotBuilder()
    for batch in log:
        builder.apply_changes(batch.changes)
    return builder.freeze(log[-1].last_offset if log else -1)


@given(logs(unknown_codes=True))
def test_single_updates_and_the_bulk_load_reach_one_state(log: list[ChangeBatch]) -> None:
    """Index, counts, lengths and list of odd ones are equal, part by part."""
    assert applied(log) == built(log)


@given(logs(unknown_codes=True))
def test_what_remains_is_all_that_shows(log: list[ChangeBatch]) -> None:
    """After creations and removals nothing differs from a bulk load of what is left."""
    snapshot = applied(log)
    assert snapshot == build(remaining(log), snapshot.offset)
    assert len(snapshot.acls) == len(remaining(log))


@given(logs(unknown_codes=True), questions(), st.booleans())
def test_decisions_and_rules_after_removals_are_those_of_what_remains(
    log: list[ChangeBatch], question: Question, allow_everyone: bool
) -> None:
    """No removed ACL is ever named, none that is left is missed."""
    settings = AuthorizerSettings(allow_everyone_if_no_acl_found=allow_everyone)
    left = build(remaining(log))
    assert explain(applied(log), settings, question) == explain(left, settings, question)


@given(logs(unknown_codes=True))
def test_removing_everything_leaves_nothing(log: list[ChangeBatch]) -> None:
    """No empty map, count or length stays behind."""
    snapshot = applied(log)
    emptied = apply_changes(snapshot, map(AclRemoved, snapshot.acls))
    assert emptied.types == EMPTY_SNAPSHOT.types
    assert emptied.types[ResourceType.TOPIC] == EMPTY_TYPE
    assert not emptied.unindexed
    assert not emptied.acls


@given(logs(unknown_codes=True), logs(unknown_codes=True))
def test_a_snapshot_never_changes(first: list[ChangeBatch], later: list[ChangeBatch]) -> None:
    """A held snapshot stays the same, whatever is applied afterwards."""
    before, same = applied(first), applied(first)
    shifted = [
        change
        for batch in later
        for change in batch.changes
        if isinstance(change, AclAdded) and change.acl not in set(before.acls.values())
    ]
    unique = {change.acl: AclAdded(b"x" + change.id[1:], change.acl) for change in shifted}
    apply_changes(before, unique.values())
    apply_changes(before, map(AclRemoved, before.acls))
    assert before == same


@pytest.mark.parametrize("acl", [ALLOW_READ, Acl(99, "t", 77, "User:a", "*", 55, 44)])
def test_a_repeated_id_is_refused_by_both_roads(acl: Acl) -> None:
    """Two ACLs never share an id, odd or not."""
    assert refused([AclAdded(ONE, acl), AclAdded(ONE, ALLOW_READ)]) == DuplicateIdError


@given(acls(unknown_codes=True))
def test_a_repeated_binding_is_refused_by_both_roads(acl: Acl) -> None:
    """The index cannot count one binding twice, so a second id for it does not fit."""
    assert refused([AclAdded(ONE, acl), AclAdded(TWO, acl)]) == DuplicateAclError


def test_an_unknown_id_is_refused_by_both_roads() -> None:
    """Only what is there can be removed, and only once."""
    assert refused([AclRemoved(ONE)]) == UnknownIdError
    added = AclAdded(ONE, ALLOW_READ)
    assert refused([added, AclRemoved(ONE), AclRemoved(ONE)]) == UnknownIdError


def refused(changes: list[Change]) -> type[ChangeError]:
    with pytest.raises(ChangeError) as one_by_one:
        apply_changes(EMPTY_SNAPSHOT, changes)
    with pytest.raises(ChangeError) as in_bulk:
        SnapshotBuilder().apply_changes(changes)
    assert type(one_by_one.value) is type(in_bulk.value)
    assert str(one_by_one.value) == str(in_bulk.value)
    return type(one_by_one.value)


def test_a_removed_binding_may_come_back() -> None:
    """Removal leaves no trace that would refuse it."""
    log: list[Change] = [AclAdded(ONE, ALLOW_READ), AclRemoved(ONE), AclAdded(TWO, ALLOW_READ)]
    assert dict(apply_changes(EMPTY_SNAPSHOT, log).acls) == {TWO: ALLOW_READ}


def test_batches_are_applied_in_log_order_only() -> None:
    """An offset that does not rise is a fault of the caller."""
    snapshot = apply(EMPTY_SNAPSHOT, ChangeBatch(5))
    with pytest.raises(AssertionError):
        apply(snapshot, ChangeBatch(5))


def test_an_update_copies_a_path_and_no_map() -> None:
    """Parts that a change does not touch stay the same objects, so the work is bounded."""
    others = [
        AclAdded(
            bytes([n]) * 16,
            Acl(
                ResourceType.GROUP,
                f"g{n}",
                PatternType.PREFIXED,
                f"User:{n}",
                "*",
                Operation.READ,
                PermissionType.ALLOW,
            ),
        )
        for n in range(50)
    ]
    before = build(others)
    after = apply(before, ChangeBatch(1, (AclAdded(b"x" * 16, ALLOW_READ),)))
    assert after.types[ResourceType.GROUP] is before.types[ResourceType.GROUP]
    assert after.types[ResourceType.TOPIC].everyone is before.types[ResourceType.TOPIC].everyone
    assert after.types[ResourceType.TOPIC].resources is not NO_PATTERNS


def test_a_builder_works_in_steps() -> None:
    """Freezing many principals, or many hosts of one, yields in between."""

    def read_on(principal: str, host: str, n: int) -> AclAdded:
        return AclAdded(
            n.to_bytes(16, "big"),
            Acl(
                ResourceType.TOPIC,
                "t",
                PatternType.LITERAL,
                principal,
                host,
                Operation.READ,
                PermissionType.ALLOW,
            ),
        )

    for changes in (
        [read_on(f"User:{n}", "*", n) for n in range(1000)],
        [read_on("User:a", f"10.0.{n >> 8}.{n & 255}", n) for n in range(1000)],
        [read_on("User:*", f"10.0.{n >> 8}.{n & 255}", n) for n in range(1000)],
    ):
        builder = SnapshotBuilder()
        builder.apply_changes(changes)
        assert len(list(builder.freeze_in_steps(0))) > 10
