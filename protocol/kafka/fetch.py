"""Fetch as an observer of the metadata quorum sends it, and the leader's answer.

An observer has no vote and no id: it fetches with replica id -1 and without a directory id. Its
position tells the leader what it has. The answer has the records that follow, or the place where
the logs diverge, or the snapshot that replaces the records.

**Invariant:** for any bytes, the result is an answer about the metadata log, or a DecodeError that
names the field. Records are not copied.

Source: KIP-595, KIP-630, KIP-853; KIP-1166 for the high watermark in version 18; Kafka 4.3
FetchRequest.json, FetchResponse.json, KafkaRaftClient.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import IntEnum
from types import SimpleNamespace
from typing import Final, TypeAlias
from uuid import UUID

import msgspec
from kio.index import load_request_schema
from msgspec.structs import replace

from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.body_reader import BodyReader, cut_in_place
from authorizerd.protocol.kafka.message_codec import encode_entity
from authorizerd.protocol.kafka.requested_apis import REQUESTED_APIS, QuorumKey

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = UUID(int=1)
METADATA_PARTITION: Final = 0
OBSERVER_ID: Final = -1
ITEMS_MAX: Final = 1000
"""The maximum number of items in all arrays of an answer: one partition, and some endpoints."""
ENDPOINTS_TAG: Final = 0

_VERSIONS: Final = REQUESTED_APIS[QuorumKey.FETCH].versions
_REQUEST_TYPES: Final = {
    version: load_request_schema(QuorumKey.FETCH, version) for version in _VERSIONS
}
_NO_SESSION_EPOCH: Final = -1
_NO_RECORDS: Final = (0, 0)


class _Tag(IntEnum):
    """The tagged fields of a partition."""

    DIVERGING = 0
    LEADER = 1
    SNAPSHOT = 2


Endpoints: TypeAlias = Mapping[int, tuple[str, int]]
"""Host and port of controllers by node id."""


class FetchPosition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How much of the log a follower has.

    Args:
        offset: the offset of the next record that is wanted.
        last_epoch: the epoch of the record before it; 0 if there is none.
        leader_epoch: the epoch of the leader that is asked; 0 if it is not known.
        high_watermark: the follower's own, or -1. From version 18 on, a leader with a higher one
            answers at once.
    """

    offset: int
    last_epoch: int
    leader_epoch: int
    high_watermark: int = -1


class EpochEnd(msgspec.Struct, frozen=True, gc=False):
    """The last epoch that both logs have, and its end offset in the leader's log (exclusive)."""

    epoch: int
    end_offset: int


class SnapshotId(msgspec.Struct, frozen=True, gc=False):
    """A snapshot: the offset after its last record, and that record's epoch."""

    end_offset: int
    epoch: int


class FetchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a Fetch. An answer with an error may have a leader and its endpoint, too.

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
        cluster_id: the cluster that is expected: any other one answers INCONSISTENT_CLUSTER_ID.
            None expects no certain one.
        max_wait_ms: how long the leader waits for a new record.
        max_bytes: maximum size of the records, but the leader returns at least the first batch.
            Before Kafka 4.3, leaders ignore it, and return up to 8 MiB.

    Raises:
        ValueError: the cluster id exceeds Kafka's maximum for strings.
    """
    partition = SimpleNamespace(
        partition=METADATA_PARTITION,
        current_leader_epoch=position.leader_epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.last_epoch,
        log_start_offset=-1,
        partition_max_bytes=max_bytes,
        high_watermark=position.high_watermark,
    )
    topic = SimpleNamespace(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    request = SimpleNamespace(
        cluster_id=cluster_id,
        replica_id=OBSERVER_ID,
        max_wait=timedelta(milliseconds=max_wait_ms),
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=_NO_SESSION_EPOCH,
        topics=(topic,),
        forgotten_topics_data=(),
        rack_id="",
    )
    return finish(encode_entity(_REQUEST_TYPES[version], request))


def decode_fetch(version: int, body: bytes | bytearray) -> FetchAnswer:
    """Return the answer in ``body``, which is the same in every version.

    A bytearray is consumed: it becomes the records.

    Raises:
        DecodeError: the bytes are not an answer about the metadata log.
    """
    reader = BodyReader(body, flexible=True, items_max=ITEMS_MAX)
    throttle_ms = reader.int32("throttle_time_ms")
    error_code = reader.int16("error_code")
    reader.int32("session_id")
    answer, records = FetchAnswer(error_code=error_code), _NO_RECORDS
    if has_topic(reader, "responses", may_lack=error_code != 0):
        _expect_topic_id(reader)
        answer, records = _read_partition(reader)
        reader.end_structure()
    endpoints: Endpoints = {}
    for tag in reader.open_tags():
        if tag == ENDPOINTS_TAG:
            endpoints = _read_endpoints(reader)
    reader.expect_end("Fetch")
    return replace(
        answer,
        error_code=error_code or answer.error_code,
        endpoints=endpoints,
        records=cut_in_place(body, *records),
        throttle_ms=throttle_ms,
    )


def has_topic(reader: BodyReader, what: str, *, may_lack: bool) -> bool:
    """Return True if one topic follows, or False if the array of topics is empty.

    Args:
        may_lack: True if the array may be empty, because the whole request failed.
    """
    start = reader.position
    count = reader.array_length(what)
    if count > 1 or not (count or may_lack):
        raise DecodeError(f"{what}: expected 1 topic, found {count}", start)
    return count == 1


def expect_partition(reader: BodyReader) -> None:
    """Read the start of the only partition, whose error code follows."""
    start = reader.position
    count = reader.array_length("partitions")
    if count != 1:
        raise DecodeError(f"partitions: expected 1 partition, found {count}", start)
    start = reader.position
    index = reader.int32("partition_index")
    if index != METADATA_PARTITION:
        raise DecodeError(f"partition_index: expected {METADATA_PARTITION}, found {index}", start)


def expect_topic_name(reader: BodyReader) -> None:
    start = reader.position
    name = reader.string("topic")
    if name != METADATA_TOPIC:
        raise DecodeError(f"topic: expected {METADATA_TOPIC}, found {name!r}", start)


def _expect_topic_id(reader: BodyReader) -> None:
    start = reader.position
    topic_id = reader.uuid("topic_id")
    if topic_id != METADATA_TOPIC_ID:
        raise DecodeError(f"topic_id: expected {METADATA_TOPIC_ID}, found {topic_id}", start)


def _read_partition(reader: BodyReader) -> tuple[FetchAnswer, tuple[int, int]]:
    """Return the answer without its records, and the bounds of the records."""
    expect_partition(reader)
    error_code = reader.int16("error_code")
    high_watermark = reader.int64("high_watermark")
    reader.int64("last_stable_offset")
    log_start_offset = reader.int64("log_start_offset")
    for _ in range(reader.nullable_array_length("aborted_transactions") or 0):
        reader.int64("producer_id")
        reader.int64("first_offset")
        reader.end_structure()
    reader.int32("preferred_read_replica")
    records = reader.nullable_byte_range("records") or _NO_RECORDS
    answer = FetchAnswer(
        error_code=error_code, high_watermark=high_watermark, log_start_offset=log_start_offset
    )
    for tag in reader.open_tags():
        match tag:
            case _Tag.DIVERGING:
                answer = replace(answer, diverging=_read_epoch_end(reader))
            case _Tag.LEADER:
                leader_id, leader_epoch = read_leader(reader)
                answer = replace(answer, leader_id=leader_id, leader_epoch=leader_epoch)
            case _Tag.SNAPSHOT:
                answer = replace(answer, snapshot=_read_snapshot(reader))
    return answer, records


def _read_epoch_end(reader: BodyReader) -> EpochEnd | None:
    start = reader.position
    found = EpochEnd(reader.int32("diverging_epoch"), reader.int64("end_offset"))
    reader.end_structure()
    return found if _is_set("diverging_epoch", found.epoch, found.end_offset, start) else None


def _read_snapshot(reader: BodyReader) -> SnapshotId | None:
    start = reader.position
    found = read_snapshot_id(reader)
    return found if _is_set("snapshot_id", found.epoch, found.end_offset, start) else None


def _is_set(what: str, epoch: int, end_offset: int, position: int) -> bool:
    """Return False for Kafka's default, of which both numbers are negative."""
    if (epoch < 0) != (end_offset < 0):
        raise DecodeError(f"{what}: found epoch {epoch} with end offset {end_offset}", position)
    return epoch >= 0


def read_leader(reader: BodyReader) -> tuple[int, int]:
    """Return the leader's id and epoch, -1 each if it is not known."""
    leader = reader.int32("leader_id"), reader.int32("leader_epoch")
    reader.end_structure()
    return leader


def read_snapshot_id(reader: BodyReader) -> SnapshotId:
    found = SnapshotId(reader.int64("end_offset"), reader.int32("epoch"))
    reader.end_structure()
    return found


def _read_endpoints(reader: BodyReader) -> Endpoints:
    endpoints: dict[int, tuple[str, int]] = {}
    for _ in range(reader.array_length("node_endpoints")):
        node_id, host = reader.int32("node_id"), reader.string("host")
        start = reader.position
        port = reader.int32("port")
        if not 0 <= port <= 0xFFFF:
            raise DecodeError(f"port: expected 0 to 65535, found {port}", start)
        reader.nullable_string("rack")
        reader.end_structure()
        endpoints[node_id] = host, port
    return endpoints
