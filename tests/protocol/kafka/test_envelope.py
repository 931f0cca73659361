"""The Envelope, byte by byte: as Kafka 4.3.1's own classes wrote it, cut, damaged and garbage."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.envelope import v0

from authorizerd.acl.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka import envelope_v1 as v1
from authorizerd.protocol.kafka.acl_client import (
    encode_create_acls_request,
    encode_delete_acls_request,
)
from authorizerd.protocol.kafka.acl_requests import decode_create_acls
from authorizerd.protocol.kafka.api import APIS, ApiKey, decode_response
from authorizerd.protocol.kafka.envelope import (
    FORWARDABLE,
    EnvelopeError,
    Forwarded,
    decode_principal,
    encode_envelope_error,
    encode_envelope_response,
    open_envelope,
)
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.server_connection import KafkaRequest, KafkaServerConnection
from authorizerd.protocol.kafka.step_sizes import ITEMS_PER_STEP
from tests.support.envelopes import (
    ADDRESS,
    ALICE,
    HEADER,
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
from tests.support.strategies import texts

READS_ORDERS = Acl(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    Operation.READ,
    PermissionType.ALLOW,
)
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
    return finish(decode_create_acls(request.api_version, request.body))


@pytest.mark.parametrize(
    ("body", "version"), [(JAVA_ENVELOPE_V1, 1), (JAVA_ENVELOPE_V3, 3)], ids=["rigid", "flexible"]
)
def test_what_kafka_wrote_is_opened(body: str, version: int) -> None:
    """The inner request with its own version, correlation id and client id."""
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
def test_an_envelope_is_written_as_kafka_wrote_it(version: int) -> None:
    """In both versions: the bump changed no field."""
    assert envelope(version=version).hex() == JAVA_ENVELOPE_V3


def test_version_1_has_version_0s_fields_and_no_other() -> None:
    """KIP-801 bumped the version for the sake of an error code."""
    for new, old in (
        (v1.EnvelopeRequest, v0.EnvelopeRequest),
        (v1.EnvelopeResponse, v0.EnvelopeResponse),
    ):
        assert (new.__version__, old.__version__) == (1, 0)
        assert fields(new) == fields(old)


def test_bytes_that_are_not_in_a_bytearray_stay_whole() -> None:
    """Only a buffer that was received is used up."""
    body = bytes.fromhex(JAVA_ENVELOPE_V3)
    assert created(finish(open_envelope(body)).request) == [READS_ORDERS]
    assert body.hex() == JAVA_ENVELOPE_V3


@each_version
@given(kind=kinds, name=texts, host=st.binary(min_size=4, max_size=4), principals=st.lists(texts))
def test_an_envelope_reads_as_it_was_written(
    version: int, kind: str, name: str, host: bytes, principals: list[str]
) -> None:
    """Whatever it holds."""
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


def test_an_envelope_comes_byte_by_byte() -> None:
    """As one that came at once."""
    connection = KafkaServerConnection(1024)
    head = HEADER.pack(ApiKey.ENVELOPE, 1, 7, -1) + b"\0"
    requests = []
    for byte in frame(head, envelope()):
        connection.receive_data(bytes((byte,)))
        if (request := connection.next_request()) is not None:
            requests.append(request)
    (request,) = requests
    assert (request.api_key, request.api_version) == (ApiKey.ENVELOPE, 1)
    assert created(finish(open_envelope(request.body)).request) == [READS_ORDERS]


def test_an_envelope_cut_at_any_byte_is_refused() -> None:
    """Kafka closes the connection: there is no response to what is no request."""
    body = envelope()
    for end in range(len(body)):
        with pytest.raises(DecodeError):
            opened(body[:end])


def test_bytes_after_an_envelope_are_ignored() -> None:
    """As after every request."""
    assert created(opened(envelope() + b"\xff\xff").request) == [READS_ORDERS]


@pytest.mark.parametrize("body", [b"\0", b"\1\0\0", b"\1\1\0"], ids=["data", "address", "both"])
def test_only_the_principal_may_be_null(body: bytes) -> None:
    """Of the three fields the definition lets no other be."""
    with pytest.raises(DecodeError, match="expected bytes, found null"):
        opened(body + b"\0")


@given(body=st.binary(max_size=80))
def test_garbage_is_an_envelope_or_refused(body: bytes) -> None:
    """By a named error."""
    with suppress(DecodeError, EnvelopeError):
        opened(body)


@given(place=st.integers(0), byte=st.integers(0, 255))
def test_a_damaged_envelope_is_an_envelope_or_refused(place: int, byte: int) -> None:
    """By a named error."""
    body = bytearray(envelope())
    body[place % len(body)] = byte
    with suppress(DecodeError, EnvelopeError):
        finish(open_envelope(body))


@pytest.mark.parametrize("whole", [JAVA_CREATE_V1, JAVA_CREATE_V3], ids=["rigid", "flexible"])
def test_an_inner_request_cut_at_any_byte_is_of_no_supported_version(whole: str) -> None:
    """Header and body alike; Kafka keeps INVALID_REQUEST for what is wrong with the Envelope."""
    data = bytes.fromhex(whole)
    for end in range(len(data)):
        assert refusal(envelope(data[:end])) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("whole", [JAVA_CREATE_V1, JAVA_CREATE_V3], ids=["rigid", "flexible"])
def test_bytes_after_an_inner_request_are_of_no_supported_version(whole: str) -> None:
    """Nobody could say what they were to mean."""
    assert refusal(envelope(bytes.fromhex(whole) + b"\0")) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", [-1, 4, 99])
def test_an_unknown_version_of_an_inner_request_is_not_supported(version: int) -> None:
    """Which is what the code says."""
    data = inner(ApiKey.CREATE_ACLS, version, b"\1\0")
    assert refusal(envelope(data)) is ErrorCode.UNSUPPORTED_VERSION


def test_the_apis_that_are_forwarded() -> None:
    """Those of Kafka's forwardable ones that there is something to do for here."""
    assert {
        "CreateAcls",
        "DeleteAcls",
        "AlterConfigs",
        "IncrementalAlterConfigs",
        "AlterUserScramCredentials",
        "DescribeQuorum",
    } == FORWARDABLE


OTHERS = [
    *(int(key) for key, api in APIS.items() if api.name not in FORWARDABLE),
    *(19, 9999, -1),  # CreateTopics, which Kafka forwards; no API at all
]


@pytest.mark.parametrize("api_key", OTHERS)
def test_other_apis_are_not_forwarded(api_key: int) -> None:
    """INVALID_REQUEST, whatever their bodies; an Envelope in an Envelope among them."""
    assert ApiKey.ENVELOPE in OTHERS
    data = inner(api_key, 1, envelope() if api_key == ApiKey.ENVELOPE else b"")
    assert refusal(envelope(data)) is ErrorCode.INVALID_REQUEST


def test_a_deletion_is_forwarded() -> None:
    """With all of its filters."""
    body = encode_delete_acls_request(3, [AclFilter()] * 3)
    request = opened(envelope(inner(ApiKey.DELETE_ACLS, 3, body))).request
    assert (request.api_key, bytes(request.body)) == (ApiKey.DELETE_ACLS, body)


@pytest.mark.parametrize("size", [0, 1, 3, 5, 8, 15, 17])
def test_an_address_that_is_none_is_an_invalid_request(size: int) -> None:
    """It has 4 bytes or 16."""
    assert refusal(envelope(address=bytes(size))) is ErrorCode.INVALID_REQUEST


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
def test_a_host_is_told_as_kafka_tells_it(address: str, host: str) -> None:
    """IPv6 in full, an IPv4-mapped address as the IPv4 one: ACLs match hosts by that text."""
    assert opened(envelope(address=bytes.fromhex(address))).host == host


@pytest.mark.parametrize(
    "principal", [None, b"", ALICE[:-1], ALICE + b"\0", b"\0\1" + ALICE[2:], b"alice"]
)
def test_a_bad_principal_is_a_failure_of_its_own(principal: bytes | None) -> None:
    """PRINCIPAL_DESERIALIZATION_FAILURE, for one that is not there too."""
    code = refusal(envelope(principal=principal))
    assert code is ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


def test_an_envelope_is_looked_at_in_kafkas_order() -> None:
    """The principal, the address, the API, the request."""
    api, body = inner(ApiKey.METADATA, 0, b""), inner(ApiKey.CREATE_ACLS, 99, b"")
    codes = [
        refusal(envelope(api, b"", b"")),
        refusal(envelope(api, ALICE, b"")),
        refusal(envelope(api, ALICE, ADDRESS)),
        refusal(envelope(body, ALICE, b"")),
        refusal(envelope(body, ALICE, ADDRESS)),
    ]
    assert codes == [97, 42, 42, 42, 35]


def test_a_large_inner_request_is_opened_in_steps() -> None:
    """Others go on meanwhile."""
    body = encode_create_acls_request(3, [READS_ORDERS] * (ITEMS_PER_STEP * 8))
    steps = open_envelope(bytearray(envelope(inner(ApiKey.CREATE_ACLS, 3, body))))
    assert sum(1 for _ in steps) >= 8


@pytest.mark.parametrize(
    ("data", "principal"),
    [(JAVA_ALICE, "User:alice"), (JAVA_TOKEN, "User:zahlung-ü")],
    ids=["alice", "token"],
)
def test_a_principal_that_kafka_wrote_is_read(data: str, principal: str) -> None:
    """Whether or not a delegation token vouches for it."""
    assert decode_principal(bytes.fromhex(data)) == principal


def test_a_principal_is_written_as_kafka_wrote_it() -> None:
    """By its DefaultKafkaPrincipalBuilder."""
    assert encode_principal("User:alice").hex() == JAVA_ALICE


@given(kind=kinds, name=texts)
def test_a_principal_reads_as_it_was_written(kind: str, name: str) -> None:
    """A name may hold colons."""
    assert decode_principal(encode_principal(f"{kind}:{name}")) == f"{kind}:{name}"


@given(kind=kinds, name=texts)
def test_a_principal_cut_at_any_byte_is_refused(kind: str, name: str) -> None:
    """Nobody is told from half a name."""
    data = encode_principal(f"{kind}:{name}")
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            decode_principal(data[:end])


@given(trailing=st.binary(min_size=1, max_size=5))
def test_bytes_after_a_principal_are_refused(trailing: bytes) -> None:
    """Kafka passes over them; who is meant by them is not known, so nobody is."""
    with pytest.raises(DecodeError, match="bytes too many"):
        decode_principal(ALICE + trailing)


def test_tagged_fields_of_a_principal_are_passed_over() -> None:
    """They are for whom knows them."""
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
def test_what_is_no_principal_is_told(data: str, reason: str) -> None:
    """A type with a colon would make two principals one."""
    with pytest.raises(DecodeError, match=reason):
        decode_principal(bytes.fromhex(data))


@given(data=st.binary(max_size=40))
def test_garbage_is_a_principal_or_refused(data: bytes) -> None:
    """By a named error."""
    with suppress(DecodeError):
        assert ":" in decode_principal(b"\0\0" + data)


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
def test_an_answer_stands_behind_the_header_of_its_own_version(
    version: int, header_size: int, whole: str, inner_answer: str
) -> None:
    """With the inner request's correlation id, and tags where that version has them."""
    body = bytes.fromhex(inner_answer)[header_size:]
    chunks = encode_envelope_response(request_of(version), [body[:3], bytearray(body[3:])])
    assert b"".join(chunks).hex() == whole


@each_version
def test_an_answer_reads_as_it_was_written(version: int) -> None:
    """By whoever forwarded the request."""
    written = b"".join(encode_envelope_response(request_of(3), [b"x" * 1000]))
    answer: Any = finish(decode_response(ApiKey.ENVELOPE, version, written))
    assert answer.response_data == b"\0\0\0\x2a\0" + b"x" * 1000
    assert answer.error_code == ErrorCode.NONE


@each_version
def test_an_outer_error_holds_no_answer(version: int) -> None:
    """As Kafka writes it."""
    assert encode_envelope_error(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE).hex() == JAVA_ERROR_97
    for code in (ErrorCode.AUTHORIZER_NOT_READY, ErrorCode.UNKNOWN_SERVER_ERROR):
        written = encode_envelope_error(code)
        answer: Any = finish(decode_response(ApiKey.ENVELOPE, version, written))
        assert (answer.response_data, answer.error_code) == (None, code)
        for end in range(len(written)):
            with pytest.raises(DecodeError):
                finish(decode_response(ApiKey.ENVELOPE, version, written[:end]))
