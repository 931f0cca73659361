"""Metadata records."""

from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import Acl, AclAdded, AclRemoved, Operation, PatternType, PermissionType
from authorizerd.acl.model import ResourceType as Resource
from authorizerd.image.changes import FeatureLevel
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.primitives import WireReader, compact_string
from authorizerd.protocol.records.batch import batch_size, decode_batch
from authorizerd.protocol.records.cluster import ClusterRecordType
from authorizerd.protocol.records.metadata import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    MetadataRecord,
    RecordType,
    decode_value,
    encode_value,
    encode_values,
)
from tests.protocol.records.samples import (
    ID,
    OF_VERSION_0,
    ONE_OF_EACH,
    decode,
    name_of,
    refusal,
    values_of,
)
from tests.support.log_files import acl_id, added
from tests.support.strategies import metadata_records

FROM_A_REAL_LOG = bytes.fromhex("011200") + ID + b"\x02\x06good1\x03\x07User:a\x02*\x03\x03\x00"


@given(metadata_records(), st.binary(max_size=3), st.binary(max_size=3))
def test_record_reads_back(record: MetadataRecord, before: bytes, after: bytes) -> None:
    """It may have any int8 codes, and be at any place in the buffer."""
    value = encode_value(record)
    assert decode_value(before + value + after, len(before), len(before) + len(value)) == record


@given(st.lists(metadata_records(), max_size=5))
def test_records_are_written_together_as_alone(records: list[MetadataRecord]) -> None:
    assert encode_values(records) == [encode_value(record) for record in records]


def test_acl_of_a_broker_is_read() -> None:
    acl = Acl(
        Resource.TOPIC, "good1", PatternType.LITERAL, "User:a", "*",
        Operation.READ, PermissionType.ALLOW,
    )  # fmt: skip
    assert decode(FROM_A_REAL_LOG) == AclAdded(ID, acl)
    assert encode_value(AclAdded(ID, acl)) == FROM_A_REAL_LOG


def test_records_of_a_broker_read_back_byte_for_byte(real_log_dir: Path) -> None:
    """Others are skipped. The log has 1,946 ACLs, 195 removals and a transaction."""
    log = (real_log_dir / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    types: Counter[type] = Counter()
    while log:
        batch = decode_batch(log[: batch_size(log)])
        log = log[len(batch.data) :]
        for value in values_of(batch):
            record = decode(value)
            types[type(record)] += 1
            assert record is None or encode_value(record) == value
    assert (types[AclAdded], types[AclRemoved]) == (1946, 195)
    assert types[BeginTransaction] == types[EndTransaction] == 1
    assert types[FeatureLevel] > 0
    assert types[type(None)] > 0


@pytest.mark.parametrize("record", ONE_OF_EACH, ids=name_of)
def test_cut_or_longer_record_is_rejected(record: MetadataRecord) -> None:
    value = encode_value(record)
    for end in range(len(value)):
        refusal(value[:end])
        with pytest.raises(DecodeError):
            decode_value(value, 0, end)
    assert refusal(value + b"\0") == "metadata record: 1 bytes too many"


@pytest.mark.parametrize("record", ONE_OF_EACH, ids=name_of)
def test_damaged_record_is_a_record_or_a_decode_error(record: MetadataRecord) -> None:
    value = encode_value(record)
    for position in range(len(value)):
        for byte in range(256):
            with suppress(DecodeError):
                decode(value[:position] + bytes((byte,)) + value[position + 1 :])


@given(
    st.sampled_from([*RecordType, *ClusterRecordType]), st.integers(0, 3), st.binary(max_size=60)
)
def test_any_fields_are_a_record_or_a_decode_error(
    record_type: RecordType | ClusterRecordType, version: int, rest: bytes
) -> None:
    """An announced size reserves no memory."""
    with suppress(DecodeError):
        decode(bytes((1, record_type, version)) + rest)


@pytest.mark.parametrize("record_type", RecordType)
@pytest.mark.parametrize("version", [1, 2, 127])
def test_record_above_version_0_is_rejected(record_type: RecordType, version: int) -> None:
    """Its fields may mean something else."""
    for fields in (FROM_A_REAL_LOG[3:], b"", b"\0"):
        assert refusal(bytes((1, record_type, version)) + fields) == (
            f"{record_type.name} record: expected version 0, found {version}"
        )


@pytest.mark.parametrize(
    "record_type", sorted(set(range(40)) - set(RecordType) - set(ClusterRecordType))
)
def test_record_of_another_type_is_skipped(record_type: int) -> None:
    """Its version and contents do not matter."""
    assert decode(bytes((1, record_type, 0))) is None
    assert decode(bytes((1, record_type, 9)) + b"anything") is None
    assert decode(b"\1\x92\1\0anything") is None


@pytest.mark.parametrize("frame_version", [0, 2, 127])
def test_other_frame_version_is_rejected(frame_version: int) -> None:
    value = bytes((frame_version,)) + FROM_A_REAL_LOG[1:]
    assert refusal(value) == f"expected frame version 1, found {frame_version}"


@pytest.mark.parametrize("field", ["resource name", "principal", "host"])
@pytest.mark.parametrize(
    ("string", "reason"),
    [(b"\0", "expected a string, found null"), (b"\2\xff", "not UTF-8"),
     (b"\x7fx", "126 bytes announced")],
)  # fmt: skip
def test_strings_of_an_acl_are_valid_and_not_null(field: str, string: bytes, reason: str) -> None:
    strings = {"resource name": b"\2t", "principal": b"\7User:a", "host": b"\2*", field: string}
    value = (
        FROM_A_REAL_LOG[:20] + strings["resource name"] + b"\3" + strings["principal"]
        + strings["host"] + b"\3\3\0"
    )  # fmt: skip
    assert refusal(value).startswith(f"{field}: {reason}")


def test_feature_has_a_name() -> None:
    assert refusal(b"\1\x0c\0\0\0\1\0") == "feature name: expected a string, found null"


@pytest.mark.parametrize("code", [-128, -1, 0, 127])
def test_codes_keep_their_sign(code: int) -> None:
    record = AclAdded(acl_id(1), Acl(code, "x", code, "User:a", "*", code, code))
    assert decode(encode_value(record)) == record


def test_unknown_tagged_fields_are_skipped() -> None:
    for record in OF_VERSION_0:
        value = encode_value(record)
        if value.endswith(b"\0") and record != EndTransaction():
            assert decode(value[:-1] + b"\2\5\1x\6\0") == record
    assert decode(b"\1\x18\0\1\0\1x") == EndTransaction()


@pytest.mark.parametrize("frame", [b"\1\x17\0", b"\1\x19\0"])
def test_text_of_a_transaction_fills_its_tagged_field(frame: bytes) -> None:
    """Null and absent mean the same."""
    assert decode(frame + b"\1\0\1\0") == decode(frame + b"\0")
    text = compact_string("why")
    assert decode(frame + b"\1\0\4" + text) in (BeginTransaction("why"), AbortTransaction("why"))
    assert "1 bytes too many" in refusal(frame + b"\1\0\5" + text + b"x")
    assert "announced" in refusal(frame + b"\1\0\3" + text[:-1])
    with pytest.raises(DecodeError) as refused:
        decode_value(b"before" + frame + b"\1\0\3" + text[:-1], 6, 15)
    assert refused.value.position == 9


def test_only_the_given_range_is_read() -> None:
    value = encode_value(added(1))
    assert decode_value(b"\0" + value + value, 1, 1 + len(value)) == added(1)
    with pytest.raises(AssertionError):
        WireReader(value, 0, len(value) + 1)
