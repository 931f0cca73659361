"""The Envelope: as written by Kafka 4.3.1's classes, cut, damaged and random."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import (
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_client import (
    encode_create_acls_request,
)
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.envelope import (
    FORWARDABLE,
    EnvelopeError,
    Forwarded,
    decode_principal,
    encode_envelope_response,
    open_envelope,
)
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.server_connection import KafkaRequest
from tests.protocol.decoding import check_cuts
from tests.support.acl_messages import decode_create_acls, encode_envelope_error
from tests.support.envelopes import (
    ADDRESS,
    ALICE,
    JAVA_ALICE,
    JAVA_ANSWER_V1,
    JAVA_ANSWER_V3,
    JAVA_CREATE_V1,
    JAVA_CREATE_V3,
    JAVA_CREATED_V1,
    JAVA_CREATED_V3,
    JAVA_ENVELOPE_V1,
    JAVA_ENVELOPE_V3,
    JAVA_ERROR_97,
    JAVA_TOKEN,
    envelope,
    inner,
)
from tests.support.kafka_principals import encode_principal
from tests.support.kio_codec import decode_response
from tests.support.strategies import texts

READS_ORDERS = Acl(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ,
    PermissionType.ALLOW,
)  # fmt: skip
each_version = pytest.mark.parametrize("version", [0, 1])
kinds = texts.filter(lambda text: ":" not in text)


def opened(body: bytes) -> Forwarded:
    return finish(open_envelope(bytearray(body)))


def refusal(body: bytes) -> ErrorCode:
    with pytest.raises(EnvelopeError) as refused:
        opened(body)
    assert str(refused.value).startswith(refused.value.code.name)
    return refused.value.code


def created(request: KafkaRequest) -> list[Acl]:
    assert request.api_key is ApiKey.CREATE_ACLS
    return finish(decode_create_acls(request.api_version, request.body))[0]


@pytest.mark.parametrize(
    ("body", "version"), [(JAVA_ENVELOPE_V1, 1), (JAVA_ENVELOPE_V3, 3)], ids=["rigid", "flexible"]
)
def test_kafkas_envelope_is_opened(body: str, version: int) -> None:
    """The inner request has its own version, correlation id and client id."""
    forwarded = opened(bytes.fromhex(body))
    assert (forwarded.principal, forwarded.host) == ("User:alice", "10.0.0.9")
    request = forwarded.request
    assert (request.api_version, request.correlation_id, request.client_id) == (
        version,
        42,
        "client-1",
    )
    assert created(request) == [READS_ORDERS]


@each_version
def test_envelope_has_kafkas_bytes(version: int) -> None:
    assert envelope(version=version).hex() == JAVA_ENVELOPE_V3


def test_only_a_bytearray_is_consumed() -> None:
    body = bytes.fromhex(JAVA_ENVELOPE_V3)
    assert created(finish(open_envelope(body)).request) == [READS_ORDERS]
    assert body.hex() == JAVA_ENVELOPE_V3


@each_version
@given(kind=kinds, name=texts, host=st.binary(min_size=4, max_size=4), principals=st.lists(texts))
def test_envelope_reads_back(
    version: int, kind: str, name: str, host: bytes, principals: list[str]
) -> None:
    acls = [
        Acl(READS_ORDERS.resource_type, "t", READS_ORDERS.pattern_type, principal, "*", 3, 3)
        for principal in principals
    ]
    data = inner(ApiKey.CREATE_ACLS, 2, encode_create_acls_request(2, acls))
    principal = encode_principal(f"{kind}:{name}")
    forwarded = opened(envelope(data, principal, host, version=version))
    assert forwarded.principal == f"{kind}:{name}"
    assert forwarded.host == ".".join(map(str, host))
    assert created(forwarded.request) == acls


def test_cut_envelope_is_rejected() -> None:
    """Kafka closes the connection."""
    check_cuts(opened, envelope())


def test_bytes_after_an_envelope_are_ignored() -> None:
    """They are ignored after every request."""
    assert created(opened(envelope() + b"\xff\xff").request) == [READS_ORDERS]


@pytest.mark.parametrize("body", [b"\0", b"\1\0\0", b"\1\1\0"], ids=["data", "address", "both"])
def test_only_the_principal_may_be_null(body: bytes) -> None:
    with pytest.raises(DecodeError, match="expected bytes, found null"):
        opened(body + b"\0")


@given(place=st.integers(0), byte=st.integers(0, 255))
def test_damaged_envelope_is_an_envelope_or_a_named_error(place: int, byte: int) -> None:
    body = bytearray(envelope())
    body[place % len(body)] = byte
    with suppress(DecodeError, EnvelopeError):
        finish(open_envelope(body))


@pytest.mark.parametrize("whole", [JAVA_CREATE_V1, JAVA_CREATE_V3], ids=["rigid", "flexible"])
def test_cut_inner_request_gives_unsupported_version(whole: str) -> None:
    """As in Kafka, INVALID_REQUEST is for faults of the Envelope itself."""
    data = bytes.fromhex(whole)
    for end in range(len(data)):
        assert refusal(envelope(data[:end])) is ErrorCode.UNSUPPORTED_VERSION


OTHERS = [
    *(int(key) for key, api in APIS.items() if api.name not in FORWARDABLE),
    *(19, 94),  # CreateTopics and UnregisterController, which Kafka forwards
]
UNSUPPORTED, INVALID = ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST
CHANGES = (ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
REFUSED: list[tuple[bytes, ErrorCode]] = [
    # As in Kafka, INVALID_REQUEST is for faults of the Envelope itself.
    *((envelope(bytes.fromhex(whole) + b"\0"), UNSUPPORTED)
      for whole in (JAVA_CREATE_V1, JAVA_CREATE_V3)),
    # Version 0, which clients may use, is unknown, because Kafka 4.0 dropped it. The bodies have
    # no items, so they are valid.
    *((envelope(inner(key, 0, bytes(4), tags=b"")), UNSUPPORTED) for key in CHANGES),
    *((envelope(inner(key, version, b"\1\0")), UNSUPPORTED)
      for key in CHANGES for version in (-1, 4, 99)),
    # Kafka 4.4's keys are 0 to 94, without the four that Kafka 4.0 dropped.
    *((envelope(inner(key, 1, b"")), UNSUPPORTED) for key in (-1, 4, 5, 6, 7, 95, 999, 9999)),
    (envelope(b"\1\2\3"), UNSUPPORTED),
    # The body of another API does not matter. An inner Envelope is rejected as well.
    *((envelope(inner(key, 1, envelope() if key == ApiKey.ENVELOPE else b"")), INVALID)
      for key in OTHERS),
    *((envelope(address=bytes(size)), INVALID) for size in (0, 1, 3, 5, 8, 15, 17)),
    *((envelope(principal=principal), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
      for principal in (None, b"", ALICE[:-1], ALICE + b"\0", b"\0\1" + ALICE[2:], b"alice")),
]  # fmt: skip


@pytest.mark.parametrize(("body", "code"), REFUSED)
def test_envelope_that_cannot_be_opened_gives_its_error(body: bytes, code: ErrorCode) -> None:
    assert ApiKey.ENVELOPE in OTHERS
    assert refusal(body) is code


def test_forwardable_apis() -> None:
    assert {
        "CreateAcls",
        "DeleteAcls",
        "AlterConfigs",
        "IncrementalAlterConfigs",
        "AlterUserScramCredentials",
        "DescribeQuorum",
    } == FORWARDABLE


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("0a000009", "10.0.0.9"),
        ("00000000", "0.0.0.0"),
        ("00000000000000000000000000000001", "0:0:0:0:0:0:0:1"),
        ("20010db8000000000008080020 0c417a", "2001:db8:0:0:8:800:200c:417a"),
        ("00000000000000000000ffff0a000009", "10.0.0.9"),
        ("0000000000000000000000000a000009", "0:0:0:0:0:0:a00:9"),
    ],
)
def test_host_is_written_as_in_kafka(address: str, host: str) -> None:
    """IPv6 in full, an IPv4-mapped address as IPv4. ACLs match this text."""
    assert opened(envelope(address=bytes.fromhex(address))).host == host


def test_envelope_is_checked_in_kafkas_order() -> None:
    """Kafka checks the principal, the address, the API, and then the request."""
    api, body = inner(ApiKey.METADATA, 0, b""), inner(ApiKey.CREATE_ACLS, 99, b"")
    codes = [
        refusal(envelope(api, b"", b"")),
        refusal(envelope(api, ALICE, b"")),
        refusal(envelope(api, ALICE, ADDRESS)),
        refusal(envelope(body, ALICE, b"")),
        refusal(envelope(body, ALICE, ADDRESS)),
    ]
    assert codes == [97, 42, 42, 42, 35]


def test_large_inner_request_is_opened_in_steps() -> None:
    body = encode_create_acls_request(3, [READS_ORDERS] * 4000)
    steps = open_envelope(bytearray(envelope(inner(ApiKey.CREATE_ACLS, 3, body))))
    assert sum(1 for _ in steps) >= 8


@pytest.mark.parametrize(
    ("data", "principal"),
    [(JAVA_ALICE, "User:alice"), (JAVA_TOKEN, "User:zahlung-ü")],
    ids=["alice", "token"],
)
def test_kafkas_principal_is_read(data: str, principal: str) -> None:
    """The principal may have a delegation token."""
    assert decode_principal(bytes.fromhex(data)) == principal


def test_principal_has_kafkas_bytes() -> None:
    assert encode_principal("User:alice").hex() == JAVA_ALICE


@given(kind=kinds, name=texts)
def test_principal_reads_back(kind: str, name: str) -> None:
    """A name may contain colons."""
    assert decode_principal(encode_principal(f"{kind}:{name}")) == f"{kind}:{name}"


@given(kind=kinds, name=texts)
def test_cut_principal_is_rejected(kind: str, name: str) -> None:
    check_cuts(decode_principal, encode_principal(f"{kind}:{name}"))


@given(trailing=st.binary(min_size=1, max_size=5))
def test_bytes_after_a_principal_are_rejected(trailing: bytes) -> None:
    """Kafka ignores them."""
    with pytest.raises(DecodeError, match="bytes too many"):
        decode_principal(ALICE + trailing)


def test_tagged_fields_of_a_principal_are_ignored() -> None:
    assert decode_principal(ALICE[:-1] + b"\1\5\1a") == "User:alice"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("0001" + JAVA_ALICE[4:], "principal: expected version 0, found 1"),
        ("ffff" + JAVA_ALICE[4:], "principal: expected version 0, found -1"),
        ("0000 00 06616c6963650000", "principal type: expected a string, found null"),
        ("0000 0555736572 00 0000", "principal name: expected a string, found null"),
        ("0000 0555736572 02ff 0000", "principal name: not UTF-8"),
        ("0000 06557365723a 0261 0000", "principal type: unexpected colon in 'User:'"),
    ],
)
def test_invalid_principal_is_rejected_with_the_reason(data: str, reason: str) -> None:
    """A type with a colon could imitate another principal."""
    with pytest.raises(DecodeError, match=reason):
        decode_principal(bytes.fromhex(data))


def request_of(version: int) -> KafkaRequest:
    return KafkaRequest(
        api_key=ApiKey.CREATE_ACLS, api_version=version, correlation_id=42, client_id=None, body=b""
    )


@pytest.mark.parametrize(
    ("version", "header_size", "whole", "inner_answer"),
    [
        (1, 4, JAVA_ANSWER_V1, JAVA_CREATED_V1),
        (2, 5, JAVA_ANSWER_V3, JAVA_CREATED_V3),
        (3, 5, JAVA_ANSWER_V3, JAVA_CREATED_V3),
    ],
)
def test_inner_answer_has_the_header_of_its_version(
    version: int, header_size: int, whole: str, inner_answer: str
) -> None:
    body = bytes.fromhex(inner_answer)[header_size:]
    chunks = encode_envelope_response(request_of(version), [body[:3], bytearray(body[3:])])
    assert b"".join(chunks).hex() == whole


@each_version
def test_answer_reads_back(version: int) -> None:
    written = b"".join(encode_envelope_response(request_of(3), [b"x" * 1000]))
    answer: Any = finish(decode_response(ApiKey.ENVELOPE, version, written))
    assert answer.response_data == b"\0\0\0\x2a\0" + b"x" * 1000
    assert answer.error_code == ErrorCode.NONE


@each_version
def test_outer_error_has_no_inner_answer(version: int) -> None:
    """The bytes are those that Kafka writes."""
    assert encode_envelope_error(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE).hex() == JAVA_ERROR_97
    for code in (ErrorCode.AUTHORIZER_NOT_READY, ErrorCode.UNKNOWN_SERVER_ERROR):
        written = encode_envelope_error(code)
        answer: Any = finish(decode_response(ApiKey.ENVELOPE, version, written))
        assert (answer.response_data, answer.error_code) == (None, code)
        check_cuts(lambda cut: finish(decode_response(ApiKey.ENVELOPE, version, cut)), written)
