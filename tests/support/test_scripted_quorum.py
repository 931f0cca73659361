"""The scripted quorum through the real client: it answers as Kafka's controllers do."""

from collections.abc import AsyncIterator

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from authorizerd.config.follow.settings import FollowSettings, SourceKind
from authorizerd.daemon.sources.nodes import NodeOpener
from authorizerd.image.changes import CredentialRemoved
from authorizerd.kafka_client.connection import Node
from authorizerd.kafka_client.quorum_calls import (
    QuorumDescription,
    describe_quorum_call,
    fetch_call,
    fetch_snapshot_call,
)
from authorizerd.protocol.kafka.api import QuorumKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.fetch import FetchAnswer, FetchPosition, SnapshotAnswer
from authorizerd.protocol.kafka.quorum_messages import EpochEnd, SnapshotId
from authorizerd.protocol.records.metadata import encode_value
from tests.support.log_files import added
from tests.support.sasl import credential_of
from tests.support.scripted_quorum import ScriptedQuorum

START = FetchPosition(offset=0, last_epoch=0, leader_epoch=1)


@pytest.fixture
async def quorum(nursery: trio.Nursery) -> ScriptedQuorum:
    quorum = ScriptedQuorum(nursery)
    quorum.elect(1)
    return quorum


@pytest.fixture
async def node(quorum: ScriptedQuorum) -> AsyncIterator[Node]:
    node = await connect(quorum, 1)
    yield node
    await node.aclose()


async def connect(quorum: ScriptedQuorum, node_id: int) -> Node:
    settings = FollowSettings(kind=SourceKind.QUORUM, servers=())
    address = quorum.controllers[node_id].address
    return await NodeOpener(settings, quorum.connect).open(address.host, address.port)


async def fetch(node: Node, position: FetchPosition = START, *, wait_ms: int = 0) -> FetchAnswer:
    call = fetch_call(cluster_id=None, position=position, max_wait_ms=wait_ms, max_bytes=1 << 20)
    return await node.request(call, 5000)


async def test_uncommitted_records_are_above_the_high_watermark(
    quorum: ScriptedQuorum, node: Node
) -> None:
    """Another leader may lack them."""
    quorum.append(added(1), commits=False)
    answer = await fetch(node, replace(START, offset=2, last_epoch=1))
    assert (bool(answer.records), answer.high_watermark) == (True, 2)
    quorum.elect(2)
    other = await connect(quorum, 2)
    diverging = await fetch(other, FetchPosition(offset=3, last_epoch=1, leader_epoch=2))
    assert (diverging.error_code, diverging.diverging) == (0, EpochEnd(1, 2))


@pytest.mark.parametrize(
    ("node_id", "epoch", "error"),
    [
        (1, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (2, 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (1, -1, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_error_names_the_leader(
    quorum: ScriptedQuorum, node_id: int, epoch: int, error: ErrorCode
) -> None:
    """From version 17 on, with its endpoint."""
    for version in (16, 17):
        quorum.versions = {**quorum.versions, QuorumKey.FETCH: (4, version)}
        node = await connect(quorum, node_id)
        answer = await fetch(node, replace(START, leader_epoch=epoch))
        assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (error, 1, 1)
        assert dict(answer.endpoints) == ({1: ("controller1", 9093)} if version == 17 else {})


async def test_new_leader_has_no_high_watermark(quorum: ScriptedQuorum) -> None:
    quorum.elect(2, commits=False)
    node = await connect(quorum, 2)
    answer = await fetch(node, replace(START, leader_epoch=2))
    assert (answer.error_code, answer.high_watermark) == (0, -1)


@pytest.mark.parametrize(("kafka", "waits"), [("4.3", False), ("4.0", True)])
async def test_fetch_waits_for_news(
    nursery: trio.Nursery, autojump_clock: MockClock, kafka: str, waits: bool
) -> None:
    """From version 18 on, a higher watermark is news as well."""
    quorum = ScriptedQuorum(nursery, kafka=kafka)
    quorum.elect(1)
    node = await connect(quorum, 1)
    position = FetchPosition(offset=2, last_epoch=1, leader_epoch=1, high_watermark=1)
    await fetch(node, position, wait_ms=500)
    assert trio.current_time() == pytest.approx(0.5 if waits else 0)
    position = replace(position, high_watermark=2)
    nursery.start_soon(append_later, quorum)
    before = trio.current_time()
    answer = await fetch(node, position, wait_ms=500)
    assert trio.current_time() - before == pytest.approx(0.1)
    assert answer.records


async def append_later(quorum: ScriptedQuorum) -> None:
    await trio.sleep(0.1)
    quorum.append(added(1))


async def test_snapshot_has_the_users(quorum: ScriptedQuorum) -> None:
    kept, deleted = (credential_of(name, "secret") for name in "ab")
    quorum.append(kept, deleted)
    quorum.append(CredentialRemoved(deleted.user, deleted.mechanism))
    data = quorum.leader.log.snapshots[quorum.take_snapshot()]
    assert [encode_value(each) in data for each in (kept, deleted)] == [True, False]


@pytest.mark.parametrize("hides", [True, False])
async def test_errors_of_snapshots_are_hidden_as_in_kafka(
    quorum: ScriptedQuorum, node: Node, hides: bool
) -> None:
    """Kafka 4.3.1 fails to write them."""
    quorum.hides_snapshot_errors = hides
    quorum.append(added(1))
    taken = quorum.take_snapshot()
    beyond = await fetch_snapshot(node, taken, 10_000)
    missing = await fetch_snapshot(node, SnapshotId(5, 1), 0)
    quorum.elect(2)
    moved = await fetch_snapshot(node, taken, 0)
    codes = [answer.error_code for answer in (beyond, missing, moved)]
    assert codes == (
        [ErrorCode.UNKNOWN_SERVER_ERROR] * 3
        if hides
        else [
            ErrorCode.POSITION_OUT_OF_RANGE,
            ErrorCode.SNAPSHOT_NOT_FOUND,
            ErrorCode.FENCED_LEADER_EPOCH,
        ]
    )
    assert moved.leader_id == (-1 if hides else 2)


async def test_snapshot_is_preferred_to_the_start_of_the_log(
    quorum: ScriptedQuorum, node: Node
) -> None:
    """Any other offset is served from the log, as long as it is there."""
    quorum.append(added(1))
    taken = quorum.take_snapshot(keeps_log=True)
    assert (await fetch(node)).snapshot == taken
    assert (await fetch(node, replace(START, offset=1, last_epoch=1))).records
    quorum.take_snapshot()
    assert (await fetch(node, replace(START, offset=1, last_epoch=1))).snapshot == taken


async def fetch_snapshot(node: Node, snapshot: SnapshotId, position: int) -> SnapshotAnswer:
    call = fetch_snapshot_call(
        cluster_id=None, snapshot=snapshot, position=position, leader_epoch=1, max_bytes=1 << 20
    )
    return await node.request(call, 5000)


async def test_quorum_is_described(quorum: ScriptedQuorum, node: Node) -> None:
    found = await node.request(describe_quorum_call(), 5000)
    assert isinstance(found, QuorumDescription)
    assert (found.leader_id, found.leader_epoch, found.high_watermark) == (1, 1, 2)
    assert found.voters == {1, 2, 3}
    assert found.endpoints[3] == {"CONTROLLER": ("controller3", 9093)}
    other = await connect(quorum, 2)
    refused = await other.request(describe_quorum_call(), 5000)
    assert refused == ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_isolated_leader_goes_on_leading_its_epoch(quorum: ScriptedQuorum) -> None:
    """Its watermark stays. When it hears of the new leader, it follows."""
    quorum.isolate(1)
    quorum.elect(2)
    quorum.append(added(1))
    deposed = await connect(quorum, 1)
    answer = await fetch(deposed)
    assert (answer.error_code, answer.leader_epoch, answer.high_watermark) == (0, 1, 2)
    assert quorum.leader.node_id == 2
    quorum.rejoin(1)
    answer = await fetch(deposed)
    assert (answer.error_code, answer.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, 2)
    assert quorum.controllers[1].log.end_offset == quorum.leader.log.end_offset
