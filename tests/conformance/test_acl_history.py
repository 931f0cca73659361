"""The independent reader of a controller's log: its states are those that clients made."""

from pathlib import Path

from authorizerd.acl.model import Acl, AclFilter, PatternType, PermissionType
from tests.conformance.acl_history import read_history
from tests.kafka_rig.cluster import running_cluster
from tests.kafka_rig.cluster_settings import GRANTS, ClusterSettings
from tests.kafka_rig.rig import Rig
from tests.oracles.acl_history import AclHistory
from tests.support.acls import acl, question


def test_states_and_answers_follow_creations_and_deletions(rig: Rig, tmp_path: Path) -> None:
    read, deny = acl(topic="a"), acl(topic="a", deny=True)
    prefixed = acl(operation="WRITE", topic="b", pattern="PREFIXED")
    ends: list[int] = []
    with running_cluster(rig, tmp_path, ClusterSettings(controllers=1, brokers=0)) as cluster:
        for created, deleted in (
            ((read, prefixed), ()),
            ((deny, read), ()),  # one is a duplicate
            ((), (AclFilter(permission_type=PermissionType.DENY),)),
            ((), (AclFilter(pattern_type=PatternType.ANY),)),
        ):
            cluster.create(*created)
            cluster.delete(*deleted)
            ends.append(cluster.quorum().high_watermark - 1)
        history = read_history(cluster, tmp_path)
    assert set(ends) <= history.batch_ends
    expected: list[set[Acl]] = [
        {read, prefixed}, {read, prefixed, deny}, {read, prefixed}, set(),
    ]  # fmt: skip
    for offset, acls in zip(ends, expected, strict=True):
        assert set(history.acls_at(offset)) - {*GRANTS} == acls
    assert not history.find_doubles()
    asked = question(topic="a"), question(operation="WRITE", topic="bc")
    timelines = history.timelines(asked)
    assert [timelines[asked[0]].at(offset) for offset in ends] == [True, False, True, False]
    assert [timelines[asked[1]].at(offset) for offset in ends] == [True, True, True, False]
    assert not timelines[asked[0]].at(0)


def test_binding_that_is_added_twice_is_found() -> None:
    history = AclHistory(added={"1": (3, acl()), "2": (7, acl()), "3": (4, acl(topic="u"))})
    assert history.find_doubles() == [acl()]
    history.removed["1"] = 5
    assert not history.find_doubles()
