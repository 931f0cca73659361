"""Changes that a daemon refuses because it follows a cluster, as a Kafka client sees them."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from authorizerd.acl.model import AclFilter
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.errors import RejectedUpdateError
from authorizerd.actors.updates import ClusterPlan, Updates
from authorizerd.config.follow.settings import FollowSettings, Server, SourceKind, Writes
from authorizerd.daemon.kafka.cluster_updates import Results, change_cluster
from authorizerd.daemon.sources.writes.refused import RefusedUpdates
from authorizerd.image.cluster import ClusterImage
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.sources.writes.acl_cluster import AclCluster, Follower
from tests.support.acls import acl

CALLER = RequestContext(principal="User:root", host="10.0.0.1", request_name="CreateAcls")
SERVERS = (Server("kafka-1", 9093), Server("::1", 9094))


def refused(kind: SourceKind = SourceKind.QUORUM) -> RefusedUpdates:
    return RefusedUpdates(FollowSettings(kind=kind, servers=SERVERS))


@pytest.mark.parametrize(
    ("kind", "modes"),
    [(SourceKind.QUORUM, "as-self or forward"), (SourceKind.BROKERS, "as-self")],
)
def test_every_item_says_where_to_send_the_change(kind: SourceKind, modes: str) -> None:
    """The code tells clients not to try again."""
    updates = refused(kind)
    ended: list[Any] = [
        *updates.create([acl(), acl(topic="u")], CALLER),
        *updates.delete([AclFilter()], CALLER),
    ]
    assert len(ended) == 3
    for completion in ended:
        error = completion.error
        assert isinstance(error, RejectedUpdateError)
        assert error.code == ErrorCode.POLICY_VIOLATION
        assert "authorizerd.writes=refuse" in str(error)
        assert "kafka-1:9093, [::1]:9094" in str(error)
        assert str(error).endswith(f"set authorizerd.writes to {modes}.")
        assert ("controller" in str(error)) is (kind is SourceKind.QUORUM)


@pytest.mark.parametrize("writes", Writes)
async def test_no_follower_checks_an_expected_offset(nursery: trio.Nursery, writes: Writes) -> None:
    """The cluster does not, and the daemon's own check could be outdated by then."""
    updates: Updates = (
        refused()
        if writes is Writes.REFUSE
        else Follower(AclCluster(nursery), writes=writes).updates
    )
    assert not updates.checks_guards


@pytest.mark.parametrize("writes", Writes)
async def test_credentials_and_configs_are_refused_in_every_mode(
    nursery: trio.Nursery, writes: Writes
) -> None:
    """The plan is not even made, and the error names the file and SIGHUP."""
    updates: Updates = (
        refused()
        if writes is Writes.REFUSE
        else Follower(AclCluster(nursery), writes=writes).updates
    )

    def plan(image: ClusterImage) -> ClusterPlan[Results]:
        raise AssertionError(image)

    results = await change_cluster(updates, plan, ["alice", "bob"])
    assert set(results) == {"alice", "bob"}
    for error in results.values():
        assert error is not None
        assert error.code == ErrorCode.POLICY_VIOLATION
        assert "SCRAM credentials in the cluster" in str(error.message)
        assert "configuration file" in str(error.message)
        assert "SIGHUP" in str(error.message)


async def test_refusing_updates_run_until_they_are_closed(nursery: trio.Nursery) -> None:
    updates = refused()
    await nursery.start(updates.run)
    updates.close()
    assert updates.statistics.requests_waiting == 0
