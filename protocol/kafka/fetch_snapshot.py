"""FetchSnapshot: a snapshot of the metadata log, in pieces by position.

The pieces are cut anywhere, also in the middle of a record. Joined, they are the checkpoint's file.
Up to 4.3.1, Kafka fails to write the errors of a partition, such as SNAPSHOT_NOT_FOUND, and answers
UNKNOWN_SERVER_ERROR for the whole request instead.

**Invariant:** for any bytes, the result is an answer about the metadata log, or a DecodeError that
names the field.

Source: KIP-630, KIP-853; Kafka 4.3 FetchSnapshotRequest.json, FetchSnapshotResponse.json.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

import msgspec
from kio.index import load_request_schema
from msgspec.structs import replace

from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.body_reader import BodyReader, cut_in_place
from authorizerd.protocol.kafka.fetch import (
    ENDPOINTS_TAG,
    ITEMS_MAX,
    METADATA_PARTITION,
    METADATA_TOPIC,
    OBSERVER_ID,
    Endpoints,
    SnapshotId,
    expect_partition,
    expect_topic_name,
    has_topic,
    read_leader,
    read_snapshot_id,
)
from authorizerd.protocol.kafka.message_codec import encode_entity
from authorizerd.protocol.kafka.requested_apis import REQUESTED_APIS, QuorumKey

_REQUEST_TYPES: Final = {
    version: load_request_schema(QuorumKey.FETCH_SNAPSHOT, version)
    for version in REQUESTED_APIS[QuorumKey.FETCH_SNAPSHOT].versions
}
_LEADER_TAG: Final = 0
_NO_DATA: Final = (0, 0)


class SnapshotAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a FetchSnapshot. An answer with an error may have a leader, too.

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
    partition = SimpleNamespace(
        partition=METADATA_PARTITION,
        current_leader_epoch=leader_epoch,
        snapshot_id=snapshot,
        position=position,
    )
    request = SimpleNamespace(
        cluster_id=cluster_id,
        replica_id=OBSERVER_ID,
        max_bytes=max_bytes,
        topics=(SimpleNamespace(name=METADATA_TOPIC, partitions=(partition,)),),
    )
    return finish(encode_entity(_REQUEST_TYPES[version], request))


def decode_fetch_snapshot(version: int, body: bytes | bytearray) -> SnapshotAnswer:
    """Return the answer in ``body``. A bytearray is consumed: it becomes the data.

    Raises:
        DecodeError: the bytes are not an answer about the metadata log.
    """
    reader = BodyReader(body, flexible=True, items_max=ITEMS_MAX)
    throttle_ms = reader.int32("throttle_time_ms")
    error_code = reader.int16("error_code")
    answer, data = SnapshotAnswer(error_code=error_code), _NO_DATA
    if has_topic(reader, "topics", may_lack=error_code != 0):
        expect_topic_name(reader)
        answer, data = _read_partition(reader)
        reader.end_structure()
    endpoints: Endpoints = {}
    for tag in reader.open_tags():
        if tag == ENDPOINTS_TAG:
            endpoints = _read_endpoints(reader)
    reader.expect_end("FetchSnapshot")
    return replace(
        answer,
        error_code=error_code or answer.error_code,
        data=cut_in_place(body, *data),
        endpoints=endpoints,
        throttle_ms=throttle_ms,
    )


def _read_partition(reader: BodyReader) -> tuple[SnapshotAnswer, tuple[int, int]]:
    """Return the answer without its data, and the bounds of the data."""
    expect_partition(reader)
    error_code = reader.int16("error_code")
    snapshot = read_snapshot_id(reader)
    start = reader.position
    size, position = reader.int64("size"), reader.int64("position")
    data = reader.byte_range("unaligned_records")
    end = position + data[1] - data[0]
    if error_code == 0 and not 0 <= position <= end <= size:
        raise DecodeError(f"position: bytes {position} to {end} of a snapshot of {size}", start)
    # A missing tag would mean leader 0 of epoch 0 to Kafka, but the first epoch is 1.
    leader_id = leader_epoch = -1
    for tag in reader.open_tags():
        if tag == _LEADER_TAG:
            leader_id, leader_epoch = read_leader(reader)
    answer = SnapshotAnswer(
        error_code=error_code,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        snapshot=snapshot,
        size=size,
        position=position,
    )
    return answer, data


def _read_endpoints(reader: BodyReader) -> Endpoints:
    endpoints: dict[int, tuple[str, int]] = {}
    for _ in range(reader.array_length("node_endpoints")):
        node_id, host = reader.int32("node_id"), reader.string("host")
        endpoints[node_id] = host, reader.int16("port") & 0xFFFF
        reader.end_structure()
    return endpoints
