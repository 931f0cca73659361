"""The snapshot: single updates and the bulk load agree, and nothing that is shared changes."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import decode, encode

from authorizerd.acl.decision import AuthorizerSettings, explain
from authorizerd.acl.errors import DuplicateAclError, DuplicateIdError, UnknownIdError
from authorizerd.acl.index.builder import SnapshotBuilder, build
from authorizerd.acl.index.tables import SMALL_MAX
from authorizerd.acl.model import (
    Acl,
    AclAdded,
    AclRemoved,
    Change,
    ChangeBatch,
    Question,
    ResourceType,
)
from authorizerd.acl.patterns import NO_PATTERNS
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, EMPTY_TYPE, AclSnapshot, apply_changes
from authorizerd.acl.state_version import combine_ids
from authorizerd.image.errors import ChangeError
from tests.acl.questions import questions
from tests.support.acls import acl, snapshot_after, snapshot_of
from tests.support.strategies import acls, crowd, logs

ONE, TWO = b"1" * 16, b"2" * 16
ALLOW_READ = acl("User:a", "READ", topic="t")


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


def built(log: list[ChangeBatch]) -> AclSnapshot:
    builder = SnapshotBuilder()
    for batch in log:
        builder.apply_changes(batch.changes)
    return builder.freeze(log[-1].last_offset if log else -1)


@given(logs(unknown_codes=True))
def test_single_updates_and_the_bulk_load_reach_one_state(log: list[ChangeBatch]) -> None:
    """Index, counts, lengths and unindexed ACLs are equal."""
    assert snapshot_after(log) == built(log)


@given(st.sets(acls(), max_size=8), st.randoms(), st.sampled_from((1, 5, 10_000)))
def test_large_tables_become_the_same_change_by_change(
    held: set[Acl], random: Random, together: int
) -> None:
    """The tables grow from dicts to maps and shrink again, and are those of a bulk load.

    How many changes are applied together makes no difference.
    """
    order = [*held.union(crowd())]
    random.shuffle(order)
    added = [AclAdded(n.to_bytes(16, "big"), each) for n, each in enumerate(order)]

    def apply(snapshot: AclSnapshot, changes: Sequence[Change]) -> AclSnapshot:
        for start in range(0, len(changes), together):
            snapshot = apply_changes(snapshot, changes[start : start + together])
        return snapshot

    snapshot = apply(EMPTY_SNAPSHOT, added)
    assert snapshot == build(added, -1)
    for left in (len(added) // 2, len(added) // 4, 5, 0):
        snapshot = apply(snapshot, [AclRemoved(each.id) for each in added[left:]])
        del added[left:]
        assert snapshot == build(added, -1)
        assert snapshot == removed_in_bulk(order, left)


def test_last_characters_of_many_prefixes_become_the_same_change_by_change() -> None:
    """One more prefix than fits into a dict, and each ends with another character."""
    added = [
        AclAdded(
            number.to_bytes(16, "big"),
            acl("User:a", "READ", topic=chr(65 + number), pattern="PREFIXED"),
        )
        for number in range(SMALL_MAX + 1)
    ]
    assert apply_changes(EMPTY_SNAPSHOT, added) == build(added, -1)


def removed_in_bulk(order: list[Acl], left: int) -> AclSnapshot:
    """Return the state of a builder that has added all of ``order`` and removed the rest."""
    builder = SnapshotBuilder()
    builder.apply_changes(AclAdded(n.to_bytes(16, "big"), each) for n, each in enumerate(order))
    builder.apply_changes(AclRemoved(n.to_bytes(16, "big")) for n in range(left, len(order)))
    return builder.freeze(-1)


@given(logs(unknown_codes=True))
def test_a_snapshot_contains_only_the_remaining_acls(log: list[ChangeBatch]) -> None:
    """After creations and removals, it equals a bulk load of the remaining ACLs."""
    snapshot = snapshot_after(log)
    assert snapshot == build(remaining(log), snapshot.offset)
    assert snapshot.version == combine_ids(snapshot.acls)
    assert len(snapshot.acls) == len(remaining(log))


@given(logs(unknown_codes=True), questions(), st.booleans())
def test_decisions_after_removals_follow_the_remaining_acls(
    log: list[ChangeBatch], question: Question, allow_everyone: bool
) -> None:
    """A decision never names a removed ACL, and misses no remaining one."""
    settings = AuthorizerSettings(allow_everyone_if_no_acl_found=allow_everyone)
    left = build(remaining(log))
    assert explain(snapshot_after(log), settings, question) == explain(left, settings, question)


@given(logs(unknown_codes=True))
def test_removing_everything_leaves_nothing(log: list[ChangeBatch]) -> None:
    """No empty map, count or length remains."""
    snapshot = snapshot_after(log)
    emptied = apply_changes(snapshot, map(AclRemoved, snapshot.acls))
    assert emptied.types == EMPTY_SNAPSHOT.types
    assert emptied.types[ResourceType.TOPIC] == EMPTY_TYPE
    assert not emptied.unindexed
    assert not emptied.acls


@given(logs(unknown_codes=True), logs(unknown_codes=True))
def test_a_snapshot_never_changes(first: list[ChangeBatch], later: list[ChangeBatch]) -> None:
    """Applying changes does not modify the earlier snapshot."""
    before, same = snapshot_after(first), snapshot_after(first)
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


@pytest.mark.parametrize("first", [ALLOW_READ, Acl(99, "t", 77, "User:a", "*", 55, 44)])
def test_a_repeated_id_is_refused_on_both_paths(first: Acl) -> None:
    """This includes the id of an unindexed ACL."""
    assert refused([AclAdded(ONE, first), AclAdded(ONE, ALLOW_READ)]) == DuplicateIdError


@given(acls(unknown_codes=True))
def test_a_repeated_binding_is_refused_on_both_paths(binding: Acl) -> None:
    """The index cannot count one binding twice, so a second id for it is refused."""
    assert refused([AclAdded(ONE, binding), AclAdded(TWO, binding)]) == DuplicateAclError


def test_an_unknown_id_is_refused_on_both_paths() -> None:
    """An ACL can be removed only while it is present."""
    assert refused([AclRemoved(ONE)]) == UnknownIdError
    assert refused([AclAdded(ONE, ALLOW_READ), AclRemoved(ONE), AclRemoved(ONE)]) == UnknownIdError


def refused(changes: list[Change]) -> type[ChangeError]:
    """Return the error that both paths raise for ``changes``, also if a later one does not fit."""
    with pytest.raises(ChangeError) as in_bulk:
        SnapshotBuilder().apply_changes(changes)
    with pytest.raises(ChangeError) as together:
        apply_changes(EMPTY_SNAPSHOT, [*changes, AclAdded(ONE, ALLOW_READ)])
    before = apply_changes(EMPTY_SNAPSHOT, changes[:-1])
    with pytest.raises(ChangeError) as one_by_one:
        apply_changes(before, changes[-1:])
    for error in (together.value, one_by_one.value):
        assert type(error) is type(in_bulk.value)
        assert str(error) == str(in_bulk.value)
    return type(in_bulk.value)


def test_a_removed_binding_can_be_added_again() -> None:
    log: list[Change] = [AclAdded(ONE, ALLOW_READ), AclRemoved(ONE), AclAdded(TWO, ALLOW_READ)]
    assert dict(apply_changes(EMPTY_SNAPSHOT, log).acls) == {TWO: ALLOW_READ}


def test_an_update_copies_a_path_and_no_map() -> None:
    """Parts that a change does not touch stay the same objects, so the work is bounded."""
    before = snapshot_of(*(acl(f"User:{n}", group=f"g{n}", pattern="PREFIXED") for n in range(50)))
    after = apply_changes(before, [AclAdded(b"x" * 16, ALLOW_READ)])
    topic = ResourceType.TOPIC
    assert after.types[ResourceType.GROUP] is before.types[ResourceType.GROUP]
    assert after.types[topic].everyone is before.types[topic].everyone
    assert after.types[topic].resources is not NO_PATTERNS


def test_loaded_acls_share_one_copy_of_each_name_and_principal() -> None:
    """A reader makes new texts for each ACL, which would take a quarter of the memory."""
    texts = [("".join(("User:", "a")), "".join(("t", "1"))) for _ in range(3)]
    loaded = snapshot_of(
        *(
            acl(who, code, topic=name)
            for (who, name), code in zip(texts, ("READ", "WRITE", "ALTER"), strict=True)
        )
    ).acls.values()
    assert len({id(text) for pair in texts for text in pair}) == 6
    assert len({id(each.resource_name) for each in loaded}) == 1
    assert len({id(each.principal) for each in loaded}) == 1


@pytest.mark.parametrize(
    ("principal", "host"), [("User:{0}", "*"), ("User:a", "10.0.{0}"), ("User:*", "10.0.{0}")]
)
def test_a_builder_works_in_steps(principal: str, host: str) -> None:
    """Freezing many principals, or many hosts of one, yields in between."""
    builder = SnapshotBuilder()
    builder.apply_changes(
        AclAdded(n.to_bytes(16, "big"), acl(principal.format(n), host=host.format(n)))
        for n in range(1000)
    )
    assert len(list(builder.freeze_in_steps(0))) > 10


def test_builder_of_many_hosts_builds_the_same_state() -> None:
    added = [
        AclAdded(
            n.to_bytes(16, "big"),
            acl("User:*", topic=f"t{n // 60}", host=f"10.0.0.{n % 60}", deny=n % 2 == 0),
        )
        for n in range(180)
    ]
    removed = [AclRemoved(each.id) for each in added[50:]]
    assert build(added, -1) == apply_changes(EMPTY_SNAPSHOT, added)
    builder = SnapshotBuilder()
    builder.apply_changes([*added, *removed])
    assert builder.freeze(-1) == apply_changes(EMPTY_SNAPSHOT, added[:50])


@pytest.mark.parametrize("host", ["*", "10.0.0.1", "10.0.0.0/8"])
@pytest.mark.parametrize("deny", [False, True])
def test_loaded_acls_share_their_texts(host: str, deny: bool) -> None:
    """Otherwise a state would take almost twice the memory."""
    stored = [
        encode(acl("User:a", operation, topic="topic-1", host=host, deny=deny))
        for operation in ("READ", "WRITE", "DESCRIBE")
    ]
    # Each decoded ACL has new texts.
    added = [AclAdded(bytes([n]) * 16, decode(data, type=Acl)) for n, data in enumerate(stored)]
    loaded = build(added).acls.values()
    assert len({id(each.resource_name) for each in loaded}) == 1
    assert len({id(each.principal) for each in loaded}) == 1
    assert len({id(each.host) for each in loaded}) == 1
