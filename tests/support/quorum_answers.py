"""Answers about a metadata log as kio writes them, with any of their fields changed."""

from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode as KioErrorCode

from authorizerd.protocol.kafka.api import QuorumKey
from authorizerd.protocol.kafka.fetch import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    FetchAnswer,
    SnapshotAnswer,
)
from tests.support.kio_messages import response_module, written_by_kio

FETCH_VERSION_WITH_ENDPOINTS: Final = 16


def write_fetch(
    version: int,
    answer: FetchAnswer,
    *,
    top_error: int = 0,
    topics: int = 1,
    partitions: int = 1,
    **changed: object,
) -> bytes:
    """Return the body of an answer; ``changed`` has a ``topic_id`` or fields of the partition."""
    kio = response_module(QuorumKey.FETCH, version)
    partition: dict[str, Any] = {
        "partition_index": 0,
        "error_code": KioErrorCode(answer.error_code),
        "high_watermark": answer.high_watermark,
        "last_stable_offset": -1,
        "log_start_offset": answer.log_start_offset,
        "current_leader": kio.LeaderIdAndEpoch(
            leader_id=answer.leader_id, leader_epoch=answer.leader_epoch
        ),
        "aborted_transactions": None,
        "records": bytes(answer.records),
    }
    if (found := answer.diverging) is not None:
        partition["diverging_epoch"] = kio.EpochEndOffset(
            epoch=found.epoch, end_offset=found.end_offset
        )
    if (snapshot := answer.snapshot) is not None:
        partition["snapshot_id"] = kio.SnapshotId(
            end_offset=snapshot.end_offset, epoch=snapshot.epoch
        )
    topic = kio.FetchableTopicResponse(
        topic_id=changed.pop("topic_id", METADATA_TOPIC_ID),
        partitions=(kio.PartitionData(**{**partition, **changed}),) * partitions,
    )
    response = {
        "throttle_time": timedelta(milliseconds=answer.throttle_ms),
        "error_code": KioErrorCode(top_error),
        "responses": (topic,) * topics,
    }
    if version >= FETCH_VERSION_WITH_ENDPOINTS:
        response["node_endpoints"] = _endpoints(kio, answer)
    return written_by_kio(kio.FetchResponse(**response))


def write_fetch_snapshot(
    version: int,
    answer: SnapshotAnswer,
    *,
    top_error: int = 0,
    topics: int = 1,
    partitions: int = 1,
    **changed: object,
) -> bytes:
    """Return the body of an answer; ``changed`` has another name of the topic, or index."""
    kio = response_module(QuorumKey.FETCH_SNAPSHOT, version)
    assert answer.snapshot is not None
    partition = kio.PartitionSnapshot(
        index=changed.get("index", 0),
        error_code=KioErrorCode(answer.error_code),
        snapshot_id=kio.SnapshotId(
            end_offset=answer.snapshot.end_offset, epoch=answer.snapshot.epoch
        ),
        current_leader=kio.LeaderIdAndEpoch(
            leader_id=answer.leader_id, leader_epoch=answer.leader_epoch
        ),
        size=answer.size,
        position=answer.position,
        unaligned_records=bytes(answer.data),
    )
    topic = kio.TopicSnapshot(
        name=changed.get("name", METADATA_TOPIC), partitions=(partition,) * partitions
    )
    response = {
        "throttle_time": timedelta(milliseconds=answer.throttle_ms),
        "error_code": KioErrorCode(top_error),
        "topics": (topic,) * topics,
    }
    if version:
        response["node_endpoints"] = _endpoints(kio, answer)
    return written_by_kio(kio.FetchSnapshotResponse(**response))


def _endpoints(kio: Any, answer: FetchAnswer | SnapshotAnswer) -> tuple[object, ...]:  # noqa: ANN401 - a module
    return tuple(
        kio.NodeEndpoint(node_id=node_id, host=host, port=port)
        for node_id, (host, port) in answer.endpoints.items()
    )
