"""Fetch and FetchSnapshot as an observer of the metadata quorum sends them, and the answers.

An observer has no vote and no id: it fetches with replica id -1 and without a directory id. Its
position tells the leader what it has. The answer has the records that follow, the position where
the logs diverge, or the snapshot that replaces the records.

A snapshot may be cut into pieces anywhere, even in the middle of a record. Joined, the pieces are
the checkpoint file. Up to 4.3.1, Kafka fails to encode a partition's errors, such as
SNAPSHOT_NOT_FOUND, and answers the whole request with UNKNOWN_SERVER_ERROR instead.

**Invariant:** for any bytes, the result is an answer about the metadata log, or a DecodeError that
names the field. Records are not copied.

Source: KIP-595, KIP-630, KIP-853; KIP-1166 for the high watermark in version 18; Kafka 4.3
FetchRequest.json, FetchSnapshotRequest.json, KafkaRaftClient.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

import msgspec
from msgspec.structs import replace

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka import quorum_messages
from authorizerd.protocol.kafka.api import QuorumKey
from authorizerd.protocol.kafka.body_reader import cut_in_place
from authorizerd.protocol.kafka.chunked_output import Items
from authorizerd.protocol.kafka.messages import read_response, write_request
from authorizerd.protocol.kafka.quorum_messages import (
    EpochEnd,
    FetchPartition,
    FetchRequest,
    FetchSnapshotRequest,
    FetchTopic,
    SnapshotId,
    SnapshotPartition,
    SnapshotTopic,
)

T = TypeVar("T")

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = UUID(int=1)
METADATA_PARTITION: Final = 0
OBSERVER_ID: Final = -1
ITEMS_MAX: Final = 1000
"""The maximum number of items in all arrays of an answer: one partition, and some endpoints."""

_NO_RECORDS: Final = (0, 0)


Endpoints: TypeAlias = Mapping[int, tuple[str, int]]
"""Host and port of controllers by node id."""


class FetchPosition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How much of the log a follower has.

    Args:
        offset: the offset of the next record to fetch.
        last_epoch: the epoch of the preceding record; 0 if there is none.
        leader_epoch: the epoch of the leader that is asked; 0 if it is not known.
        high_watermark: the follower's own, or -1. From version 18 on, a leader with a higher high
            watermark answers at once.
    """

    offset: int
    last_epoch: int
    leader_epoch: int
    high_watermark: int = -1


class FetchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a Fetch. An answer with an error may also have a leader and its endpoint.

    Attributes:
        error_code: the error of the whole answer, or else that of the partition.
        high_watermark: exclusive, as Kafka's; -1 if the leader does not know it yet.
        leader_id: -1 if it is not known, like ``leader_epoch``.
        diverging: where the follower must truncate its log; None if it need not.
        snapshot: the snapshot to fetch because the log begins later; None if none is needed.
        endpoints: where the leader is, if the answer says so.
        records: batches. The last one may be cut off.
    """

    error_code: int
    high_watermark: int = -1
    log_start_offset: int = -1
    leader_id: int = -1
    leader_epoch: int = -1
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    endpoints: Endpoints = {}
    records: bytes | bytearray = b""
    throttle_ms: int = 0

    def __repr__(self) -> str:
        """Return a text without the records, which may contain SCRAM credentials."""
        return (
            f"FetchAnswer(error_code={self.error_code}, high_watermark={self.high_watermark},"
            f" leader_id={self.leader_id}, leader_epoch={self.leader_epoch},"
            f" diverging={self.diverging}, snapshot={self.snapshot}, {len(self.records)} bytes)"
        )


class SnapshotAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a FetchSnapshot. An answer with an error may also have a leader.

    Attributes:
        error_code: the error of the whole answer, or else that of the partition.
        leader_id: -1 if it is not known, like ``leader_epoch``.
        snapshot: the snapshot that the piece belongs to.
        size: the size of the whole snapshot in bytes.
        position: the piece's position in the snapshot, in bytes.
        data: the piece.
        endpoints: where the leader is, if the answer says so.
    """

    error_code: int
    leader_id: int = -1
    leader_epoch: int = -1
    snapshot: SnapshotId | None = None
    size: int = 0
    position: int = 0
    data: bytes | bytearray = b""
    endpoints: Endpoints = {}
    throttle_ms: int = 0

    def __repr__(self) -> str:
        """Return a text without the data, which may contain SCRAM credentials."""
        return (
            f"SnapshotAnswer(error_code={self.error_code}, leader_id={self.leader_id},"
            f" leader_epoch={self.leader_epoch}, snapshot={self.snapshot}, size={self.size},"
            f" position={self.position}, {len(self.data)} bytes)"
        )


def encode_fetch(
    version: int,
    *,
    cluster_id: str | None,
    position: FetchPosition,
    max_wait_ms: int,
    max_bytes: int,
) -> bytes:
    """Return the body of a Fetch of the metadata log.

    Args:
        cluster_id: the expected cluster: any other one answers INCONSISTENT_CLUSTER_ID. None
            accepts any cluster.
        max_wait_ms: how long the leader waits for a new record.
        max_bytes: maximum size of the records, but the leader returns at least the first batch.
            Before Kafka 4.3, leaders ignore it, and return up to 8 MiB.

    Raises:
        ValueError: the cluster id exceeds Kafka's maximum for strings.
    """
    partition = FetchPartition(
        partition=METADATA_PARTITION,
        current_leader_epoch=position.leader_epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.last_epoch,
        partition_max_bytes=max_bytes,
        high_watermark=position.high_watermark,
    )
    request = FetchRequest(
        cluster_id=cluster_id,
        replica_id=OBSERVER_ID,
        max_wait=timedelta(milliseconds=max_wait_ms),
        max_bytes=max_bytes,
        topics=(FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )
    return write_request(QuorumKey.FETCH, version, request)


def decode_fetch(version: int, body: bytes | bytearray) -> FetchAnswer:
    """Return the answer in ``body``. A bytearray is consumed: it becomes the records.

    Raises:
        DecodeError: the bytes are not an answer about the metadata log.
    """
    answer: quorum_messages.FetchAnswer = read_response(
        QuorumKey.FETCH, version, body, items_max=ITEMS_MAX, is_exact=True
    )
    found, records = FetchAnswer(error_code=0), _NO_RECORDS
    topic = _find_only(answer.responses, "responses", may_lack=answer.error_code != 0)
    if topic is not None:
        _expect("topic_id", topic.topic_id, METADATA_TOPIC_ID)
        found, records = _read_partition(_find_partition(topic.partitions))
    return replace(
        found,
        error_code=answer.error_code or found.error_code,
        endpoints={
            node_endpoint.node_id: (node_endpoint.host, _port(node_endpoint.port))
            for node_endpoint in answer.node_endpoints
        },
        records=cut_in_place(body, *records),
        throttle_ms=answer.throttle_time // timedelta(milliseconds=1),
    )


def encode_fetch_snapshot(
    version: int,
    *,
    cluster_id: str | None,
    snapshot: SnapshotId,
    position: int,
    leader_epoch: int,
    max_bytes: int,
) -> bytes:
    """Return the body of a FetchSnapshot for the piece at ``position``.

    Args:
        cluster_id: the cluster that is expected, or None.
        leader_epoch: the epoch of the leader that is asked; -1 if it is not known.
        max_bytes: maximum size of the piece.

    Raises:
        ValueError: the cluster id exceeds Kafka's maximum for strings.
    """
    partition = SnapshotPartition(
        partition=METADATA_PARTITION,
        current_leader_epoch=leader_epoch,
        snapshot_id=snapshot,
        position=position,
    )
    request = FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=OBSERVER_ID,
        max_bytes=max_bytes,
        topics=(SnapshotTopic(name=METADATA_TOPIC, partitions=(partition,)),),
    )
    return write_request(QuorumKey.FETCH_SNAPSHOT, version, request)


def decode_fetch_snapshot(version: int, body: bytes | bytearray) -> SnapshotAnswer:
    """Return the answer in ``body``. A bytearray is consumed: it becomes the data.

    Raises:
        DecodeError: the bytes are not an answer about the metadata log.
    """
    answer: quorum_messages.FetchSnapshotAnswer = read_response(
        QuorumKey.FETCH_SNAPSHOT, version, body, items_max=ITEMS_MAX, is_exact=True
    )
    found, data = SnapshotAnswer(error_code=0), _NO_RECORDS
    topic = _find_only(answer.topics, "topics", may_lack=answer.error_code != 0)
    if topic is not None:
        _expect("topic", topic.name, METADATA_TOPIC)
        found, data = _read_piece(_find_partition(topic.partitions))
    return replace(
        found,
        error_code=answer.error_code or found.error_code,
        data=cut_in_place(body, *data),
        endpoints={
            node_endpoint.node_id: (node_endpoint.host, node_endpoint.port)
            for node_endpoint in answer.node_endpoints
        },
        throttle_ms=answer.throttle_time // timedelta(milliseconds=1),
    )


def _find_only(items: Items[T], what: str, *, may_lack: bool = False) -> T | None:
    """Return the only item of an array.

    Args:
        may_lack: True if the array may be empty, because the whole request failed.
    """
    found = [*items]
    if len(found) > 1 or not (found or may_lack):
        raise DecodeError(f"{what}: expected 1, found {len(found)}", 0)
    return found[0] if found else None


def _find_partition(partitions: Items[T]) -> T:
    """Return the only partition."""
    found = _find_only(partitions, "partitions")
    assert found is not None, "an empty array is an error"
    return found


def _expect(what: str, found: object, expected: object) -> None:
    """Raise DecodeError if a field does not have the expected value."""
    if found != expected:
        raise DecodeError(f"{what}: expected {expected}, found {found!r}", 0)


def _read_partition(
    partition: quorum_messages.FetchedPartition,
) -> tuple[FetchAnswer, tuple[int, int]]:
    """Return the answer without its records, and the bounds of the records."""
    _expect("partition_index", partition.partition_index, METADATA_PARTITION)
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    answer = FetchAnswer(
        error_code=partition.error_code,
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        leader_id=partition.current_leader.leader_id,
        leader_epoch=partition.current_leader.leader_epoch,
        diverging=diverging if _is_set("diverging_epoch", diverging) else None,
        snapshot=snapshot if _is_set("snapshot_id", snapshot) else None,
    )
    return answer, partition.records or _NO_RECORDS


def _read_piece(piece: quorum_messages.FetchedPiece) -> tuple[SnapshotAnswer, tuple[int, int]]:
    """Return the answer without its data, and the bounds of the data."""
    _expect("partition_index", piece.index, METADATA_PARTITION)
    size, position, data = piece.size, piece.position, piece.unaligned_records
    end = position + data[1] - data[0]
    if piece.error_code == 0 and not 0 <= position <= end <= size:
        raise DecodeError(f"position: bytes {position} to {end} of a snapshot of {size}", 0)
    answer = SnapshotAnswer(
        error_code=piece.error_code,
        # A missing tag would mean leader 0 of epoch 0 to Kafka, but the first epoch is 1.
        leader_id=piece.current_leader.leader_id,
        leader_epoch=piece.current_leader.leader_epoch,
        snapshot=piece.snapshot_id,
        size=size,
        position=position,
    )
    return answer, data


def _is_set(what: str, end: EpochEnd | SnapshotId) -> bool:
    """Return False for Kafka's default, in which both numbers are negative."""
    if (end.epoch < 0) != (end.end_offset < 0):
        raise DecodeError(f"{what}: found epoch {end.epoch} with end offset {end.end_offset}", 0)
    return end.epoch >= 0


def _port(port: int) -> int:
    if not 0 <= port <= 0xFFFF:
        raise DecodeError(f"port: expected 0 to 65535, found {port}", 0)
    return port
