"""Fetch and FetchSnapshot: against kio's reader and writer, cut, damaged, and too large to copy."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import REQUESTED_APIS, QuorumKey
from authorizerd.protocol.kafka.fetch import (
    ITEMS_MAX,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    Endpoints,
    FetchAnswer,
    FetchPosition,
    SnapshotAnswer,
    decode_fetch,
    decode_fetch_snapshot,
    encode_fetch,
    encode_fetch_snapshot,
)
from authorizerd.protocol.kafka.quorum_messages import EpochEnd, SnapshotId
from tests.protocol.decoding import check_any, check_cuts, decode_measured
from tests.support.kio_messages import read_by_kio, response_module
from tests.support.quorum_answers import (
    FETCH_VERSION_WITH_ENDPOINTS,
    write_fetch,
    write_fetch_snapshot,
)
from tests.support.sizes import size

VERSIONS = REQUESTED_APIS[QuorumKey.FETCH].versions
MIB = 1 << 20
SNAPSHOT_VERSIONS = REQUESTED_APIS[QuorumKey.FETCH_SNAPSHOT].versions
each_version = pytest.mark.parametrize("version", VERSIONS)
each_snapshot_version = pytest.mark.parametrize("version", SNAPSHOT_VERSIONS)
some_examples = settings(max_examples=20)

offsets = st.integers(0, 2**63 - 1)
epochs = st.integers(0, 2**31 - 1)
waits = st.integers(0, 2**31 - 1)
endpoints = st.dictionaries(
    st.integers(-1, 3000), st.tuples(st.text("ab.", max_size=3), st.integers(0, 65535)), max_size=3
)
answers = st.builds(
    FetchAnswer,
    error_code=st.sampled_from([0, 6, 29, 41, 74, 75, 76, 104]),
    high_watermark=st.integers(-1, 2**63 - 1),
    log_start_offset=offsets,
    leader_id=st.integers(-1, 3000),
    leader_epoch=st.integers(-1, 2**31 - 1),
    diverging=st.none() | st.builds(EpochEnd, epochs, offsets),
    snapshot=st.none() | st.builds(SnapshotId, offsets, epochs),
    endpoints=endpoints,
    records=st.binary(max_size=20),
    throttle_ms=waits,
)


FULL = FetchAnswer(
    error_code=0,
    high_watermark=1 << 40,
    log_start_offset=5,
    leader_id=3,
    leader_epoch=7,
    diverging=EpochEnd(2, 9),
    snapshot=SnapshotId(11, 1),
    endpoints={3: ("host", 9093)},
    records=b"batches",
)


@st.composite
def snapshot_answers(draw: st.DrawFn) -> SnapshotAnswer:
    data, position = draw(st.binary(max_size=20)), draw(st.integers(0, 2**62))
    return SnapshotAnswer(
        error_code=draw(st.sampled_from([0, 6, 74, 98, 99])),
        leader_id=draw(st.integers(-1, 3000)),
        leader_epoch=draw(st.just(-1) | st.integers(1, 2**31 - 1)),
        snapshot=draw(st.builds(SnapshotId, offsets, epochs)),
        size=position + len(data) + draw(st.integers(0, 99)),
        position=position,
        data=data,
        endpoints=draw(endpoints),
        throttle_ms=draw(epochs),
    )


SNAPSHOT = SnapshotAnswer(
    error_code=0,
    leader_id=3,
    leader_epoch=7,
    snapshot=SnapshotId(11, 1),
    size=100,
    position=40,
    data=b"piece",
    endpoints={3: ("host", 60000)},
)
BOTH: dict[str, tuple[Callable[..., Any], Callable[..., bytes], Any, st.SearchStrategy[Any]]] = {
    "fetch": (decode_fetch, write_fetch, FULL, answers),
    "snapshot": (decode_fetch_snapshot, write_fetch_snapshot, SNAPSHOT, snapshot_answers()),
}
"""How each answer is read and written, a full one, and any."""

each_answer = pytest.mark.parametrize(
    ("name", "version"),
    [("fetch", each) for each in VERSIONS] + [("snapshot", each) for each in SNAPSHOT_VERSIONS],
)


@each_version
@some_examples
@given(
    position=st.builds(
        FetchPosition,
        offset=offsets,
        last_epoch=epochs,
        leader_epoch=epochs,
        high_watermark=st.integers(-1, 2**63 - 1),
    ),
    cluster_id=st.none() | st.text("aZ9-_", max_size=22),
    max_wait_ms=waits,
    max_bytes=waits,
)
def test_request_of_an_observer_is_read_by_kio(
    version: int,
    position: FetchPosition,
    cluster_id: str | None,
    max_wait_ms: int,
    max_bytes: int,
) -> None:
    """It has no directory id, and takes part in no session."""
    body = encode_fetch(
        version,
        cluster_id=cluster_id,
        position=position,
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
    )
    request: Any = read_by_kio(QuorumKey.FETCH, version, body)
    state = request if version < 15 else request.replica_state
    assert (state.replica_id, request.cluster_id) == (-1, cluster_id)
    assert request.max_wait == timedelta(milliseconds=max_wait_ms)
    assert (request.session_id, request.session_epoch, request.max_bytes) == (0, -1, max_bytes)
    [topic] = request.topics
    assert topic.topic_id == METADATA_TOPIC_ID
    [partition] = topic.partitions
    assert (partition.partition, partition.partition_max_bytes) == (0, max_bytes)
    assert (
        FetchPosition(
            offset=partition.fetch_offset,
            last_epoch=partition.last_fetched_epoch,
            leader_epoch=partition.current_leader_epoch,
            high_watermark=getattr(partition, "high_watermark", position.high_watermark),
        )
        == position
    )
    assert getattr(partition, "replica_directory_id", None) is None


def test_high_watermark_is_written_from_version_18_on() -> None:
    """-1 is written, too: it means that the follower can use the field."""
    position = FetchPosition(offset=1, last_epoch=1, leader_epoch=1, high_watermark=-1)
    fetch = partial(encode_fetch, cluster_id=None, position=position, max_wait_ms=1, max_bytes=1)
    request: Any = read_by_kio(QuorumKey.FETCH, 18, fetch(18))
    assert request.topics[0].partitions[0].high_watermark == -1
    assert len(fetch(18)) > len(fetch(17))


@each_version
@some_examples
@given(answer=answers)
def test_answer_of_kio_is_decoded(version: int, answer: FetchAnswer) -> None:
    has_endpoints = version >= FETCH_VERSION_WITH_ENDPOINTS
    expected = answer if has_endpoints else replace(answer, endpoints={})
    body = write_fetch(version, answer)
    assert decode_fetch(version, body) == expected
    assert decode_fetch(version, bytearray(body)) == expected


@each_snapshot_version
@some_examples
@given(
    snapshot=st.builds(SnapshotId, offsets, epochs),
    cluster_id=st.none() | st.text("aZ9-_", max_size=22),
    position=offsets,
    leader_epoch=st.integers(-1, 2**31 - 1),
    max_bytes=epochs,
)
def test_request_for_a_snapshot_is_read_by_kio(
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


@each_snapshot_version
@some_examples
@given(answer=snapshot_answers())
def test_snapshot_of_kio_is_decoded(version: int, answer: SnapshotAnswer) -> None:
    expected = answer if version else replace(answer, endpoints={})
    body = write_fetch_snapshot(version, answer)
    assert decode_fetch_snapshot(version, body) == expected
    assert decode_fetch_snapshot(version, bytearray(body)) == expected


@each_answer
def test_error_of_the_whole_answer_comes_first(name: str, version: int) -> None:
    """Such an answer need not have a partition."""
    decode, write, full, _ = BOTH[name]
    for topics in (0, 1):
        body = write(version, full, top_error=31, topics=topics)
        assert decode(version, body).error_code == 31


@each_version
def test_null_records_are_empty(version: int) -> None:
    assert decode_fetch(version, write_fetch(version, FULL, records=None)).records == b""


def test_aborted_transactions_are_skipped() -> None:
    kio = response_module(QuorumKey.FETCH, 17)
    aborted = (kio.AbortedTransaction(producer_id=1, first_offset=2),) * 3
    assert decode_fetch(17, write_fetch(17, FULL, aborted_transactions=aborted)) == FULL


@pytest.mark.parametrize(
    ("name", "version", "changed", "said"),
    [
        ("fetch", 17, {"topics": 0}, "responses: expected 1, found 0"),
        ("fetch", 17, {"topics": 2}, "responses: expected 1, found 2"),
        ("fetch", 17, {"partitions": 0}, "partitions: expected 1, found 0"),
        ("fetch", 17, {"partitions": 2}, "partitions: expected 1, found 2"),
        ("fetch", 17, {"partition_index": 1}, "partition_index: expected 0, found 1"),
        (
            *("fetch", 17, {"topic_id": None}),
            "topic_id: expected 00000000-0000-0000-0000-000000000001, found None",
        ),
        ("snapshot", 1, {"topics": 0}, "topics: expected 1, found 0"),
        ("snapshot", 1, {"partitions": 2}, "partitions: expected 1, found 2"),
        ("snapshot", 1, {"index": 1}, "partition_index: expected 0, found 1"),
        ("snapshot", 1, {"name": "other"}, "topic: expected __cluster_metadata, found 'other'"),
    ],
)
def test_answer_about_something_else_is_rejected(
    name: str, version: int, changed: dict[str, Any], said: str
) -> None:
    decode, write, full, _ = BOTH[name]
    with pytest.raises(DecodeError, match=said):
        decode(version, write(version, full, **changed))


@pytest.mark.parametrize(
    ("field", "type_name", "values"),
    [
        ("diverging_epoch", "EpochEndOffset", {"epoch": 3, "end_offset": -1}),
        ("diverging_epoch", "EpochEndOffset", {"epoch": -1, "end_offset": 3}),
        ("snapshot_id", "SnapshotId", {"epoch": -1, "end_offset": 3}),
    ],
)
def test_half_of_a_position_is_rejected(field: str, type_name: str, values: dict[str, int]) -> None:
    kio = response_module(QuorumKey.FETCH, 17)
    with pytest.raises(DecodeError, match=f"{field}: found epoch"):
        decode_fetch(17, write_fetch(17, FULL, **{field: getattr(kio, type_name)(**values)}))


@pytest.mark.parametrize(("position", "size"), [(-1, 100), (96, 100), (0, -1)])
def test_piece_outside_of_the_snapshot_is_rejected(position: int, size: int) -> None:
    """An answer with an error may have any numbers."""
    answer = replace(SNAPSHOT, position=position, size=size)
    with pytest.raises(DecodeError, match=f"position: bytes {position} to {position + 5} of"):
        decode_fetch_snapshot(1, write_fetch_snapshot(1, answer))
    assert (
        decode_fetch_snapshot(1, write_fetch_snapshot(1, replace(answer, error_code=99))).error_code
        == 99
    )


@pytest.mark.parametrize(
    ("endpoints", "said"),
    [
        ({1: ("host", 65536)}, "port: expected 0 to 65535, found 65536"),
        (dict.fromkeys(range(ITEMS_MAX), ("", 0)), f"exceed the limit of {ITEMS_MAX}"),
    ],
    ids=["impossible port", "too many items"],
)
def test_invalid_endpoints_are_rejected(endpoints: Endpoints, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        decode_fetch(17, write_fetch(17, FetchAnswer(error_code=0, endpoints=endpoints)))


@each_answer
def test_cut_answer_is_rejected(name: str, version: int) -> None:
    decode, write, full, _ = BOTH[name]
    check_cuts(partial(decode, version), write(version, full))
    with pytest.raises(DecodeError, match="1 bytes too many"):
        decode(version, write(version, full) + b"\0")


@settings(max_examples=size(10, 200))
@pytest.mark.parametrize("name", BOTH)
@given(
    data=st.data(), place=st.integers(0), byte=st.integers(0, 255), garbage=st.binary(max_size=60)
)
def test_damaged_answer_is_an_answer_or_a_decode_error(
    name: str, data: st.DataObject, place: int, byte: int, garbage: bytes
) -> None:
    decode, write, _, answers = BOTH[name]
    version = data.draw(st.sampled_from(VERSIONS if name == "fetch" else SNAPSHOT_VERSIONS))
    body = bytearray(write(version, data.draw(answers)))
    body[place % len(body)] = byte
    check_any(partial(decode, version), bytes(body))
    check_any(partial(decode, version), garbage)


def test_records_are_not_copied() -> None:
    """The body itself becomes the records: a copy of 8 MiB would take milliseconds."""
    records = bytes(8 * MIB)
    body = bytearray(write_fetch(17, FetchAnswer(error_code=0, records=records)))
    answer, peak = decode_measured(partial(decode_fetch, 17), body)
    assert answer.records is body
    assert answer.records == records
    assert peak < MIB


def test_text_of_an_answer_has_no_records() -> None:
    answer = FetchAnswer(error_code=0, records=b"verifier")
    assert "verifier" not in repr(answer)
    assert "8 bytes" in repr(answer)


def test_data_is_not_copied() -> None:
    """The body itself becomes the data: a copy of 8 MiB would take milliseconds."""
    answer = replace(SNAPSHOT, position=0, size=8 * MIB, data=bytes(8 * MIB))
    body = bytearray(write_fetch_snapshot(1, answer))
    found, peak = decode_measured(partial(decode_fetch_snapshot, 1), body)
    assert found.data is body
    assert found == answer
    assert peak < MIB


def test_text_of_a_snapshot_has_no_data() -> None:
    assert "piece" not in repr(SNAPSHOT)
    assert "5 bytes" in repr(SNAPSHOT)
