"""The scripted quorum through the real client: it answers as Kafka's controllers do."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from msgspec.structs import replace
from trio.testing import MockClock

from authorizerd.acl.model import AclFilter
from authorizerd.config.follow.settings import FollowSettings, SourceKind
from authorizerd.daemon.sources.nodes import NodeOpener
from authorizerd.image.changes import CredentialRemoved
from authorizerd.kafka_client.connection import Call, Node
from authorizerd.kafka_client.errors import ConnectionFailedError, UnservedError
from authorizerd.kafka_client.quorum_calls import (
    QuorumDescription,
    describe_quorum_call,
    fetch_call,
    fetch_snapshot_call,
)
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_delete_acls_response,
    encode_create_acls_request,
    encode_delete_acls_request,
)
from authorizerd.protocol.kafka.api import ApiKey, QuorumKey
from authorizerd.protocol.kafka.envelope_client import InnerRequest
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.fetch import FetchAnswer, FetchPosition, SnapshotAnswer
from authorizerd.protocol.kafka.quorum_messages import EpochEnd, SnapshotId
from authorizerd.protocol.records.metadata import encode_value
from tests.support.acls import acl
from tests.support.envelopes import envelope_call
from tests.support.log_files import added
from tests.support.sasl import credential_of
from tests.support.scripted_quorum import Fault, ScriptedQuorum

START = FetchPosition(offset=0, last_epoch=0, leader_epoch=1)
READ, WRITE = acl("User:a", "READ"), acl("User:a", "WRITE")
ALL_OF_A = AclFilter(principal="User:a")


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


async def fetch(
    node: Node, position: FetchPosition = START, *, cluster_id: str | None = None, wait_ms: int = 0
) -> FetchAnswer:
    call = fetch_call(
        cluster_id=cluster_id, position=position, max_wait_ms=wait_ms, max_bytes=1 << 20
    )
    return await node.request(call, 5000)


def create(*acls: object) -> Call[list[ApiError | None]]:
    return Call(
        api_key=ApiKey.CREATE_ACLS,
        encode=lambda version: encode_create_acls_request(version, acls),  # type: ignore[arg-type]
        decode=decode_create_acls_response,
    )


async def test_committed_records_are_fetched(quorum: ScriptedQuorum, node: Node) -> None:
    """The log begins with a LeaderChange and metadata.version."""
    assert quorum.append(added(1), added(2)) == 3
    answer = await fetch(node)
    assert (answer.error_code, answer.high_watermark, answer.leader_id) == (0, 4, 1)
    assert bytes(answer.records) == b"".join(each.batch.data for each in quorum.leader.log.entries)
    later = await fetch(node, replace(START, offset=4, last_epoch=1))
    assert (later.records, later.high_watermark) == (b"", 4)


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


async def test_another_cluster_is_refused(node: Node) -> None:
    answer = await fetch(node, cluster_id="other")
    assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


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


async def test_snapshot_is_fetched_in_pieces(quorum: ScriptedQuorum, node: Node) -> None:
    quorum.append(*map(added, range(9)))
    taken = quorum.take_snapshot()
    assert (await fetch(node)).snapshot == taken == SnapshotId(11, 1)
    quorum.snapshot_bytes_max = 100
    piece = await fetch_snapshot(node, taken, 0)
    data = bytes(piece.data)
    assert len(data) == 100
    while len(data) < piece.size:
        data += (await fetch_snapshot(node, taken, len(data))).data
    assert data == quorum.leader.log.snapshots[taken]
    rest = await fetch(node, replace(START, offset=11, last_epoch=1))
    assert (rest.snapshot, rest.records) == (None, b"")


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


async def test_changes_become_records(quorum: ScriptedQuorum, node: Node) -> None:
    """An ACL that exists is not added again. Only the leader changes ACLs."""
    assert await node.request(create(READ, WRITE, READ), 5000) == [None] * 3
    assert await node.request(create(READ), 5000) == [None]
    assert list(quorum.leader.log.acls().values()) == [READ, WRITE]
    delete = Call(
        api_key=ApiKey.DELETE_ACLS,
        encode=lambda version: encode_delete_acls_request(version, [ALL_OF_A]),
        decode=decode_delete_acls_response,
    )
    [deleted] = await node.request(delete, 5000)
    assert [match.acl for match in deleted.matches] == [READ, WRITE]
    assert quorum.leader.log.acls() == {}
    assert quorum.leader.high_watermark == quorum.leader.log.end_offset == 6
    follower = await connect(quorum, 2)
    assert await follower.request(create(READ), 5000) == [ApiError(ErrorCode.NOT_CONTROLLER)]


@pytest.mark.parametrize("node_id", [1, 2])
async def test_forwarded_change_keeps_its_sender(quorum: ScriptedQuorum, node_id: int) -> None:
    node = await connect(quorum, node_id)
    body = encode_create_acls_request(3, [READ])
    request = InnerRequest(api_key=ApiKey.CREATE_ACLS, api_version=3, body=body)
    call = envelope_call(request, principal="User:alice", host="10.0.0.9")
    answer = await node.request(call, 5000)
    [forwarded] = quorum.forwarded
    assert (forwarded.principal, forwarded.host) == ("User:alice", "10.0.0.9")
    if node_id == 1:
        assert decode_create_acls_response(3, answer.body) == [None]
        assert list(quorum.leader.log.acls().values()) == [READ]
    else:
        assert answer.error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("fault", "is_done"), [(Fault.CUT, False), (Fault.CUT_AFTER, True), (Fault.GARBAGE, False)]
)
async def test_fault_replaces_an_answer(
    quorum: ScriptedQuorum, node: Node, fault: Fault, is_done: bool
) -> None:
    """It applies to the next request of that API."""
    quorum.leader.spoil(ApiKey.CREATE_ACLS, fault)
    assert (await fetch(node)).error_code == 0
    with pytest.raises(UnservedError):
        await node.request(create(READ), 5000)
    assert bool(quorum.leader.log.acls()) is is_done
    assert quorum.leader.high_watermark == quorum.leader.log.end_offset


async def test_silent_controller_answers_nothing(
    quorum: ScriptedQuorum, node: Node, autojump_clock: MockClock
) -> None:
    quorum.leader.spoil(QuorumKey.FETCH, Fault.SILENCE)
    with pytest.raises(ConnectionFailedError, match="no answer within 5000 ms"):
        await fetch(node)


async def test_change_may_stay_uncommitted(
    quorum: ScriptedQuorum, node: Node, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """It is answered once it is committed, or when another controller leads."""
    quorum.commits_changes = False
    for commit, expected in (
        (quorum.commit, None),
        (lambda: quorum.elect(2), ApiError(ErrorCode.NOT_CONTROLLER)),
    ):
        with trio.move_on_after(1):
            async with trio.open_nursery() as inner:
                inner.start_soon(call_later, commit)
                new = READ if expected is None else WRITE
                assert await node.request(create(new), 5000) == [expected]
    assert list(quorum.controllers[2].log.acls().values()) == [READ]


async def call_later(action: object) -> None:
    await trio.sleep(0.1)
    assert callable(action)
    action()


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


async def test_killed_controller_is_unreachable_until_it_starts(quorum: ScriptedQuorum) -> None:
    """Its connections break, in memory and over TCP."""
    for is_listening in (False, True):
        if is_listening:
            await quorum.listen()
        settings = FollowSettings(kind=SourceKind.QUORUM, servers=())
        opener = NodeOpener(settings) if is_listening else NodeOpener(settings, quorum.connect)
        address = quorum.controllers[3].address
        node = await opener.open(address.host, address.port)
        quorum.kill(3)
        with pytest.raises(ConnectionFailedError):
            await fetch(node)
        await node.aclose()
        with pytest.raises(UnservedError, match="refused"):
            await opener.open(address.host, address.port)
        quorum.append(added(1))
        await quorum.start(3)
        assert quorum.controllers[3].address == address
        node = await opener.open(address.host, address.port)
        assert (await fetch(node)).leader_id == 1
        await node.aclose()


async def test_restored_quorum_lacks_committed_records(quorum: ScriptedQuorum) -> None:
    quorum.append(added(1))
    quorum.append(added(2))
    quorum.restore(3)
    quorum.elect(1)
    node = await connect(quorum, 1)
    answer = await fetch(node, FetchPosition(offset=4, last_epoch=1, leader_epoch=2))
    assert answer.diverging == EpochEnd(1, 3)
    assert quorum.leader.log.acls().keys() == {added(1).id}


@pytest.mark.parametrize(("kafka", "version"), [("3.9", 17), ("4.0", 17), ("4.1", 18), ("4.3", 18)])
async def test_each_kafka_serves_its_versions(
    nursery: trio.Nursery, kafka: str, version: int
) -> None:
    quorum = ScriptedQuorum(nursery, kafka=kafka)
    quorum.elect(1)
    node = await connect(quorum, 1)
    await fetch(node)
    assert quorum.leader.names[-1] == f"FETCH {version}"
