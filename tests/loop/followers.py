"""The sources of followers: a fetched batch, a snapshot, and listings.

The nodes are objects in this process: they give the sources what a connection would have read.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import trio
from trio.testing import wait_all_tasks_blocked

from authorizerd.acl.model import Acl
from authorizerd.actors.record_applier import Message, RecordApplier
from authorizerd.config.follow.settings import FollowSettings, Server, SourceKind
from authorizerd.daemon.process.gc_control import automatic_collection_off, collect_regularly
from authorizerd.daemon.sources.brokers.listing_copy import ListingCopy
from authorizerd.daemon.sources.brokers.source import BrokersSource
from authorizerd.daemon.sources.freshness import Freshness
from authorizerd.daemon.sources.quorum.source import QuorumSource
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import NO_FEATURES, Call, Node
from authorizerd.kafka_client.errors import RequestFailedError
from authorizerd.protocol.kafka.api import ApiKey, QuorumKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.fetch import FetchAnswer, SnapshotAnswer
from authorizerd.protocol.kafka.quorum_messages import SnapshotId
from authorizerd.protocol.records.batch import ControlType
from tests.loop.acl_sets import literals_of_one_principal
from tests.loop.meter import IS_CLIENT, Meter
from tests.loop.players import ENOUGH_S, Played
from tests.support.acl_messages import encode_listing, joined
from tests.support.copies import new_copy
from tests.support.log_files import METADATA_VERSION, acl_id, added, control_batch, data_batch

FOLLOWED_ACLS: Final = 200_000
CHANGED: Final = 5_000
"""How many ACLs another snapshot lacks, and how many it has instead."""

_VERSION: Final = 3
_FETCH_VERSION: Final = 18
_RECORDS_PER_SNAPSHOT_BATCH: Final = 50_000
_RECORDS_PER_BATCH: Final = 1000
_PIECE_BYTES: Final = 1 << 20
_BROKER: Final = 7


class _Node:
    """A node: ``answer`` returns what a call's answer decodes to."""

    address: Final = Address("node", 1)
    renewal_time: Final = math.inf
    features: Final = NO_FEATURES

    async def negotiate(self) -> None:
        await trio.lowlevel.checkpoint()

    def __init__(self, answer: Callable[[Call[Any]], Awaitable[Any]]) -> None:
        self._answer = answer

    def choose_version(self, api_key: object) -> int:
        return _FETCH_VERSION

    async def request(self, call: Call[Any], timeout_ms: int) -> Any:  # noqa: ANN401 - any answer
        await trio.lowlevel.checkpoint()
        return await self._answer(call)

    async def aclose(self) -> None: ...


class _Place:
    """The surroundings of a source, and one answer at a time that the client provides."""

    def __init__(self, kind: SourceKind, folder: Path, meters: Sequence[Meter]) -> None:
        self.feed, inbox = trio.open_memory_channel[Message](16)
        self.applier: Final = RecordApplier(inbox)
        self.status: Final = SourceStatus(kind)
        self.freshness: Final = Freshness(self.feed.clone(), self.status, stale_max_ms=10**9)
        self.settings: Final = FollowSettings(
            kind=kind, servers=(Server("node", 1),), cluster_id="cluster", poll_ms=1
        )
        self.copy: Final = new_copy(folder)
        self._meters: Final = meters
        self._given, self._wanted = trio.open_memory_channel[Any](0)
        self.played: Final[list[Played]] = []

    async def next_answer(self) -> Any:  # noqa: ANN401 - of any request
        """Return what the client provides next."""
        return await self._wanted.receive()

    async def open_node(self, answer: Callable[[Call[Any]], Awaitable[Any]]) -> Node:
        await trio.lowlevel.checkpoint()
        return cast(Node, _Node(answer))

    async def give(self, *answers: object) -> None:
        """Provide answers, and wait until the source asks for another one."""
        with trio.fail_after(ENOUGH_S):
            for answer in answers:
                await self._given.send(answer)
            while not self._wanted.statistics().tasks_waiting_receive:  # noqa: ASYNC110 - no event
                await trio.sleep(0.001)
            await wait_all_tasks_blocked()

    async def measure(self, name: str, *answers: object) -> None:
        """Measure what the source does with answers."""
        await self.give()
        for meter in self._meters:
            meter.start()
        await self.give(*answers)
        for meter in self._meters:
            meter.stop()
        longest = {meter.unit: meter.longest for meter in self._meters}
        self.played.append(Played(f"{self.settings.kind}: {name}", 0, 0, longest))


async def play_followers(folder: Path, meters: list[Meter], acls: int) -> list[Played]:
    """Run both sources, with a copy each below ``folder``; return their longest stretches.

    Args:
        acls: how many ACLs the cluster has.
    """
    played: list[Played] = []
    for kind, play in ((SourceKind.BROKERS, _play_brokers), (SourceKind.QUORUM, _play_quorum)):
        IS_CLIENT.set(False)
        place = _Place(kind, folder / str(kind), meters)
        with automatic_collection_off(), closing(place.copy):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(place.applier.run)
                nursery.start_soon(collect_regularly)
                await play(place, nursery, acls)
                nursery.cancel_scope.cancel()
        played += place.played
    return played


async def _play_brokers(place: _Place, nursery: trio.Nursery, count: int) -> None:
    broker = SimpleNamespace(host="node", port=1, node_id=_BROKER)
    cluster = SimpleNamespace(cluster_id="cluster", brokers=[broker])

    async def answer(call: Call[Any]) -> object:
        if call.api_key is ApiKey.METADATA:
            return cluster
        if call.api_key is ApiKey.DESCRIBE_ACLS:
            return _VERSION, await place.next_answer()
        raise RequestFailedError(ApiError(ErrorCode.UNSUPPORTED_VERSION))

    source = BrokersSource(
        place.settings,
        ListingCopy(place.copy, place.applier.applied, node_id=1, now_ms=lambda: 0),
        place.freshness,
        place.status,
        place.applier.applied,
        open_node=lambda host, port: place.open_node(answer),
    )
    nursery.start_soon(source.run, place.feed)
    IS_CLIENT.set(True)
    acls = list(literals_of_one_principal(count + CHANGED))
    first = _encode_listing(acls[:count])
    await place.measure(f"a first listing of {count} ACLs", bytearray(first))
    await place.measure("an equal listing", bytearray(first))
    await place.measure("one change", bytearray(_encode_listing(acls[1 : count + 1])))
    changed = bytearray(_encode_listing(acls[CHANGED:]))
    await place.measure(f"{2 * CHANGED} changes", changed)
    newest = place.applier.snapshot.newest
    assert newest is not None
    assert set(newest.acls.values()) == set(acls[CHANGED:])
    del newest


def _encode_listing(acls: Sequence[Acl]) -> bytes:
    return joined(encode_listing(_VERSION, acls))


async def _play_quorum(place: _Place, nursery: trio.Nursery, count: int) -> None:
    async def answer(call: Call[Any]) -> object:
        if call.api_key is QuorumKey.FETCH:
            return await place.next_answer()
        assert call.api_key is QuorumKey.FETCH_SNAPSHOT
        return next(pieces)

    def cut(snapshot: SnapshotId, data: bytes) -> Iterator[SnapshotAnswer]:
        for position in range(0, len(data), _PIECE_BYTES):
            piece = data[position : position + _PIECE_BYTES]
            yield SnapshotAnswer(
                **_LEADER, snapshot=snapshot, size=len(data), position=position, data=piece
            )

    source = QuorumSource(
        place.settings,
        place.copy,
        lambda host, port: place.open_node(answer),
        applied=place.applier.applied,
        cluster=place.applier.cluster,
        freshness=place.freshness,
        status=place.status,
    )
    nursery.start_soon(source.run, place.feed)
    IS_CLIENT.set(True)
    await place.give(FetchAnswer(**_LEADER | {"error_code": ErrorCode.FENCED_LEADER_EPOCH}))
    first, second = SnapshotId(count, 1), SnapshotId(2 * count, 1)
    pieces = cut(first, _snapshot(0, count))
    at_first = FetchAnswer(**_LEADER, high_watermark=count)
    await place.measure(
        f"a first snapshot of {count} ACLs",
        FetchAnswer(**_LEADER, snapshot=first, high_watermark=count), at_first,
    )  # fmt: skip
    batches = [
        data_batch(count + at, [added(2 * count + at + each) for each in range(_RECORDS_PER_BATCH)])
        for at in range(0, CHANGED, _RECORDS_PER_BATCH)
    ]
    records = b"".join(batches)
    await place.measure(
        f"{CHANGED} changes in batches",
        FetchAnswer(**_LEADER, high_watermark=count + CHANGED, records=records),
    )
    pieces = cut(second, _snapshot(CHANGED, count))
    await place.measure(
        f"a snapshot with {3 * CHANGED} differences",
        FetchAnswer(**_LEADER, snapshot=second, high_watermark=2 * count),
        FetchAnswer(**_LEADER, high_watermark=2 * count),
    )
    newest = place.applier.snapshot.newest
    assert newest is not None
    assert {*newest.acls} == {acl_id(number) for number in range(CHANGED, CHANGED + count)}
    del newest


_LEADER: Final[dict[str, Any]] = {
    "error_code": 0, "leader_id": 1, "leader_epoch": 1, "endpoints": {1: ("node", 1)},
}  # fmt: skip


def _snapshot(begin: int, count: int) -> bytes:
    """Return a snapshot of the ACLs from number ``begin`` on, in batches as large as Kafka's."""
    batches = [control_batch(0, ControlType.SNAPSHOT_HEADER), data_batch(1, [METADATA_VERSION])]
    offset = 2
    for start in range(begin, begin + count, _RECORDS_PER_SNAPSHOT_BATCH):
        numbers = range(start, min(start + _RECORDS_PER_SNAPSHOT_BATCH, begin + count))
        batches.append(data_batch(offset, [added(number) for number in numbers]))
        offset += len(numbers)
    return b"".join((*batches, control_batch(offset, ControlType.SNAPSHOT_FOOTER)))
