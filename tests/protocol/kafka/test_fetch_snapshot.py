"""FetchSnapshot: against kio's reader and writer, cut, damaged, and too large to copy."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import REQUESTED_APIS, QuorumKey
from authorizerd.protocol.kafka.fetch import (
    METADATA_TOPIC,
    SnapshotAnswer,
    decode_fetch_snapshot,
    encode_fetch_snapshot,
)
from authorizerd.protocol.kafka.quorum_messages import SnapshotId
from tests.protocol.decoding import check_any, check_cuts, decode_measured
from tests.support.kio_messages import read_by_kio
from tests.support.quorum_answers import write_fetch_snapshot
from tests.support.sizes import size

VERSIONS = REQUESTED_APIS[QuorumKey.FETCH_SNAPSHOT].versions
MIB = 1 << 20
each_version = pytest.mark.parametrize("version", VERSIONS)
some_examples = settings(max_examples=20)

offsets = st.integers(0, 2**63 - 1)
epochs = st.integers(0, 2**31 - 1)
snapshots = st.builds(SnapshotId, offsets, epochs)


@st.composite
def any_answer(draw: st.DrawFn) -> SnapshotAnswer:
    data, position = draw(st.binary(max_size=20)), draw(st.integers(0, 2**62))
    return SnapshotAnswer(
        error_code=draw(st.sampled_from([0, 6, 74, 98, 99])),
        leader_id=draw(st.integers(-1, 3000)),
        leader_epoch=draw(st.just(-1) | st.integers(1, 2**31 - 1)),
        snapshot=draw(snapshots),
        size=position + len(data) + draw(st.integers(0, 99)),
        position=position,
        data=data,
        endpoints=draw(
            st.dictionaries(
                st.integers(-1, 3000),
                st.tuples(st.text("ab.", max_size=3), st.integers(0, 65535)),
                max_size=3,
            )
        ),
        throttle_ms=draw(epochs),
    )


FULL = SnapshotAnswer(
    error_code=0,
    leader_id=3,
    leader_epoch=7,
    snapshot=SnapshotId(11, 1),
    size=100,
    position=40,
    data=b"piece",
    endpoints={3: ("host", 60000)},
)


@each_version
@some_examples
@given(
    snapshot=snapshots,
    cluster_id=st.none() | st.text("aZ9-_", max_size=22),
    position=offsets,
    leader_epoch=st.integers(-1, 2**31 - 1),
    max_bytes=epochs,
)
def test_request_of_an_observer_is_read_by_kio(
    version: int,
    snapshot: SnapshotId,
    cluster_id: str | None,
    position: int,
    leader_epoch: int,
    max_bytes: int,
) -> None:
    body = encode_fetch_snapshot(
        version,
        cluster_id=cluster_id,
        snapshot=snapshot,
        position=position,
        leader_epoch=leader_epoch,
        max_bytes=max_bytes,
    )
    request: Any = read_by_kio(QuorumKey.FETCH_SNAPSHOT, version, body)
    assert (request.replica_id, request.cluster_id) == (-1, cluster_id)
    assert request.max_bytes == max_bytes
    [topic] = request.topics
    [partition] = topic.partitions
    assert (topic.name, partition.partition) == (METADATA_TOPIC, 0)
    assert (partition.position, partition.current_leader_epoch) == (position, leader_epoch)
    found = partition.snapshot_id
    assert SnapshotId(found.end_offset, found.epoch) == snapshot
    assert getattr(partition, "replica_directory_id", None) is None


@each_version
@some_examples
@given(answer=any_answer())
def test_answer_of_kio_is_decoded(version: int, answer: SnapshotAnswer) -> None:
    expected = answer if version else replace(answer, endpoints={})
    body = write_fetch_snapshot(version, answer)
    assert decode_fetch_snapshot(version, body) == expected
    assert decode_fetch_snapshot(version, bytearray(body)) == expected


@each_version
def test_error_of_the_whole_answer_comes_first(version: int) -> None:
    """Such an answer need not have a partition."""
    for topics in (0, 1):
        body = write_fetch_snapshot(version, FULL, top_error=31, topics=topics)
        assert decode_fetch_snapshot(version, body).error_code == 31


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"topics": 0}, "topics: expected 1, found 0"),
        ({"partitions": 2}, "partitions: expected 1, found 2"),
        ({"index": 1}, "partition_index: expected 0, found 1"),
        ({"name": "other"}, "topic: expected __cluster_metadata, found 'other'"),
    ],
)
def test_answer_about_something_else_is_rejected(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        decode_fetch_snapshot(1, write_fetch_snapshot(1, FULL, **changed))


@pytest.mark.parametrize(("position", "size"), [(-1, 100), (96, 100), (0, -1)])
def test_piece_outside_of_the_snapshot_is_rejected(position: int, size: int) -> None:
    """An answer with an error may have any numbers."""
    answer = replace(FULL, position=position, size=size)
    with pytest.raises(DecodeError, match=f"position: bytes {position} to {position + 5} of"):
        decode_fetch_snapshot(1, write_fetch_snapshot(1, answer))
    assert (
        decode_fetch_snapshot(1, write_fetch_snapshot(1, replace(answer, error_code=99))).error_code
        == 99
    )


@each_version
def test_cut_answer_is_rejected(version: int) -> None:
    check_cuts(partial(decode_fetch_snapshot, version), write_fetch_snapshot(version, FULL))
    with pytest.raises(DecodeError, match="1 bytes too many"):
        decode_fetch_snapshot(version, write_fetch_snapshot(version, FULL) + b"\0")


@settings(max_examples=size(10, 200))
@given(
    version=st.sampled_from(VERSIONS),
    answer=any_answer(),
    place=st.integers(0),
    byte=st.integers(0, 255),
    garbage=st.binary(max_size=60),
)
def test_damaged_answer_is_an_answer_or_a_decode_error(
    version: int, answer: SnapshotAnswer, place: int, byte: int, garbage: bytes
) -> None:
    body = bytearray(write_fetch_snapshot(version, answer))
    body[place % len(body)] = byte
    check_any(partial(decode_fetch_snapshot, version), bytes(body))
    check_any(partial(decode_fetch_snapshot, version), garbage)


def test_data_is_not_copied() -> None:
    """The body itself becomes the data: a copy of 8 MiB would take milliseconds."""
    answer = replace(FULL, position=0, size=8 * MIB, data=bytes(8 * MIB))
    body = bytearray(write_fetch_snapshot(1, answer))
    found, peak = decode_measured(partial(decode_fetch_snapshot, 1), body)
    assert found.data is body
    assert found == answer
    assert peak < MIB


def test_text_of_an_answer_has_no_data() -> None:
    assert "piece" not in repr(FULL)
    assert "5 bytes" in repr(FULL)
