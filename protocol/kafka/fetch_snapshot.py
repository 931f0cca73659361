"""FetchSnapshot: a snapshot of the metadata log, in pieces by position.

The pieces are cut anywhere, also in the middle of a record. Joined, they are the checkpoint's file.
Up to 4.3.1, Kafka fails to write the errors of a partition, such as SNAPSHOT_NOT_FOUND, and answers
UNKNOWN_SERVER_ERROR for the whole request instead.

**Invariant:** for any bytes, the result is an answer about the metadata log, or a DecodeError that
names the field.

Source: KIP-630, KIP-853; Kafka 4.3 FetchSnapshotRequest.json, FetchSnapshotResponse.json.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka import quorum_messages
from authorizerd.protocol.kafka.body_reader import cut_in_place
from authorizerd.protocol.kafka.fetch import (
    ITEMS_MAX,
    METADATA_PARTITION,
    METADATA_TOPIC,
    OBSERVER_ID,
    Endpoints,
    SnapshotId,
    expect,
    find_only,
    find_partition,
)
from authorizerd.protocol.kafka.messages import decode_response, encode_request
from authorizerd.protocol.kafka.quorum_messages import (
    FetchSnapshotRequest,
    RequestedSnapshotId,
    SnapshotPartition,
    SnapshotTopic,
)
from authorizerd.protocol.kafka.requested_apis import QuorumKey

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
    partition = SnapshotPartition(
        partition=METADATA_PARTITION,
        current_leader_epoch=leader_epoch,
        snapshot_id=RequestedSnapshotId(snapshot.end_offset, snapshot.epoch),
        position=position,
    )
    request = FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=OBSERVER_ID,
        max_bytes=max_bytes,
        topics=(SnapshotTopic(name=METADATA_TOPIC, partitions=(partition,)),),
    )
    return finish(encode_request(QuorumKey.FETCH_SNAPSHOT, version, request))


def decode_fetch_snapshot(version: int, body: bytes | bytearray) -> SnapshotAnswer:
    """Return the answer in ``body``. A bytearray is consumed: it becomes the data.

    Raises:
        DecodeError: the bytes are not an answer about the metadata log.
    """
    answer: quorum_messages.FetchSnapshotAnswer = finish(
        decode_response(QuorumKey.FETCH_SNAPSHOT, version, body, items_max=ITEMS_MAX, is_exact=True)
    )
    found, data = SnapshotAnswer(error_code=0), _NO_DATA
    topic = find_only(answer.topics, "topics", may_lack=answer.error_code != 0)
    if topic is not None:
        expect("topic", topic.name, METADATA_TOPIC)
        found, data = _read_piece(find_partition(topic.partitions))
    return replace(
        found,
        error_code=answer.error_code or found.error_code,
        data=cut_in_place(body, *data),
        endpoints={each.node_id: (each.host, each.port) for each in answer.node_endpoints},
        throttle_ms=answer.throttle_time // timedelta(milliseconds=1),
    )


def _read_piece(piece: quorum_messages.FetchedPiece) -> tuple[SnapshotAnswer, tuple[int, int]]:
    """Return the answer without its data, and the bounds of the data."""
    expect("partition_index", piece.index, METADATA_PARTITION)
    size, position, data = piece.size, piece.position, piece.unaligned_records
    end = position + data[1] - data[0]
    if piece.error_code == 0 and not 0 <= position <= end <= size:
        raise DecodeError(f"position: bytes {position} to {end} of a snapshot of {size}", 0)
    answer = SnapshotAnswer(
        error_code=piece.error_code,
        # A missing tag would mean leader 0 of epoch 0 to Kafka, but the first epoch is 1.
        leader_id=piece.current_leader.leader_id,
        leader_epoch=piece.current_leader.leader_epoch,
        snapshot=SnapshotId(piece.snapshot_id.end_offset, piece.snapshot_id.epoch),
        size=size,
        position=position,
    )
    return answer, data
