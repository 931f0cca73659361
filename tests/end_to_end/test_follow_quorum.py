"""A real daemon follows a scripted quorum over TCP: what it decides, and when it stops."""

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.end_to_end.follower_daemon import Follower, following
from tests.end_to_end.worker_processes import children, is_alive
from tests.support.daemon_process import run, wait_until
from tests.support.kafka_connection import KafkaConnection
from tests.support.log_files import added, removed
from tests.support.quorum_thread import QuorumThread, running_quorum
from tests.support.scripted_quorum import Fault, ScriptedQuorum

STOPPED = 503


@pytest.fixture
def quorum() -> Iterator[QuorumThread]:
    """Return a quorum of three, with ACLs for topic-1 and topic-2."""
    with running_quorum() as quorum:
        quorum.do(ScriptedQuorum.append, added(1), added(2))
        yield quorum


def create(follower: Follower, number: int) -> ApiError | None:
    """Create the ACL that ``added(number)`` has, through the daemon."""
    with closing(KafkaConnection(follower.listener)) as connection:
        [result] = connection.create(added(number).acl)
    return result


def describe(follower: Follower) -> list[Acl] | ApiError:
    with closing(KafkaConnection(follower.listener)) as connection:
        return connection.describe()


def test_committed_changes_are_followed_across_leaders(
    quorum: QuorumThread, tmp_path: Path
) -> None:
    """Also after the leader was killed, and when a former leader comes back."""
    with following(quorum, tmp_path) as follower:
        follower.wait_for("ready: 2 ACLs at log offset 3")
        assert (follower.may_read("topic-1"), follower.may_read("topic-3")) == (True, False)
        quorum.do(ScriptedQuorum.append, removed(1), added(3))
        follower.wait_for_topics(2, 3)
        quorum.do(ScriptedQuorum.kill, 1)
        quorum.do(ScriptedQuorum.elect, 2)
        quorum.do(ScriptedQuorum.append, added(4))
        follower.wait_for_topics(2, 3, 4)
        quorum.start(1)
        quorum.do(ScriptedQuorum.elect, 1)
        quorum.do(ScriptedQuorum.append, removed(2))
        follower.wait_for_topics(3, 4)
        assert follower.may_read("topic-2") is False
        assert follower.metric("authorizerd_source_leader_epoch") == 3
        assert follower.metric("authorizerd_high_watermark") == quorum.do(
            lambda each: each.leader.high_watermark - 1
        )


def test_copy_serves_before_the_first_contact_only_if_asked(
    quorum: QuorumThread, tmp_path: Path
) -> None:
    with following(quorum, tmp_path) as follower:
        follower.wait_for_topics(1, 2)
    for node_id in (1, 2, 3):
        quorum.do(ScriptedQuorum.kill, node_id)
    with following(quorum, tmp_path) as follower:
        follower.wait_for("waiting for the cluster: no contact so far; the last error: ")
        assert follower.may_read("topic-1") is None
        quorum.start(2)
        quorum.do(ScriptedQuorum.elect, 2)
        follower.wait_for("ready: 2 ACLs")
        quorum.do(ScriptedQuorum.kill, 2)
    with following(quorum, tmp_path, authorizerd_source_serve_copy="true") as follower:
        follower.wait_for("ready: 2 ACLs")
        assert follower.may_read("topic-1") is True


def test_lost_contact_stops_decisions_until_it_is_back(
    quorum: QuorumThread, tmp_path: Path
) -> None:
    """For longer than the limit on staleness."""
    with following(quorum, tmp_path, authorizerd_source_stale_max_ms="1000") as follower:
        follower.wait_for("ready: 2 ACLs")
        for node_id in (1, 2, 3):
            quorum.do(ScriptedQuorum.kill, node_id)
        assert follower.may_read("topic-1") is True
        follower.wait_for("decisions have stopped: the last contact was")
        assert follower.may_read("topic-1") == STOPPED
        assert b"NOT_READY: the ACLs are stale: contact" in follower.evaluate("topic-1").body
        listed = describe(follower)
        assert isinstance(listed, ApiError), "an empty list would be wrong"
        assert listed.code == ErrorCode.AUTHORIZER_NOT_READY
        assert follower.metric("authorizerd_source_stale") == 1
        for node_id in (1, 2, 3):
            quorum.start(node_id)
        quorum.do(ScriptedQuorum.elect, 2)
        quorum.do(ScriptedQuorum.append, removed(1))
        follower.wait_for("ready: 1 ACL at")
        assert (follower.may_read("topic-1"), follower.may_read("topic-2")) == (False, True)


def test_workers_of_a_hanging_daemon_stop_deciding(quorum: QuorumThread, tmp_path: Path) -> None:
    """They decide again once the daemon is back, and has read what was missed."""
    with following(
        quorum, tmp_path, authorizerd_workers="2", authorizerd_worker_timeout_ms="2000"
    ) as follower:
        follower.wait_for("ready: 2 ACLs")
        follower.process.send_signal(signal.SIGSTOP)
        try:
            quorum.do(ScriptedQuorum.append, removed(1))
            wait_until(lambda: follower.may_read("topic-1") == STOPPED, "decisions stop")
        finally:
            follower.process.send_signal(signal.SIGCONT)
        wait_until(lambda: follower.may_read("topic-1") is False, "the removal is applied")


def test_restored_cluster_needs_an_explicit_reset(quorum: QuorumThread, tmp_path: Path) -> None:
    """Also after a restart of the daemon."""
    with following(quorum, tmp_path) as follower:
        quorum.do(ScriptedQuorum.append, added(3))
        follower.wait_for_topics(1, 2, 3)
        quorum.do(ScriptedQuorum.restore, 4)
        quorum.do(ScriptedQuorum.elect, 1)
        quorum.do(ScriptedQuorum.elect, 2)
        follower.wait_for("decisions have stopped")
        assert "reset-copy" in follower.ready_text
        assert follower.may_read("topic-1") == STOPPED
    with following(quorum, tmp_path) as follower:
        follower.wait_for("decisions have stopped")
    done = run("reset-copy", "--config", tmp_path / "server.properties")
    assert done.returncode == 0, done.stderr
    with following(quorum, tmp_path) as follower:
        follower.wait_for_topics(1, 2)


@pytest.mark.parametrize("writes", ["as-self", "forward"])
def test_change_is_visible_once_it_is_acknowledged(
    quorum: QuorumThread, tmp_path: Path, writes: str
) -> None:
    """A forwarded one keeps its sender."""
    settings = {"authorizerd_writes": writes}
    if writes == "forward":
        settings |= {
            "authorizerd_writes_forward_principals": "User:ANONYMOUS",
            "authorizerd_writes_forward_privileged": "anonymous,super-users",
        }
    with following(quorum, tmp_path, **settings) as follower:
        follower.wait_for("ready: 2 ACLs")
        for number in range(3, 13):
            assert create(follower, number) is None
            assert follower.may_read(f"topic-{number}") is True
        senders = quorum.do(lambda each: {forwarded.principal for forwarded in each.forwarded})
        assert senders == ({"User:ANONYMOUS"} if writes == "forward" else set())
        quorum.do(lambda each: each.leader.spoil(ApiKey.CREATE_ACLS, Fault.CUT_AFTER))
        quorum.do(lambda each: each.leader.spoil(ApiKey.ENVELOPE, Fault.CUT_AFTER))
        assert create(follower, 13) is None
        assert follower.may_read("topic-13") is True
        assert len(quorum.do(lambda each: each.leader.log.acls())) == 13


def test_changes_are_refused_by_default(quorum: QuorumThread, tmp_path: Path) -> None:
    with following(quorum, tmp_path) as follower:
        follower.wait_for("ready: 2 ACLs")
        error = create(follower, 3)
        assert error is not None
        assert error.code in (ErrorCode.POLICY_VIOLATION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        assert "authorizerd.writes" in (error.message or "")
    assert len(quorum.do(lambda each: each.leader.log.acls())) == 2


def test_workers_follow_too(quorum: QuorumThread, tmp_path: Path) -> None:
    with following(quorum, tmp_path, authorizerd_workers="2") as follower:
        follower.wait_for("ready: 2 ACLs")
        quorum.do(ScriptedQuorum.append, removed(1), added(3))
        wait_until(
            lambda: [follower.may_read(f"topic-{each}") for each in (1, 3)] == [False, True],
            "the workers have the change",
        )
        quorum.do(ScriptedQuorum.append, removed(99))
        follower.wait_for("decisions have stopped at log offset 6")
        assert follower.metric("authorizerd_source_fault_offset") == 6
        wait_until(lambda: follower.may_read("topic-3") == STOPPED, "the workers do not decide")
        # A worker that waited for this change would not notice the end of the daemon.
        workers = children(follower.process.pid)
        follower.kill()
        wait_until(lambda: not any(map(is_alive, workers)), "the workers end")
