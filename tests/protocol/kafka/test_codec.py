"""Messages to bytes and back, compared with kio's reader and writer."""

from collections.abc import Callable, Sequence
from dataclasses import Field, fields, is_dataclass
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, cast
from unittest.mock import patch
from weakref import WeakSet

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.static.protocol import Entity

from authorizerd.acl.steps import ITEMS_PER_CHUNK, Steps, finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka import arrays, codec
from authorizerd.protocol.kafka.acls import DescribeAclsAnswer, DescribeAclsRequest
from authorizerd.protocol.kafka.api import REQUESTED_APIS
from authorizerd.protocol.kafka.arrays import array_of
from authorizerd.protocol.kafka.body_reader import ARRAY_ITEMS_MAX, BodyReader, array_length
from authorizerd.protocol.kafka.chunked_output import BYTES_PER_STEP, ITEMS_PER_STEP
from authorizerd.protocol.kafka.messages import MESSAGES
from authorizerd.protocol.kafka.quorum_messages import (
    DescribeQuorumRequest,
    FetchAnswer,
    FetchSnapshotAnswer,
    RequestedPartition,
    RequestedQuorumTopic,
)
from authorizerd.protocol.kafka.requests import MetadataRequest
from authorizerd.protocol.kafka.responses import MetadataAnswer, SaslAuthenticateAnswer
from authorizerd.protocol.kafka.wire_types import Only, Type, int32, text
from tests.protocol.decoding import check_any, check_cuts
from tests.support.kio_codec import type_of
from tests.support.kio_messages import request_type, response_type, written_by_kio
from tests.support.sizes import size
from tests.support.strategies import int8s, texts


class Message(msgspec.Struct, frozen=True):
    """A message in one version, and kio's class of it."""

    message: type[Any]
    version: int
    flexible: bool
    kio: type[Entity]

    def __str__(self) -> str:
        return f"{self.message.__name__}-v{self.version}"

    def encode(self, value: object) -> bytes:
        """Return the bytes, which are the same if all arrays are written in steps."""
        encode = partial(codec.encode, self.message, self.version, flexible=self.flexible)
        encoded = b"".join(finish(encode(value)))
        with patch.object(arrays, "SMALL_ITEMS_MAX", 0):
            assert b"".join(finish(encode(value))) == encoded
        return encoded

    def decode(self, data: bytes, items_max: int = ARRAY_ITEMS_MAX) -> Any:  # noqa: ANN401 - of any class
        """Return the message, which is the same if it is read in steps. So are errors."""
        read = partial(self._read, data, items_max)
        at_once = read()
        with patch.object(codec, "_SMALL_BYTES_MAX", -1):
            assert repr(read()) == repr(at_once)
        if isinstance(at_once, DecodeError):
            raise at_once
        return at_once

    def _read(self, data: bytes, items_max: int) -> Any:  # noqa: ANN401
        flexible = self.flexible
        try:
            return finish(
                codec.decode(
                    self.message, self.version, data, flexible=flexible, items_max=items_max
                )
            )
        except DecodeError as error:
            return error


MESSAGES_OF_KIO = [
    Message(message, version, api.is_flexible(version), find_class(key, version))
    for key, api in REQUESTED_APIS.items()
    for version in api.versions
    for message, find_class in zip(MESSAGES[key], (request_type, response_type), strict=True)
]
REQUESTS = {each.message: each for each in MESSAGES_OF_KIO}
"""The newest version of each message."""
WITH_RANGES = (FetchAnswer, FetchSnapshotAnswer)
each_message = pytest.mark.parametrize("message", MESSAGES_OF_KIO, ids=str)
few_examples = settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow])
any_message = st.sampled_from(MESSAGES_OF_KIO)

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
    "records": st.binary(max_size=12),
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
    item_type, is_array, nullable = type_of(declared)
    values: st.SearchStrategy[Any] = (
        entities(cast("type[Entity]", item_type))
        if is_dataclass(item_type)
        else PRIMITIVES[declared.metadata["kafka_type"]]
    )
    if is_array:
        values = st.lists(values, max_size=3).map(lambda items: tuple(items))
    return st.none() | values if nullable else values


def check_equal(read: Any, entity: object, body: bytes) -> None:  # noqa: ANN401 - any field
    """Check that a message of ``body`` has the fields of an entity of kio."""
    if is_dataclass(entity):
        for declared in fields(entity):
            check_equal(getattr(read, declared.name), getattr(entity, declared.name), body)
    elif isinstance(entity, tuple):
        for each, wanted in zip(read, entity, strict=True):
            check_equal(each, wanted, body)
    else:  # bytes that are not copied are read as their bounds
        assert (body[slice(*read)] if isinstance(read, tuple) else read) == entity


def without_idle_texts(entity: Any) -> Any:  # noqa: ANN401 - any field
    """Return an answer of kio whose successes have a broker's texts: none, or an empty one."""
    if isinstance(entity, tuple):
        return tuple(without_idle_texts(each) for each in entity)
    if not is_dataclass(entity) or isinstance(entity, type):
        return entity
    values = {each.name: without_idle_texts(getattr(entity, each.name)) for each in fields(entity)}
    if values.get("error_code") is KioErrorCode.none and "error_message" in values:
        values["error_message"] = "" if type(entity).__name__ == "AclCreationResult" else None
    return type(entity)(**values)


def is_of_acls(message: Message) -> bool:
    """ACLs have names of their own, and listings are grouped."""
    return message.message.__name__.removesuffix("Request").removesuffix("Answer").endswith("Acls")


@each_message
@few_examples
@given(data=st.data())
def test_message_has_kios_bytes_and_fields(message: Message, data: st.DataObject) -> None:
    entity = data.draw(entities(message.kio))
    if is_of_acls(message):
        entity = without_idle_texts(entity)
    encoded = written_by_kio(entity)
    read = message.decode(encoded)
    if message.message is DescribeAclsAnswer:
        again = message.decode(message.encode(read))
        assert sorted(map(str, again.acls)) == sorted(map(str, read.acls))
        return
    if not is_of_acls(message):
        check_equal(read, entity, encoded)
    if message.message not in WITH_RANGES:
        assert message.encode(read) == encoded


@each_message
@settings(few_examples, max_examples=3)
@given(data=st.data())
def test_cut_message_is_rejected(message: Message, data: st.DataObject) -> None:
    check_cuts(message.decode, written_by_kio(data.draw(entities(message.kio))))


@settings(few_examples, max_examples=size(10, 60))
@given(message=any_message, data=st.binary(max_size=80))
def test_garbage_is_a_message_or_a_decode_error(message: Message, data: bytes) -> None:
    check_any(message.decode, data)


@settings(few_examples, max_examples=size(10, 60))
@given(message=any_message, place=st.integers(0), byte=st.integers(0, 255), data=st.data())
def test_damaged_message_is_a_message_or_a_decode_error(
    message: Message, place: int, byte: int, data: st.DataObject
) -> None:
    encoded = bytearray(written_by_kio(data.draw(entities(message.kio))))
    if encoded:
        encoded[place % len(encoded)] = byte
    check_any(message.decode, bytes(encoded))


@settings(few_examples, max_examples=size(10, 60))
@given(message=any_message, data=st.data(), trailing=st.binary(min_size=1, max_size=5))
def test_bytes_after_a_message_are_ignored(
    message: Message, data: st.DataObject, trailing: bytes
) -> None:
    """Kafka 4.3.1 ignores them as well."""
    encoded = written_by_kio(data.draw(entities(message.kio)))
    assert message.decode(encoded + trailing) == message.decode(encoded)


@settings(few_examples, max_examples=size(10, 60))
@given(message=any_message, data=st.data(), trailing=st.binary(min_size=1, max_size=5))
def test_exact_decoding_rejects_bytes_after_a_message(
    message: Message, data: st.DataObject, trailing: bytes
) -> None:
    whole = written_by_kio(data.draw(entities(message.kio)))
    name = message.message.__name__
    exact = partial(codec.decode, message.message, message.version, flexible=message.flexible)
    with pytest.raises(DecodeError, match=f"{name}: {len(trailing)} bytes too many"):
        finish(exact(whole + trailing, is_exact=True))


def decoded(message: type[Any], data: bytes) -> Any:  # noqa: ANN401 - of any class
    return REQUESTS[message].decode(data)


def written(message: object) -> bytes:
    return REQUESTS[type(message)].encode(message)


@pytest.mark.parametrize(
    ("message", "body", "reason", "position"),
    [
        # kio's reader does reserve memory for the announced size, which can end the process.
        *((MetadataRequest, body, "topics: ", 0)
          for body in ("ffffffff0f", "ffffffff0f 0000", "8080808008 00")),
        (DescribeAclsRequest, "02 0274 03 06 6162", "principal: 5 bytes announced, 2 left", 4),
        (SaslAuthenticateAnswer, "0000 00 01 7fffffffffffffff 00",
         "session_lifetime: a duration of ", 4),
    ],
)  # fmt: skip
def test_error_names_the_field_and_its_position(
    message: type[Any], body: str, reason: str, position: int
) -> None:
    with pytest.raises(DecodeError, match=reason) as refused:
        decoded(message, bytes.fromhex(body))
    assert refused.value.position == position


def test_null_is_rejected_if_not_nullable() -> None:
    assert decoded(MetadataRequest, bytes.fromhex("00 01 00 00")).topics is None
    with pytest.raises(DecodeError, match="brokers: expected an array, found null"):
        decoded(MetadataAnswer, bytes.fromhex("00000000 00"))


def test_too_long_string_is_not_written() -> None:
    topics = [RequestedQuorumTopic("x" * 0x8000, ())]
    with pytest.raises(ValueError, match="found 32768"):
        written(DescribeQuorumRequest(topics=topics))


def test_large_arrays_are_read_and_written_in_steps() -> None:
    body = bytes.fromhex("8204") + (bytes(16) + bytes.fromhex("0274 00")) * 513 + bytes(3)
    read = list(codec.decode(MetadataRequest, 13, body, flexible=True))
    request = decoded(MetadataRequest, body)
    assert len(request.topics) == 513
    assert len(read) >= 513 // ITEMS_PER_STEP
    steps = list(codec.encode(MetadataRequest, 13, request, flexible=True))
    assert len(steps) == 513 // ITEMS_PER_STEP


NESTED = [(1, 3000), (40, 60), (3000, 0)]


def quorum_request(topics: int, partitions: int) -> DescribeQuorumRequest:
    topic = RequestedQuorumTopic("", [RequestedPartition(0)] * partitions)
    return DescribeQuorumRequest(topics=[topic] * topics)


@pytest.mark.parametrize(("outer", "inner"), NESTED)
def test_nested_arrays_are_read_and_written_in_steps(outer: int, inner: int) -> None:
    request = quorum_request(outer, inner)
    steps_min = outer * (1 + inner) // ITEMS_PER_STEP
    body = written(request)
    message = DescribeQuorumRequest
    assert len(list(codec.encode(message, 2, request, flexible=True))) >= steps_min
    assert len(list(codec.decode(message, 2, body, flexible=True))) >= steps_min
    assert decoded(message, body) == request


def test_item_limit_includes_nested_arrays() -> None:
    message, body = REQUESTS[DescribeQuorumRequest], written(quorum_request(10, 9))
    assert message.decode(body, items_max=100) == message.decode(body)
    with pytest.raises(
        DecodeError, match="partitions: 9 items after 91 others exceed the limit of 99"
    ):
        message.decode(body, items_max=99)


class WithTags(msgspec.Struct, frozen=True, kw_only=True):
    """A structure with tagged fields of each kind, as future requests may have."""

    name: text
    size: Annotated[int32, Only(tag=1)] = -1
    names: Annotated[Sequence[text], Only(tag=0)] = ()


WITH_TAGS = Message(WithTags, 0, True, MESSAGES_OF_KIO[0].kio)


def test_tagged_fields_are_written_in_order_without_defaults() -> None:
    """Unknown tags are skipped when read."""
    assert WITH_TAGS.encode(WithTags(name="a")).hex(" ") == "02 61 00"
    both = WithTags(name="a", size=5, names=["b"])
    encoded = WITH_TAGS.encode(both)
    assert encoded.hex(" ") == "02 61 02 00 03 02 02 62 01 04 00 00 00 05"
    assert WITH_TAGS.decode(encoded) == both
    assert WITH_TAGS.decode(bytes.fromhex("02 61 02 07 01 ff 01 04 00000005")) == WithTags(
        name="a", size=5
    )


@pytest.mark.parametrize(
    ("tags", "error"),
    [
        ("02 01 04 00000005 01 04 00000005", "tag 1: expected at most one, found another"),
        ("01 01 05 00000005 00", "tag 1: 1 bytes too many"),
        ("01 01 03 000000", "size: 4 bytes announced, 3 left"),
    ],
)
def test_known_tagged_field_occurs_once_with_its_size(tags: str, error: str) -> None:
    with pytest.raises(DecodeError, match=error):
        WITH_TAGS.decode(bytes.fromhex("02 61" + tags))


def test_item_limit_includes_tagged_arrays() -> None:
    message = WithTags(name="a", names=[""] * 1000)
    encoded = WITH_TAGS.encode(message)
    assert WITH_TAGS.decode(encoded) == message
    with pytest.raises(DecodeError, match="names: 1000 items exceed the limit of 999"):
        WITH_TAGS.decode(encoded, items_max=999)


def read_array(read: Callable[[BodyReader, str], object], data: bytes) -> Steps[list[Any]]:
    """Read an array, in steps, each item by ``read``."""
    array = array_of(Type(read, bytes, 1), flexible=True)
    assert array.in_steps is not None
    return array.in_steps.read(BodyReader(data, flexible=True), "items")


def test_items_are_read_in_steps() -> None:
    """A step ends after a number of items, or of bytes."""
    count = 3 * ITEMS_PER_STEP
    small = read_array(BodyReader.int8, array_length(count, flexible=True) + bytes(count))
    assert len(list(small)) == 3
    large = array_length(4, flexible=True) + bytes(4 * BYTES_PER_STEP)
    assert len(list(read_array(lambda each, _: each.take(BYTES_PER_STEP, "item"), large))) == 4


def test_items_before_an_invalid_one_are_freed_in_steps() -> None:
    count = 4 * ITEMS_PER_CHUNK
    alive: WeakSet[_Item] = WeakSet()

    def read(_: BodyReader, __: str) -> _Item:
        if len(alive) == count:
            raise DecodeError("item", 0)
        item = _Item()
        alive.add(item)
        return item

    held = [0]
    body = array_length(count + 1, flexible=True) + bytes(count + 1)
    with pytest.raises(DecodeError, match="item"):
        held.extend(len(alive) for _ in read_array(read, body))
    held.append(0)
    assert max(held) == count
    assert max(a - b for a, b in pairwise(held)) <= ITEMS_PER_CHUNK


class _Item:
    """An object that supports weak references."""
