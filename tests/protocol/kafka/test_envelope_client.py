"""The Envelope from the forwarder's side: against Kafka's bytes and against the server's side."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.envelope import (
    decode_principal,
    encode_envelope_response,
    open_envelope,
)
from authorizerd.protocol.kafka.envelope_client import (
    EnvelopeAnswer,
    InnerRequest,
    decode_envelope,
    encode_envelope,
    encode_principal,
)
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.protocol.decoding import check_cuts
from tests.support.acl_messages import encode_envelope_error
from tests.support.envelopes import (
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
)
from tests.support.strategies import texts

HEADER_BYTES = 2 + 2 + 4 + 2 + len("client-1")
JAVA_CASES = [
    (1, JAVA_CREATE_V1, JAVA_ENVELOPE_V1, JAVA_CREATED_V1, JAVA_ANSWER_V1),
    (3, JAVA_CREATE_V3, JAVA_ENVELOPE_V3, JAVA_CREATED_V3, JAVA_ANSWER_V3),
]


def inner(version: int, created: str) -> InnerRequest:
    """Return the request in Kafka's bytes; a flexible header ends with a byte for its tags."""
    body = bytes.fromhex(created)[HEADER_BYTES + (version == 3) :]
    return InnerRequest(
        api_key=ApiKey.CREATE_ACLS,
        api_version=version,
        body=body,
        correlation_id=42,
        client_id="client-1",
    )


@pytest.mark.parametrize(("version", "created", "envelope", "inner_answer", "answer"), JAVA_CASES)
def test_envelope_has_kafkas_bytes(
    version: int, created: str, envelope: str, inner_answer: str, answer: str
) -> None:
    """Its answer is the inner response without the header."""
    request = inner(version, created)
    found = encode_envelope(0, request, principal="User:alice", host="10.0.0.9")
    assert found.hex() == envelope
    body = bytes.fromhex(inner_answer)[4 + (version == 3) :]
    for data in (bytes.fromhex(answer), bytearray.fromhex(answer)):
        assert decode_envelope(request, data) == EnvelopeAnswer(error_code=0, body=body)


def test_principal_has_kafkas_bytes() -> None:
    assert encode_principal("User:alice").hex() == JAVA_ALICE


@given(kind=texts.filter(lambda text: ":" not in text), name=texts)
def test_any_principal_arrives(kind: str, name: str) -> None:
    """Only the first colon ends the type."""
    assert decode_principal(encode_principal(f"{kind}:{name}")) == f"{kind}:{name}"


@pytest.mark.parametrize(
    ("host", "arrives"),
    [
        ("192.168.0.1", "192.168.0.1"),
        ("2001:db8:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:1"),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80:0:0:0:0:0:0:1"),
    ],
)
def test_address_arrives(host: str, arrives: str) -> None:
    body = encode_envelope(1, inner(3, JAVA_CREATE_V3), principal="User:a", host=host)
    assert finish(open_envelope(bytearray(body))).host == arrives


@pytest.mark.parametrize(("principal", "host"), [("alice", "10.0.0.1"), ("User:a", "localhost")])
def test_unusable_sender_is_rejected(principal: str, host: str) -> None:
    with pytest.raises(ValueError, match=r"alice|localhost"):
        encode_envelope(0, inner(3, JAVA_CREATE_V3), principal=principal, host=host)


@pytest.mark.parametrize(
    "code", [ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, ErrorCode.NOT_CONTROLLER]
)
def test_outer_error_is_returned(code: ErrorCode) -> None:
    request = inner(3, JAVA_CREATE_V3)
    assert decode_envelope(request, encode_envelope_error(code)).error_code == code
    assert decode_envelope(request, bytes.fromhex(JAVA_ERROR_97)).error_code == 97


@given(answer=st.binary(max_size=20), version=st.sampled_from([1, 3]))
def test_answer_of_our_server_arrives(answer: bytes, version: int) -> None:
    created = JAVA_CREATE_V3 if version == 3 else JAVA_CREATE_V1
    request = inner(version, created)
    body = encode_envelope(1, request, principal="User:a", host="10.0.0.1")
    served = finish(open_envelope(bytearray(body))).request
    sent = b"".join(encode_envelope_response(served, [answer]))
    assert decode_envelope(request, sent).body == answer
    check_cuts(partial(decode_envelope, request), sent)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("00000000", "response_data: expected bytes, found null"),
        ("050000002b000000", "correlation id: expected 42, found 43"),
        ("050000002a00000001", "1 bytes too many"),
    ],
)
def test_answer_to_something_else_is_rejected(answer: str, said: str) -> None:
    with pytest.raises(DecodeError, match=said):
        decode_envelope(inner(1, JAVA_CREATE_V1), bytes.fromhex(answer))


def test_text_of_a_request_has_no_body() -> None:
    request = InnerRequest(api_key=ApiKey.CREATE_ACLS, api_version=3, body=b"secret")
    assert repr(request) == "InnerRequest(CREATE_ACLS, version=3)"
