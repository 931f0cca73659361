"""The source over a scripted quorum: real connections, a real copy, a real applier."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from threading import Event as ThreadEvent
from typing import Any
from unittest.mock import patch

import pytest
import trio

from authorizerd.acl.filters import filter_of
from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.steps import finish
from authorizerd.daemon.sources import copy_checkpointer
from authorizerd.daemon.sources.nodes import NodeOpener
from authorizerd.daemon.sources.quorum import link, machine, route
from authorizerd.daemon.sources.quorum.confirmations import DEPOSED_PAUSE_SECONDS
from authorizerd.daemon.sources.quorum.feed import Feed
from authorizerd.daemon.sources.quorum.link import BATCHES_PER_EVENT, Link
from authorizerd.daemon.sources.quorum.machine import Machine
from authorizerd.daemon.sources.quorum.messages import Event, FetchAnswered, Reaction
from authorizerd.image.changes import TopicAdded
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Node
from authorizerd.metadata.copy_snapshot import SnapshotFile
from authorizerd.metadata.errors import LogDirectoryError
from authorizerd.metadata.log import LogBatch
from authorizerd.metadata.log_copy import LogCopy
from authorizerd.protocol.kafka.api import ApiKey, QuorumKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.fetch import FetchAnswer
from authorizerd.protocol.records.batch import (
    ControlType,
    RecordBatch,
    control_key,
    decode_batch,
    encode_batch,
)
from authorizerd.protocol.records.metadata import BeginTransaction, EndTransaction
from tests.daemon.kafka_cluster import cluster_of
from tests.daemon.sources.quorum.following import SECONDS_MAX, FollowedQuorum
from tests.support.kio_codec import encode_response
from tests.support.kio_messages import read_by_kio
from tests.support.log_files import added, removed
from tests.support.quorum_answers import write_fetch
from tests.support.replica_log import Entry
from tests.support.scripted_quorum import Fault, ScriptedQuorum
from tests.support.voters import voters_value

TOPIC = TopicAdded("t", b"1" * 16)


@pytest.fixture
def quorum(nursery: trio.Nursery, tmp_path: Path) -> FollowedQuorum:
    """Three controllers; the first leads."""
    quorum = FollowedQuorum(nursery, tmp_path)
    quorum.elect(1)
    return quorum


def sent_fetches(quorum: ScriptedQuorum) -> list[Any]:
    """Return each Fetch that any controller received."""
    return [
        read_by_kio(asked.api_key, asked.version, asked.body)
        for controller in quorum.controllers.values()
        for asked in controller.asked
        if asked.api_key is QuorumKey.FETCH
    ]


def fetched_offsets(quorum: ScriptedQuorum) -> list[int]:
    """Return the offset of each Fetch that any controller received."""
    return [each.topics[0].partitions[0].fetch_offset for each in sent_fetches(quorum)]


@pytest.mark.parametrize("kafka", ["3.9", "4.0", "4.1", "4.2", "4.3"])
async def test_changes_of_the_cluster_are_followed(
    nursery: trio.Nursery, tmp_path: Path, kafka: str
) -> None:
    """In every version of Kafka, before and after decisions began."""
    quorum = FollowedQuorum(nursery, tmp_path, kafka=kafka)
    quorum.elect(2)
    quorum.append(added(1), TOPIC)
    following = await quorum.followed(1)
    assert "t" in following.applier.cluster.newest.topics
    quorum.append(added(2), removed(1))
    await following.wait_for(2)
    assert following.status.leader_id == 2
    assert following.status.read_offset == following.status.high_watermark
    assert following.status.cluster_id == quorum.cluster_id
    assert following.source.metadata_version > 0


@pytest.mark.parametrize("in_snapshot", [False, True])
async def test_all_new_addresses_are_followed(quorum: FollowedQuorum, in_snapshot: bool) -> None:
    """The log names the voters' addresses, before the last one that the daemon knew goes away.

    The record that names them may be in a snapshot, and no longer in the log.
    """
    voters = {1: quorum.leader.address, 2: Address("new2", 9093), 3: Address("new3", 9093)}
    listeners = {key: {"CONTROLLER": (each.host, each.port)} for key, each in voters.items()}
    record = control_key(ControlType.KRAFT_VOTERS), voters_value(listeners)
    log = quorum.leader.log
    if in_snapshot:
        quorum.append(added(1))
        log.controls.append(record)
        quorum.take_snapshot()
        following = await quorum.followed(1)
    else:
        following = await quorum.followed()
        data = encode_batch(log.end_offset, quorum.leader.epoch, 0, [record], is_control=True)
        log.entries.append(Entry(decode_batch(data)))
        quorum.append(added(1))
        await following.wait_for(1)
    quorum.kill(1)
    for node_id in (2, 3):
        quorum.kill(node_id)
        quorum.controllers[node_id].address = voters[node_id]
        await quorum.start(node_id)
    quorum.elect(3)
    quorum.append(added(2))
    await following.wait_for(1, 2)


@pytest.mark.parametrize("fault", list(Fault))
@patch.object(link, "IDLE_ANSWER_MS", 1_000)
@patch.object(route, "ELECTION_SECONDS", 0.01)
async def test_a_bad_answer_delays_changes_only(quorum: FollowedQuorum, fault: Fault) -> None:
    following = await quorum.followed()
    quorum.leader.spoil(QuorumKey.FETCH, fault)
    quorum.append(added(1))
    quorum.append(added(2))
    await following.wait_for(1, 2)
    assert following.status.errors.total() >= 1
    assert not following.status.fault


async def test_long_answer_is_handled_in_parts(
    quorum: FollowedQuorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is not fetched again. It tells nothing new about what is committed."""
    for number in range(4 * BATCHES_PER_EVENT):
        quorum.append(added(number))
    parts: list[tuple[int, int]] = []
    step = Machine.step

    def count(self: Machine, event: Event, now: float) -> Reaction:
        if isinstance(event, FetchAnswered) and event.batches:
            parts.append((len(event.batches), event.answer.high_watermark))
        return step(self, event, now)

    monkeypatch.setattr(Machine, "step", count)
    await quorum.followed(*range(4 * BATCHES_PER_EVENT))
    end = quorum.leader.log.end_offset
    assert parts == [(BATCHES_PER_EVENT, end), *[(BATCHES_PER_EVENT, -1)] * 3, (2, -1)]
    offsets = fetched_offsets(quorum)
    assert offsets[:2] == [0, 0], "the first finds the epoch"
    assert set(offsets[2:]) <= {end}


@pytest.mark.parametrize("disk_fails", [False, True])
async def test_a_snapshot_becomes_visible_as_one_change(
    quorum: FollowedQuorum, monkeypatch: pytest.MonkeyPatch, disk_fails: bool
) -> None:
    """A daemon that was cut off for long fetches it in pieces. Decisions go on by the old state.

    A broken connection does not matter. If the disk fails while the snapshot is read back, it is
    fetched again without the disk.
    """
    quorum.append(*map(added, range(1000)), TOPIC)
    following = await quorum.followed(*range(1000))
    if disk_fails:
        fail_once_at_read_back(monkeypatch)
    quorum.kill_all()
    quorum.revive_all()
    quorum.elect(1)
    quorum.snapshot_bytes_max = 3_333
    quorum.leader.spoil(QuorumKey.FETCH_SNAPSHOT, Fault.CUT)
    # Before the daemon connects again, since its pause is longer than this.
    quorum.append(*map(removed, range(0, 1000, 2)), *map(added, range(1000, 1500)))
    quorum.take_snapshot()
    wanted = {*range(1, 1000, 2), *range(1000, 1500)}
    await following.wait_for(*wanted)
    assert await following.source.confirm()
    assert quorum.leader.names.count("FETCH_SNAPSHOT 1") > 5
    assert following.seen == [set(range(1000)), wanted]
    assert not following.applier.cluster.newest.topics, "the snapshot lacks the topic"
    quorum.append(added(2000))
    await following.wait_for(*wanted, 2000)
    assert following.status.errors["snapshot"] == disk_fails
    assert ("error" in following.status.copy_fault) == disk_fails


def fail_once_at_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next snapshot be verified, but only its beginning be read back."""
    batches = SnapshotFile.batches

    def read_beginning(snapshot: SnapshotFile) -> Iterator[LogBatch]:
        monkeypatch.undo()
        yield from islice(batches(snapshot), 1)
        raise LogDirectoryError("Input/output error")

    monkeypatch.setattr(SnapshotFile, "batches", read_beginning)


async def test_a_restart_needs_only_the_end_of_the_log(quorum: FollowedQuorum) -> None:
    quorum.append(added(1))
    following = await quorum.followed(1)
    await following.kill()
    quorum.append(added(2))
    for controller in quorum.controllers.values():
        controller.asked.clear()
    following = await quorum.followed(1, 2)
    assert min(fetched_offsets(quorum)) == 2, "the last batch again, to compare it"
    assert await following.source.confirm()
    assert following.seen == [{1, 2}], "nothing is visible before it is complete"


async def test_a_kill_before_changes_are_saved_is_harmless(quorum: FollowedQuorum) -> None:
    """The leader that sent them truncates what was not committed, and another one leads."""
    quorum.append(added(1))
    following = await quorum.followed(1)
    with patch.object(LogCopy, "append"):
        quorum.append(added(2))
        await following.wait_for(1, 2)
        await following.kill()
    quorum.append(added(3), commits=False)
    quorum.isolate(1)
    quorum.elect(2)
    quorum.append(removed(1))
    following = quorum.follow()
    await trio.sleep(0.1)
    assert following.numbers <= {1, 2}, "the deposed leader serves what it has"
    quorum.rejoin(1)
    await following.wait_for(2)


async def test_a_transaction_may_span_a_restart(quorum: FollowedQuorum) -> None:
    """The copy has the state of its start; a checkpoint of the copy has to wait for its end."""
    quorum.append(BeginTransaction("t"), added(1))
    following = await quorum.followed()
    offset = quorum.leader.log.end_offset - 1
    assert not following.source.is_complete(offset)
    await following.kill()
    following = await quorum.followed()
    quorum.append(added(2), EndTransaction())
    await following.wait_for(1, 2)
    assert following.source.is_complete(quorum.leader.log.end_offset - 1)
    assert not following.source.is_complete(offset)


async def test_a_snapshot_voids_an_open_transaction(quorum: FollowedQuorum) -> None:
    quorum.append(BeginTransaction("t"), added(1))
    following = await quorum.followed()
    quorum.kill(1)
    quorum.elect(2)
    quorum.append(EndTransaction())
    quorum.take_snapshot()
    quorum.append(added(2))
    await following.wait_for(1, 2)


@pytest.mark.parametrize("serves_copy", [False, True])
async def test_the_copy_is_served_before_the_first_contact_only_if_allowed(
    quorum: FollowedQuorum, serves_copy: bool
) -> None:
    quorum.append(added(1))
    following = await quorum.followed(1)
    await following.kill()
    quorum.kill_all()
    following = quorum.follow(serve_copy=serves_copy)
    await trio.sleep(0.3)
    assert following.numbers == ({1} if serves_copy else set())
    quorum.revive_all()
    quorum.elect(3)
    quorum.append(added(2))
    await following.wait_for(1, 2)


async def test_decisions_stop_when_the_contact_is_lost_for_too_long(quorum: FollowedQuorum) -> None:
    """A leader that cannot commit confirms nothing, either."""
    quorum.append(added(1))
    following = await quorum.followed(1, stale_max_ms=1_500)
    await trio.sleep(2)
    assert following.numbers == {1}, "the leader answers"
    quorum.elect(2, commits=False)
    await following.wait_for_silence()
    assert following.status.is_stale
    quorum.commit()
    await following.wait_for(1)


async def test_decisions_do_not_resume_by_an_answer_before_a_hang(quorum: FollowedQuorum) -> None:
    """Nothing has confirmed the state since that answer."""
    quorum.append(added(1))
    following = await quorum.followed(1, stale_max_ms=1_000)
    hung, is_back = trio.Event(), ThreadEvent()

    def hang(batches: Sequence[RecordBatch]) -> None:
        trio.from_thread.run_sync(hung.set)
        is_back.wait(SECONDS_MAX)

    with patch.object(following.copy, "append", hang):
        quorum.append(added(2))
        await hung.wait()
        quorum.kill_all()
        await following.wait_for_silence()
        is_back.set()
        await trio.sleep(0.5)
    assert following.numbers == set()
    assert following.status.is_stale


async def test_decisions_do_not_resume_by_an_answer_read_late(quorum: FollowedQuorum) -> None:
    """As after the process was stopped: the answer was in the socket's buffer all the time."""
    quorum.append(added(1))
    following = await quorum.followed(1, stale_max_ms=1_000)
    ask: Any = Link.ask

    async def ask_and_stop(*arguments: object, **named: object) -> object:
        event = await ask(*arguments, **named)
        quorum.kill_all()
        await following.wait_for_silence()
        await trio.sleep(1)
        return event

    with patch.object(Link, "ask", ask_and_stop):
        await following.wait_for_silence()
        await trio.sleep(1.5)
    assert following.numbers == set()
    assert following.status.is_stale


async def test_a_restored_cluster_stops_decisions(quorum: FollowedQuorum) -> None:
    """An operator has to decide which of the two states is right."""
    end = quorum.append(added(1)) + 1
    quorum.append(added(2))
    following = await quorum.followed(1, 2)
    quorum.restore(end)
    quorum.elect(1)
    await following.wait_for_silence()
    assert "authorizerd reset-copy" in following.status.fault
    await following.kill()
    following = quorum.follow(serve_copy=True)
    await following.wait_for_silence()
    await following.kill()
    await trio.to_thread.run_sync(following.copy.begin_anew, LogDirectoryError("reset"))
    await quorum.follow().wait_for(1)


async def test_longer_log_of_a_restored_cluster_stops_decisions(quorum: FollowedQuorum) -> None:
    """Its epochs and its end do not show that its history is another one."""
    end = quorum.append(added(1)) + 1
    quorum.elect(1)
    quorum.append(added(2))
    following = await quorum.followed(1, 2)
    quorum.kill_all()
    quorum.restore(end)
    for number in quorum.controllers:
        await quorum.start(number)
    quorum.elect(1)
    for number in (3, 4, 5):
        quorum.append(added(number))
    await following.wait_for_silence()
    assert "authorizerd reset-copy" in following.status.fault
    await following.kill()
    await trio.to_thread.run_sync(following.copy.begin_anew, LogDirectoryError("reset"))
    await quorum.follow().wait_for(1, 3, 4, 5)


@pytest.mark.parametrize("is_checkpoint", [False, True])
async def test_second_cluster_of_the_same_id_stops_decisions(
    quorum: FollowedQuorum,
    nursery: trio.Nursery,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_checkpoint: bool,
) -> None:
    """The servers of the configuration are those of another cluster after a restart.

    The copy may end with a checkpoint, so that it no longer has the last batch.
    """
    monkeypatch.setattr(copy_checkpointer, "CHECK_SECONDS", 0.01)
    quorum.append(added(1))
    following = await quorum.followed(1)
    if is_checkpoint:
        nursery.start_soon(following.checkpointer.run)
        while not following.checkpointer.statistics.written:  # noqa: ASYNC110 - it has no event
            await trio.sleep(0.01)
    await following.kill()
    other = FollowedQuorum(nursery, tmp_path)
    other.elect(1)
    other.append(added(2))
    other.append(added(3))
    following = other.follow()
    await following.wait_for_silence()
    assert "at offset 2 or earlier" in following.status.fault
    assert following.seen == []


async def test_log_is_compared_again_when_a_session_is_renewed(
    quorum: FollowedQuorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address may lead to another cluster by then."""
    quorum.append(added(1))
    connected = 0
    open_node = NodeOpener.open

    async def open_once(self: NodeOpener, host: str, port: int) -> Node:
        nonlocal connected
        node = await open_node(self, host, port)
        connected += 1
        if connected == 1:
            node.renewal_time = trio.current_time() + 0.2
        return node

    monkeypatch.setattr(NodeOpener, "open", open_once)
    following = await quorum.followed(1)
    await trio.sleep(0.2)
    quorum.append(added(2))
    await following.wait_for(1, 2)
    quorum.append(added(3))
    await following.wait_for(1, 2, 3)
    assert connected == 2
    waits = [each.max_wait.total_seconds() for each in sent_fetches(quorum)]
    assert waits.count(0) == 1, "the last batch again"


async def test_another_cluster_stops_decisions(quorum: FollowedQuorum) -> None:
    following = await quorum.followed()
    await following.kill()
    quorum.cluster_id = "another"
    following = quorum.follow()
    await following.wait_for_silence()
    assert "another cluster" in following.status.fault


def hide_cluster_id(
    quorum: ScriptedQuorum, code: ErrorCode = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
) -> None:
    """Let every controller refuse the next DescribeCluster, as without ALTER on the cluster."""
    fields = cluster_of(-1)
    fields.error_code = code
    body = b"".join(finish(encode_response(ApiKey.DESCRIBE_CLUSTER, 2, fields)))
    for controller in quorum.controllers.values():
        controller.spoil(ApiKey.DESCRIBE_CLUSTER, body)


async def test_a_cluster_whose_id_is_secret_is_followed(quorum: FollowedQuorum) -> None:
    """CLUSTER_ACTION is enough to follow. The copy is tied to an id that is learnt later."""
    quorum.append(added(1))
    for _ in range(2):
        hide_cluster_id(quorum)
        following = await quorum.followed(1)
        await following.kill()
        assert following.copy.cluster_id == ""
    following = await quorum.followed(1)
    await following.kill()
    assert following.copy.cluster_id == quorum.cluster_id
    following = quorum.follow(cluster_id="another")
    await following.wait_for_silence()
    assert f"copy of cluster {quorum.cluster_id}" in following.status.fault


async def test_copy_without_a_cluster_id_is_warned_of(
    quorum: FollowedQuorum, caplog: pytest.LogCaptureFixture
) -> None:
    """At the first contact, there is no copy that might be another cluster's."""
    quorum.append(added(1))
    for expected in (0, 1):
        caplog.clear()
        hide_cluster_id(quorum)
        following = await quorum.followed(1)
        await following.kill()
        warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
        assert len(warned) == expected
        assert all("set authorizerd.source.cluster.id" in each for each in warned)


async def test_the_configured_cluster_id_is_checked(quorum: FollowedQuorum) -> None:
    """Also at the first contact, and if controllers tell no id."""
    hide_cluster_id(quorum)
    following = quorum.follow(cluster_id="another")
    await following.wait_for_silence()
    assert "another cluster" in following.status.fault
    await following.kill()
    quorum.append(added(1))
    following = await quorum.followed(1)


async def test_missing_right_is_named(
    quorum: FollowedQuorum, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, however often it is tried."""
    body = write_fetch(18, FetchAnswer(error_code=31))
    for controller in quorum.controllers.values():
        controller.spoil(QuorumKey.FETCH, body)
        controller.spoil(QuorumKey.FETCH, body)
    following = await quorum.followed()
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len([text for text in warnings if "CLUSTER_ACTION" in text]) == 1
    assert following.status.errors["CLUSTER_AUTHORIZATION_FAILED"] >= 2


async def test_broker_in_place_of_a_controller_is_named_with_the_key(
    quorum: FollowedQuorum, caplog: pytest.LogCaptureFixture
) -> None:
    hide_cluster_id(quorum, ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    await quorum.followed()
    said = [text for text in caplog.messages if "MISMATCHED_ENDPOINT_TYPE" in text]
    assert said
    assert said[0].endswith("; name controllers in controller.quorum.bootstrap.servers")


async def test_contact_that_comes_and_goes_does_not_flood_the_log(
    quorum: FollowedQuorum, caplog: pytest.LogCaptureFixture
) -> None:
    following = await quorum.followed()
    with trio.fail_after(SECONDS_MAX):
        for number in range(1, 6):
            quorum.leader.spoil(QuorumKey.FETCH, Fault.GARBAGE)
            quorum.append(added(number))
            await following.wait_for(*range(1, number + 1))
    assert following.status.errors["garbage"] >= 5
    assert sum("retrying" in each for each in caplog.messages) == 1


@pytest.mark.parametrize("is_loaded", [False, True])
async def test_unreadable_record_stops_decisions(quorum: FollowedQuorum, is_loaded: bool) -> None:
    """An ACL record of an unknown version may deny."""
    following = quorum.follow()
    if is_loaded:
        await following.wait_for()
    offset = quorum.append(b"\x01\x12\x63")
    await following.wait_for_silence()
    assert following.status.fault_offset == offset


async def test_a_barrier_does_not_wait_for_a_fetch_that_waits_for_records(
    quorum: FollowedQuorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a Fetch was sent before. Another connection is used, and replaced when it breaks."""
    monkeypatch.setattr(machine, "FETCH_WAIT_MS", 1000 * 3600)
    following = await quorum.followed()
    with trio.fail_after(SECONDS_MAX):
        assert await following.source.confirm()
        await trio.sleep(0.05)
        quorum.leader.spoil(QuorumKey.FETCH, Fault.CUT)
        assert await following.source.confirm()
    assert following.status.errors.total() == 0


async def test_a_barrier_waits_for_changes_that_are_not_passed_on_yet(
    quorum: FollowedQuorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = await quorum.followed()
    begun, goes_on = trio.Event(), trio.Event()
    pass_on = Feed.pass_on

    async def wait_first(feed: Feed, batches: Iterable[RecordBatch]) -> None:
        begun.set()
        await goes_on.wait()
        await pass_on(feed, batches)

    monkeypatch.setattr(Feed, "pass_on", wait_first)
    quorum.append(added(1))
    with trio.fail_after(SECONDS_MAX):
        await begun.wait()
        with trio.move_on_after(0.2) as early:
            assert await following.source.confirm()
        assert early.cancelled_caught
        goes_on.set()
        assert await following.source.confirm()
    assert following.numbers == {1}


async def test_barrier_waits_for_next_leader(quorum: FollowedQuorum, nursery: trio.Nursery) -> None:
    following = await quorum.followed()
    leader = following.source.address
    assert leader is not None
    quorum.append(added(1))
    quorum.kill(1)
    following.source.report_lost(leader)
    assert following.source.address is None
    passed = trio.Event()

    async def wait() -> None:
        assert await following.source.confirm()
        assert following.numbers == {1}
        passed.set()

    nursery.start_soon(wait)
    await trio.sleep(0.2)
    assert not passed.is_set()
    quorum.elect(2)
    with trio.fail_after(SECONDS_MAX):
        await passed.wait()
    assert following.source.address == quorum.leader.address
    assert following.status.leader_epoch == quorum.leader.epoch


async def test_a_deposed_leader_does_not_prove_that_a_change_is_applied(
    quorum: FollowedQuorum, nursery: trio.Nursery
) -> None:
    """It does not know what its successor acknowledged. Visible changes need no proof."""
    quorum.append(added(1))
    following = await quorum.followed(1)
    quorum.isolate(1)
    quorum.elect(2)
    created, deleted = added(2).acl, filter_of(added(1).acl)
    quorum.append(added(2), removed(1))
    successor, numbers = quorum.leader.address, list[set[int]]()

    async def confirm(created: Sequence[Acl] = (), deleted: Sequence[AclFilter] = ()) -> None:
        await following.source.confirm(created, deleted, acknowledged_by=successor)
        numbers.append(following.numbers)

    async with trio.open_nursery() as waiting:
        waiting.start_soon(confirm, [created])
        waiting.start_soon(confirm, (), [deleted])
        waiting.start_soon(confirm, (), [AclFilter(resource_name="several")])
        with trio.fail_after(SECONDS_MAX):
            await confirm([added(1).acl], [filter_of(created)])
        assert await following.source.confirm(), "all that this leader knows of"
        await trio.sleep(3 * DEPOSED_PAUSE_SECONDS)
        assert numbers == [{1}]
        quorum.rejoin(1)
    assert numbers == [{1}, {2}, {2}, {2}]
    with trio.fail_after(SECONDS_MAX):
        await confirm([added(3).acl])  # another client has undone it


async def test_a_full_disk_does_not_stop_following(quorum: FollowedQuorum) -> None:
    """A snapshot is tried again without the disk."""
    quorum.append(added(1))
    quorum.take_snapshot()
    following = quorum.follow()
    original = SnapshotFile.append
    tries = 0

    def append(snapshot: SnapshotFile, data: bytes) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError(28, "No space left on device")
        original(snapshot, data)

    with patch.object(SnapshotFile, "append", append):
        await following.wait_for(1)
        assert await following.source.confirm()
    assert "No space left on device" in following.status.copy_fault
    assert following.status.errors["snapshot"] == 1


@pytest.mark.parametrize("seed", range(5))
async def test_a_random_story_ends_with_the_same_acls(quorum: FollowedQuorum, seed: int) -> None:
    """Every state that became visible was once the committed one."""
    random = Random(seed)
    following = quorum.follow()
    committed = [set[int]()]
    for number in range(1, 50):
        match random.randrange(8):
            case 0:
                await depose(quorum, random, is_killed=True)
            case 1:
                quorum.append(added(10_000 + number), commits=False)
                await depose(quorum, random, is_killed=False)
            case 2:
                quorum.take_snapshot()
            case 3:
                await following.kill()
                following = quorum.follow(serve_copy=random.random() < 0.5)
            case 4 if number % 3 == 0:
                quorum.leader.spoil(QuorumKey.FETCH, random.choice((Fault.CUT, Fault.GARBAGE)))
            case _:
                gone = {each for each in committed[-1] if random.random() < 0.3}
                quorum.append(*map(removed, gone), added(number))
                committed.append(committed[-1] - gone | {number})
        await trio.sleep(random.choice((0, 0, 0.01, 0.05)))
    await following.wait_for(*committed[-1])
    assert all(state in committed for state in following.seen)


async def depose(quorum: ScriptedQuorum, random: Random, *, is_killed: bool) -> None:
    """Let another controller lead, while the leader is killed or cut off."""
    leader = quorum.leader.node_id
    others = [node_id for node_id in quorum.controllers if node_id != leader]
    if is_killed:
        quorum.kill(leader)
    else:
        quorum.isolate(leader)
    quorum.elect(random.choice(others))
    await trio.sleep(random.choice((0, 0.05)))
    if is_killed:
        await quorum.start(leader)
    else:
        quorum.rejoin(leader)


@pytest.mark.parametrize("cluster_id", ["\u20ac", "a\nnode.id=7", "x" * 300])
async def test_answer_without_real_id_is_garbage(quorum: FollowedQuorum, cluster_id: str) -> None:
    """It would be written to ``meta.properties``, which is text in lines."""
    real, quorum.cluster_id = quorum.cluster_id, cluster_id
    quorum.append(added(1))
    following = quorum.follow()
    with trio.fail_after(SECONDS_MAX):
        while not following.status.errors["garbage"]:  # noqa: ASYNC110 - it has no event
            await trio.sleep(0.01)
    quorum.cluster_id = real
    await following.wait_for(1)
