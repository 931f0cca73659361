"""kio's entities to bytes and back, compared with kio's reader and writer."""

import io
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from datetime import timedelta
from functools import partial
from types import NoneType, UnionType
from typing import Any, ClassVar, cast, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.describe_acls.v3 import DescribeAclsRequest
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
from kio.schema.describe_quorum.v2.request import PartitionData as DescribeQuorumPartition
from kio.schema.describe_quorum.v2.request import TopicData as DescribeQuorumTopic
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.metadata.v13 import MetadataRequest, MetadataResponse
from kio.schema.sasl_authenticate.v2 import SaslAuthenticateResponse
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32
from kio.static.protocol import Entity

from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import APIS, request_type, response_type
from authorizerd.protocol.kafka.message_codec import check_entity, decode_entity, encode_entity
from authorizerd.protocol.kafka.step_sizes import ITEMS_PER_STEP
from tests.protocol.decoding import check_any, check_cuts
from tests.support.strategies import int8s, texts

MESSAGES: list[type[Entity]] = [
    entity_type
    for key, api in APIS.items()
    for version in api.versions
    for entity_type in (request_type(key, version), response_type(key, version))
]
each_message = pytest.mark.parametrize(
    "message", MESSAGES, ids=lambda message: f"{message.__name__}-v{message.__version__}"
)
few_examples = settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow])
any_message = st.sampled_from(MESSAGES)

int32s = st.integers(-(2**31), 2**31 - 1)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": int8s,
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": int32s,
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "string": texts,
    "bytes": st.binary(max_size=12),
    "uuid": st.none() | st.uuids(allow_nil=False),
    "error_code": st.sampled_from(KioErrorCode),
    "timedelta_i32": int32s.map(lambda duration_ms: timedelta(milliseconds=duration_ms)),
    "timedelta_i64": int32s.map(lambda duration_ms: timedelta(milliseconds=duration_ms)),
}


def entities(entity_type: type[Entity]) -> st.SearchStrategy[Entity]:
    return st.builds(
        entity_type, **{declared.name: _values(declared) for declared in fields(entity_type)}
    )


def _values(declared: Field[Any]) -> st.SearchStrategy[Any]:
    declared_type, nullable = declared.type, False
    if get_origin(declared_type) is UnionType:
        nullable = True
        [declared_type] = [each for each in get_args(declared_type) if each is not NoneType]
    is_array = get_origin(declared_type) is tuple
    item_type: Any = get_args(declared_type)[0] if is_array else declared_type
    values: st.SearchStrategy[Any] = (
        entities(cast("type[Entity]", item_type))
        if is_dataclass(item_type)
        else PRIMITIVES[declared.metadata["kafka_type"]]
    )
    if is_array:
        values = st.lists(values, max_size=3).map(lambda items: tuple(items))
    return st.none() | values if nullable else values


def written_by_kio(entity: Entity) -> bytes:
    with io.BytesIO() as written:
        entity_writer(type(entity))(written, entity)
        return written.getvalue()


def written(entity: Entity) -> bytes:
    return finish(encode_entity(type(entity), entity))


def decoded(entity_type: type[Entity], data: bytes) -> Entity:
    return finish(decode_entity(entity_type, data))


@each_message
@few_examples
@given(data=st.data())
def test_entity_has_kios_bytes(message: type[Entity], data: st.DataObject) -> None:
    entity = data.draw(entities(message))
    encoded = written(entity)
    assert encoded == written_by_kio(entity)
    assert decoded(message, encoded) == entity
    assert entity_reader(message)(encoded, 0) == (entity, len(encoded))


@each_message
@settings(few_examples, max_examples=1)
@given(data=st.data())
def test_cut_entity_is_rejected(message: type[Entity], data: st.DataObject) -> None:
    encoded = written(data.draw(entities(message)))
    check_cuts(partial(decoded, message), encoded)


@settings(few_examples, max_examples=60)
@given(message=any_message, data=st.binary(max_size=80))
def test_garbage_is_an_entity_or_a_decode_error(message: type[Entity], data: bytes) -> None:
    """An entity that was read can be written."""
    try:
        entity = decoded(message, data)
    except DecodeError:
        return
    assert decoded(message, written(entity)) == entity


@settings(few_examples, max_examples=60)
@given(message=any_message, place=st.integers(0), byte=st.integers(0, 255), data=st.data())
def test_damaged_entity_is_an_entity_or_a_decode_error(
    message: type[Entity], place: int, byte: int, data: st.DataObject
) -> None:
    encoded = bytearray(written(data.draw(entities(message))))
    if encoded:
        encoded[place % len(encoded)] = byte
    check_any(partial(decoded, message), bytes(encoded))


@settings(few_examples, max_examples=60)
@given(message=any_message, data=st.data(), trailing=st.binary(min_size=1, max_size=5))
def test_bytes_after_an_entity_are_ignored(
    message: type[Entity], data: st.DataObject, trailing: bytes
) -> None:
    """Kafka 4.3.1 ignores them, too."""
    entity = data.draw(entities(message))
    assert decoded(message, written(entity) + trailing) == entity


@settings(few_examples, max_examples=60)
@given(message=any_message, data=st.data(), trailing=st.binary(min_size=1, max_size=5))
def test_check_rejects_bytes_after_an_entity(
    message: type[Entity], data: st.DataObject, trailing: bytes
) -> None:
    whole = written(data.draw(entities(message)))
    finish(check_entity(message, whole))
    with pytest.raises(DecodeError, match=f"{message.__name__}: {len(trailing)} bytes too many"):
        finish(check_entity(message, whole + trailing))


@pytest.mark.parametrize("body", ["ffffffff0f", "ffffffff0f 0000", "8080808008 00"])
def test_announced_array_size_reserves_no_memory(body: str) -> None:
    """kio's reader does reserve it, which can end the process."""
    with pytest.raises(DecodeError, match="topics: "):
        decoded(MetadataRequest, bytes.fromhex(body))


def test_error_names_the_field_and_its_position() -> None:
    with pytest.raises(DecodeError, match="principal_filter: 5 bytes announced, 2 left") as refused:
        decoded(DescribeAclsRequest, bytes.fromhex("02 0274 03 06 6162"))
    assert refused.value.position == 4


def test_error_code_unknown_to_kio_reads_back() -> None:
    body = MetadataResponse(
        throttle_time=timedelta(0),  # type: ignore[arg-type]
        brokers=(),
        topics=(),
        error_code=KioErrorCode.none,
    )
    encoded = written(replace(body, error_code=801))  # type: ignore[arg-type]
    assert decoded(MetadataResponse, encoded) == replace(body, error_code=801)  # type: ignore[arg-type]


def test_duration_out_of_range_is_rejected() -> None:
    body = bytes.fromhex("0000 00 01 7fffffffffffffff 00")
    with pytest.raises(DecodeError, match=r"session_lifetime: a duration of "):
        decoded(SaslAuthenticateResponse, body)


def test_null_is_rejected_if_not_nullable() -> None:
    assert decoded(MetadataRequest, bytes.fromhex("00 01 00 00")).topics is None  # type: ignore[attr-defined]
    with pytest.raises(DecodeError, match="brokers: expected an array, found null"):
        decoded(MetadataResponse, bytes.fromhex("00000000 00"))


def test_too_long_string_is_not_written() -> None:
    request = decoded(DescribeAclsRequest, bytes.fromhex("02 00 03 00 00 01 01 00"))
    with pytest.raises(ValueError, match="found 32768"):
        written(replace(request, resource_name_filter="x" * 0x8000))


def test_large_arrays_are_read_and_written_in_steps() -> None:
    body = bytes.fromhex("8204") + (bytes(16) + bytes.fromhex("0274 00")) * 513 + bytes(3)
    request = finish(decode_entity(MetadataRequest, body))
    assert request.topics is not None
    assert len(request.topics) == 513
    assert len(list(decode_entity(MetadataRequest, body))) >= 513 // ITEMS_PER_STEP
    assert len(list(encode_entity(MetadataRequest, request))) == 513 // ITEMS_PER_STEP


NESTED = [(1, 3000), (40, 60), (3000, 0)]


def quorum_request(topics: int, partitions: int) -> DescribeQuorumRequest:
    partition_data = tuple(
        DescribeQuorumPartition(partition_index=i32(0)) for _ in range(partitions)
    )
    return DescribeQuorumRequest(
        topics=tuple(
            DescribeQuorumTopic(topic_name=cast(Any, ""), partitions=partition_data)
            for _ in range(topics)
        )
    )


@pytest.mark.parametrize(("outer", "inner"), NESTED)
def test_nested_arrays_are_read_checked_and_written_in_steps(outer: int, inner: int) -> None:
    request = quorum_request(outer, inner)
    steps_min = outer * (1 + inner) // ITEMS_PER_STEP
    body = written(request)
    assert len(list(encode_entity(DescribeQuorumRequest, request))) >= steps_min
    assert len(list(decode_entity(DescribeQuorumRequest, body))) >= steps_min
    assert len(list(check_entity(DescribeQuorumRequest, body))) >= steps_min
    assert decoded(DescribeQuorumRequest, body) == request


def test_item_limit_includes_nested_arrays() -> None:
    body = written(quorum_request(10, 9))
    assert finish(decode_entity(DescribeQuorumRequest, body, items_max=100)) == decoded(
        DescribeQuorumRequest, body
    )
    with pytest.raises(
        DecodeError, match="partitions: 9 items after 91 others exceed the limit of 99"
    ):
        finish(decode_entity(DescribeQuorumRequest, body, items_max=99))


@dataclass(frozen=True, slots=True, kw_only=True)
class WithTags:
    """A structure with tagged fields of each kind, as future requests may have."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    size: int = field(metadata={"kafka_type": "int32", "tag": 1}, default=-1)
    names: tuple[str, ...] = field(metadata={"kafka_type": "string", "tag": 0}, default=())


def test_tagged_fields_are_written_in_order_without_defaults() -> None:
    """Unknown tags are skipped when read."""
    assert written(WithTags(name="a")).hex(" ") == "02 61 00"
    both = WithTags(name="a", size=5, names=("b",))
    assert written(both).hex(" ") == "02 61 02 00 03 02 02 62 01 04 00 00 00 05"
    assert decoded(WithTags, written(both)) == both
    assert decoded(WithTags, bytes.fromhex("02 61 02 07 01 ff 01 04 00000005")) == WithTags(
        name="a", size=5
    )
    assert all(each.default is not MISSING for each in fields(WithTags)[1:])


def test_tagged_arrays_are_read_and_written_in_steps() -> None:
    """The item limit includes them."""
    entity = WithTags(name="a", names=("",) * 1000)
    steps_min = 1000 // ITEMS_PER_STEP
    assert len(list(encode_entity(WithTags, entity))) == steps_min
    assert len(list(decode_entity(WithTags, written(entity)))) == steps_min
    assert decoded(WithTags, written(entity)) == entity
    with pytest.raises(DecodeError, match="names: 1000 items exceed the limit of 999"):
        finish(decode_entity(WithTags, written(entity), items_max=999))
