"""The query process's state equals that of the daemon's applier."""

from __future__ import annotations

from collections.abc import Iterable

from authorizerd.acl.model import ChangeBatch
from authorizerd.acl.release_in_force import ReleaseInForce
from authorizerd.acl.releases import RULES_4_3, RULES_4_4
from authorizerd.acl.snapshot import AclSnapshot, apply_changes, at_offset, with_rules
from authorizerd.daemon.queries.replica import STATES_KEPT_MAX, Replica
from authorizerd.image.changes import FeatureLevel, TopicAdded
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.image.features import METADATA_VERSION_FEATURE
from authorizerd.protocol.worker_changes import (
    encode_changes,
    encode_state,
)
from authorizerd.protocol.worker_feed import (
    Loaded,
    TakeChanges,
    order_reader,
)
from tests.support.acls import acl, snapshot_of
from tests.support.log_files import added, removed

TOPIC = TopicAdded("t", bytes(16))


def judge(image: ClusterImage) -> ReleaseInForce:
    level = image.features.get(METADATA_VERSION_FEATURE, 0)
    return ReleaseInForce(RULES_4_4 if level else RULES_4_3, "a test")


def feed(replica: Replica, frames: Iterable[bytes]) -> None:
    reader = order_reader()
    for data in frames:
        reader.receive_data(data)
        while (order := reader.next_message()) is not None:
            if isinstance(order, TakeChanges):
                replica.take_changes(order)
            else:
                assert isinstance(order, Loaded)
                replica.finish_load(order.offset)


def loaded() -> tuple[Replica, AclSnapshot]:
    snapshot = with_rules(snapshot_of(acl("User:a", topic="t"), offset=3), RULES_4_3)
    image = apply_cluster_changes(EMPTY_IMAGE, (TOPIC,))
    replica = Replica(judge)
    assert replica.offset == -1
    feed(replica, encode_state(1, lambda: (snapshot, image), lambda _: None))
    return replica, snapshot


def test_state_is_that_of_the_daemon() -> None:
    replica, snapshot = loaded()
    assert replica.find(3).snapshot == snapshot
    assert list(replica.find(3).image.topics) == ["t"]


def test_later_changes_are_applied_and_judged_by_the_release_that_they_prove() -> None:
    replica, snapshot = loaded()
    feed(replica, encode_changes(2, ChangeBatch(5, (added(11), added(12)))))
    level = FeatureLevel(METADATA_VERSION_FEATURE, 33)
    feed(replica, encode_changes(3, ChangeBatch(6, (removed(11),), True, (level,))))
    expected = with_rules(apply_changes(snapshot, (added(12),)), RULES_4_4)
    assert replica.find(6).snapshot == at_offset(expected, 6)
    assert replica.find(5).snapshot.rules == RULES_4_3


def test_unfinished_batch_is_not_shown() -> None:
    replica, snapshot = loaded()
    feed(replica, encode_changes(2, ChangeBatch(5, (added(11),), is_end=False)))
    assert replica.find(5).snapshot == snapshot
    feed(replica, encode_changes(3, ChangeBatch(6, (added(12),))))
    assert replica.offset == 6
    assert len(replica.find(6).snapshot.acls) == 3


def test_states_of_a_while_ago_are_not_kept() -> None:
    """A question is then answered by the newest."""
    replica, _ = loaded()
    for number in range(STATES_KEPT_MAX):
        assert replica.find(3 + number).snapshot.offset == 3 + number
        feed(replica, encode_changes(2, ChangeBatch(4 + number, ())))
    assert replica.find(3).snapshot.offset == replica.offset
