"""Envelopes that Kafka's own classes wrote, and helpers that build others."""

import struct
from functools import partial
from types import SimpleNamespace

from authorizerd.acl.steps import finish
from authorizerd.kafka_client.connection import Call
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.envelope_client import (
    EnvelopeAnswer,
    InnerRequest,
    decode_envelope,
    encode_envelope,
)
from tests.support.kio_codec import encode_request

# What Kafka 4.3.1's EnvelopeRequestData, EnvelopeResponseData and DefaultKafkaPrincipalBuilder
# wrote for these values.
JAVA_ALICE = "0000055573657206616c6963650000"
JAVA_TOKEN = "000005557365720b7a61686c756e672dc3bc0100"
JAVA_CREATE_V1 = (
    "001e00010000002a0008636c69656e742d31000000010200066f726465727303000a557365723a616c69636500012a"
    "0303"
)
JAVA_CREATE_V3 = (
    "001e00030000002a0008636c69656e742d31000202076f7264657273030b557365723a616c696365022a03030000"
)
JAVA_ENVELOPE_V1 = "32" + JAVA_CREATE_V1 + "10" + JAVA_ALICE + "050a00000900"
JAVA_ENVELOPE_V3 = "2f" + JAVA_CREATE_V3 + "10" + JAVA_ALICE + "050a00000900"
JAVA_CREATED_V1 = "0000002a000000000000000100000000"
JAVA_CREATED_V3 = "0000002a0000000000020000010000"
JAVA_ANSWER_V1 = "11" + JAVA_CREATED_V1 + "000000"
JAVA_ANSWER_V3 = "10" + JAVA_CREATED_V3 + "000000"
JAVA_ERROR_97 = "00006100"

ALICE = bytes.fromhex(JAVA_ALICE)
CREATE = bytes.fromhex(JAVA_CREATE_V3)
ADDRESS = b"\x0a\0\0\x09"
HEADER = struct.Struct(">hhih")


def envelope(
    data: bytes = CREATE,
    principal: bytes | None = ALICE,
    address: bytes = ADDRESS,
    *,
    version: int = 1,
) -> bytes:
    """Return the body of an Envelope request."""
    written = SimpleNamespace(
        request_data=data, request_principal=principal, client_host_address=address
    )
    return finish(encode_request(ApiKey.ENVELOPE, version, written))


def inner(api_key: int, version: int, body: bytes, *, tags: bytes = b"\0") -> bytes:
    """Return a request for an Envelope: header and body, without its size."""
    return HEADER.pack(api_key, version, 42, 8) + b"client-1" + tags + body


def envelope_call(request: InnerRequest, *, principal: str, host: str) -> Call[EnvelopeAnswer]:
    """Return the call that forwards a request. See ``encode_envelope`` for the arguments."""
    return Call(
        api_key=ApiKey.ENVELOPE,
        encode=partial(encode_envelope, request=request, principal=principal, host=host),
        decode=lambda _, body: decode_envelope(request, body),
    )
