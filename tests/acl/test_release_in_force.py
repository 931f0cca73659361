"""By which rules ACLs are judged, and why: a table of what is known of a cluster."""

import pytest

from authorizerd.acl.release_in_force import UNKNOWN_RELEASE, Evidence, judge_release
from authorizerd.acl.releases import (
    ANY_RELEASE,
    NEWEST_LEVEL,
    RULES_4_3,
    RULES_4_4,
    Release,
    ReleaseRules,
    releases_at,
)
from authorizerd.image.changes import (
    UNKNOWN_LEVEL,
    ClusterChange,
    FeatureLevel,
    NodeRegistered,
    NodeUnregistered,
    VotersChanged,
)
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes

QUORUM, BROKERS, OWN_LOG = Evidence.QUORUM, Evidence.BROKERS, Evidence.OWN_LOG


def finalized(level: int) -> FeatureLevel:
    return FeatureLevel("metadata.version", level)


def broker(node_id: int, level: int) -> NodeRegistered:
    return NodeRegistered(False, node_id, level)


def controller(node_id: int, level: int) -> NodeRegistered:
    return NodeRegistered(True, node_id, level)


def voters(*ids: int) -> VotersChanged:
    return VotersChanged(frozenset(ids))


def image_of(*changes: ClusterChange) -> ClusterImage:
    return apply_cluster_changes(EMPTY_IMAGE, changes)


@pytest.mark.parametrize(
    ("level", "releases"),
    [
        (UNKNOWN_LEVEL, {"4.3", "4.4"}),
        (0, {"4.3"}),
        (7, {"4.3"}),
        (30, {"4.3"}),
        (31, {"4.3", "4.4"}),
        (32, {"4.4"}),
        (NEWEST_LEVEL, {"4.4"}),
        (NEWEST_LEVEL + 1, {"4.3", "4.4"}),
        (32767, {"4.3", "4.4"}),
    ],
)
def test_level_belongs_to_releases(level: int, releases: set[str]) -> None:
    assert releases_at(level) == releases


@pytest.mark.parametrize(
    ("evidence", "changes", "rules", "reason"),
    [
        (OWN_LOG, [], ANY_RELEASE, "the log has no metadata.version"),
        (OWN_LOG, [finalized(30)], RULES_4_3, "the log's metadata.version is 30"),
        (OWN_LOG, [finalized(33)], RULES_4_4, "the log's metadata.version is 33"),
        # Only this daemon judges by its own log, even if brokers have registered in it.
        (OWN_LOG, [finalized(30), broker(1, 33)], RULES_4_3, "the log's metadata.version is 30"),
        (BROKERS, [], ANY_RELEASE, UNKNOWN_RELEASE.reason),
        (QUORUM, [finalized(30)], ANY_RELEASE, UNKNOWN_RELEASE.reason),
        (BROKERS, [broker(1, 30), broker(2, 30)], RULES_4_3, "brokers 1, 2 run 4.3"),
        (BROKERS, [broker(1, 33)], RULES_4_4, "broker 1 runs 4.4"),
        (BROKERS, [broker(1, 30), broker(2, 33)], ANY_RELEASE,
         "broker 1 runs 4.3; broker 2 runs 4.4"),
        (BROKERS, [broker(1, 33), broker(2, UNKNOWN_LEVEL)], ANY_RELEASE,
         "broker 1 runs 4.4; broker 2 runs an unknown release"),
        (BROKERS, [broker(1, 31)], ANY_RELEASE, "broker 1 runs 4.3 or 4.4"),
        (QUORUM, [broker(1, 30), controller(9, 30)], RULES_4_3,
         "broker 1 and controller 9 run 4.3"),
        (QUORUM, [broker(1, 33), controller(9, 30)], ANY_RELEASE,
         "controller 9 runs 4.3; broker 1 runs 4.4"),
        (QUORUM, [broker(1, 33)], ANY_RELEASE,
         "broker 1 runs 4.4; a controller that has not registered runs an unknown release"),
        # Controllers count while they are voters.
        (QUORUM, [voters(9), broker(1, 33), controller(8, 30), controller(9, 33)], RULES_4_4,
         "broker 1 and controller 9 run 4.4"),
        (QUORUM, [voters(8, 9), broker(1, 33), controller(9, 33)], ANY_RELEASE,
         "broker 1 and controller 9 run 4.4; controller 8 runs an unknown release"),
        (QUORUM,
         [voters(9), VotersChanged(None), broker(1, 33), controller(8, 30), controller(9, 33)],
         ANY_RELEASE, "controller 8 runs 4.3; broker 1 and controller 9 run 4.4"),
        # A registration replaces the earlier one, and lasts until it is removed.
        (QUORUM, [controller(9, 33), broker(1, 30), broker(1, 33), broker(2, 30)], ANY_RELEASE,
         "broker 2 runs 4.3; broker 1 and controller 9 run 4.4"),
        (QUORUM, [controller(9, 33), broker(1, 33), broker(2, 30), NodeUnregistered(False, 2)],
         RULES_4_4, "broker 1 and controller 9 run 4.4"),
        (QUORUM, [controller(8, 30), controller(9, 33), broker(1, 33), NodeUnregistered(True, 8)],
         RULES_4_4, "broker 1 and controller 9 run 4.4"),
        # No node of 4.3 can start at this level.
        (BROKERS, [finalized(32), broker(1, 30), broker(2, UNKNOWN_LEVEL)], RULES_4_4,
         "metadata.version is 32, which no node of 4.3 supports"),
        (QUORUM, [finalized(33)], RULES_4_4,
         "metadata.version is 33, which no node of 4.3 supports"),
        (QUORUM, [controller(9, 30), *(broker(each, 30) for each in range(7))], RULES_4_3,
         "7 brokers (0, 1, 2, 3, 4, …) and controller 9 run 4.3"),
    ],
)  # fmt: skip
def test_rules_and_their_reason(
    evidence: Evidence, changes: list[ClusterChange], rules: ReleaseRules, reason: str
) -> None:
    found = judge_release(image_of(*changes), evidence)
    assert (found.rules, found.reason, found.newer) == (rules, reason, "")


@pytest.mark.parametrize(
    ("evidence", "changes", "newer"),
    [
        (OWN_LOG, [finalized(34)], "metadata.version is 34, above 33, the newest that was tested"),
        (QUORUM, [finalized(34)], "metadata.version is 34, above 33, the newest that was tested"),
        (BROKERS, [finalized(33), broker(1, 33), broker(2, 34)],
         "broker 2 runs a release newer than 4.4, which was not tested"),
        (QUORUM, [broker(1, 30), controller(2, 99)],
         "controller 2 runs a release newer than 4.4, which was not tested"),
    ],
)  # fmt: skip
def test_newer_release_is_named_and_may_be_like_any(
    evidence: Evidence, changes: list[ClusterChange], newer: str
) -> None:
    found = judge_release(image_of(*changes), evidence)
    assert (found.rules, found.newer) == (ANY_RELEASE, newer)
    chosen = judge_release(image_of(*changes), evidence, Release.KAFKA_4_4)
    assert (chosen.rules, chosen.newer) == (RULES_4_4, newer)


def test_setting_decides_and_a_contradiction_is_told() -> None:
    image = image_of(broker(1, 30))
    agreed = judge_release(image, BROKERS, Release.KAFKA_4_3)
    assert (agreed.rules, agreed.reason) == (RULES_4_3, "authorizerd.kafka.release=4.3")
    forced = judge_release(image, BROKERS, Release.KAFKA_4_4)
    assert forced.rules == RULES_4_4
    assert forced.reason == "authorizerd.kafka.release=4.4, although broker 1 runs 4.3"


@pytest.mark.parametrize(("level", "can_create"), [(30, False), (31, False), (32, True)])
def test_own_log_creates_ranges_only_at_a_level_that_has_them(level: int, can_create: bool) -> None:
    chosen = judge_release(image_of(finalized(level)), OWN_LOG, Release.KAFKA_4_4).rules
    assert (chosen.releases, chosen.range_allows) == (RULES_4_4.releases, True)
    assert chosen.can_create_ranges is can_create
