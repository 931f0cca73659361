"""The rules in force while a followed quorum's nodes are upgraded."""

from pathlib import Path

import pytest
import trio

from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.image.changes import FeatureLevel
from authorizerd.protocol.records.batch import ControlType, control_key, decode_batch, encode_batch
from authorizerd.protocol.records.foreign import ForeignType
from tests.daemon.sources.quorum.following import SECONDS_MAX, FollowedQuorum, Following
from tests.support.foreign_records import frame, int32, int64, node, unregistered
from tests.support.log_files import added
from tests.support.replica_log import Entry
from tests.support.voters import voters_value


def finalized(level: int) -> FeatureLevel:
    return FeatureLevel("metadata.version", level)


@pytest.fixture
def quorum(nursery: trio.Nursery, tmp_path: Path) -> FollowedQuorum:
    """Controller 1 leads, at the level of 4.3."""
    quorum = FollowedQuorum(nursery, tmp_path)
    quorum.elect(1)
    quorum.append(finalized(30), added(1))
    return quorum


async def wait_for_rules(following: Following, rules: ReleaseRules, last_offset: int) -> None:
    """Wait for a state, and check its rules."""
    with trio.fail_after(SECONDS_MAX):
        newest = await following.applier.snapshot.wait_until(
            lambda newest: newest is not None and newest.offset >= last_offset
        )
    assert newest is not None
    assert newest.rules == rules == following.applier.release.newest.rules


async def test_rules_follow_the_registrations(quorum: FollowedQuorum) -> None:
    """The state and its rules change together, also if no ACL changes."""
    quorum.append(node(1, 30), node(2, 30), node(9, 30, is_controller=True))
    following = quorum.follow()
    await wait_for_rules(following, RULES_4_3, quorum.leader.high_watermark - 1)
    fenced = frame(ForeignType.FENCE_BROKER, int32(2), int64(5))
    steps: list[tuple[tuple[bytes | FeatureLevel, ...], ReleaseRules]] = [
        ((node(9, 33, is_controller=True),), ANY_RELEASE),
        ((node(1, 33),), ANY_RELEASE),
        ((fenced,), ANY_RELEASE),
        ((unregistered(2),), RULES_4_4),
        ((node(3, 30), node(8, 30, is_controller=True)), ANY_RELEASE),
        ((unregistered(3),), ANY_RELEASE),
        ((unregistered(8, is_controller=True),), RULES_4_4),
        ((node(3, None),), ANY_RELEASE),
        ((finalized(33),), RULES_4_4),
        ((node(3, 34),), ANY_RELEASE),
    ]
    for records, rules in steps:
        await wait_for_rules(following, rules, quorum.append(*records))
    assert following.applier.release.newest.newer == (
        "broker 3 runs a release newer than 4.4, which was not tested"
    )


async def test_controller_counts_while_it_is_a_voter(quorum: FollowedQuorum) -> None:
    quorum.append(node(1, 33), node(8, 30, is_controller=True), node(9, 33, is_controller=True))
    following = quorum.follow()
    await wait_for_rules(following, ANY_RELEASE, quorum.leader.high_watermark - 1)
    for ids, rules in (([9], RULES_4_4), ([8, 9], ANY_RELEASE)):
        voters = {each: {"C": ("h", 9093)} for each in ids}
        record = control_key(ControlType.KRAFT_VOTERS), voters_value(voters)
        leader = quorum.leader
        end = leader.log.end_offset
        data = encode_batch(end, leader.epoch, 0, [record], is_control=True)
        leader.log.entries.append(Entry(decode_batch(data)))
        quorum.append(added(end))
        await wait_for_rules(following, rules, end)


async def test_copy_and_snapshots_keep_the_releases(quorum: FollowedQuorum) -> None:
    quorum.append(node(1, 33), node(9, 33, is_controller=True))
    following = quorum.follow()
    last = quorum.leader.high_watermark - 1
    await wait_for_rules(following, RULES_4_4, last)
    await following.kill()
    following = quorum.follow(serve_copy=True)
    await wait_for_rules(following, RULES_4_4, last)
