"""The Envelope from the forwarder's side: another principal's request, and the answer to it.

Source: KIP-590; Kafka 4.3 ForwardingManager, DefaultKafkaPrincipalBuilder, EnvelopeResponse.
"""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import Final

import msgspec

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import ApiKey, has_response_tags
from authorizerd.protocol.kafka.body_reader import BodyReader, cut_in_place, string
from authorizerd.protocol.kafka.client_connection import request_header
from authorizerd.protocol.kafka.codec import NO_TAGS
from authorizerd.protocol.kafka.envelope import PRINCIPAL_VERSION
from authorizerd.protocol.kafka.messages import write_request
from authorizerd.protocol.kafka.requests import EnvelopeRequest

_VERSION: Final = struct.Struct(">h")
_NOT_BY_TOKEN: Final = b"\0"


class InnerRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request to be forwarded. ``body`` has the given version."""

    api_key: ApiKey
    api_version: int
    body: bytes
    correlation_id: int = 0
    client_id: str | None = None

    def __repr__(self) -> str:
        """Return a text without the body, which may contain passwords."""
        return f"InnerRequest({self.api_key.name}, version={self.api_version})"


class EnvelopeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an Envelope: an error code, or with code 0 the inner response's body."""

    error_code: int
    body: bytes | bytearray = b""


def encode_envelope(version: int, request: InnerRequest, *, principal: str, host: str) -> bytes:
    """Return the body of an Envelope. The receiver trusts its sender with any principal.

    Args:
        principal: ``Type:name``.
        host: the client's IP address. A zone is left out.

    Raises:
        ValueError: the principal has no type, the host is not an address, or a string exceeds
            Kafka's maximum.
    """
    fields = EnvelopeRequest(
        request_data=request_header(
            request.api_key, request.api_version, request.correlation_id, request.client_id
        )
        + request.body,
        request_principal=encode_principal(principal),
        client_host_address=ip_address(host).packed,
    )
    return write_request(ApiKey.ENVELOPE, version, fields)


def encode_principal(principal: str) -> bytes:
    """Return a principal, ``Type:name``, as Kafka's default principal builder serializes it.

    Raises:
        ValueError: it has no type, or a part exceeds Kafka's maximum.
    """
    kind, colon, name = principal.partition(":")
    if not colon:
        raise ValueError(f"expected a principal as Type:name, found {principal!r}")
    texts = string(kind, flexible=True) + string(name, flexible=True)
    return _VERSION.pack(PRINCIPAL_VERSION) + texts + _NOT_BY_TOKEN + NO_TAGS


def decode_envelope(request: InnerRequest, body: bytes | bytearray) -> EnvelopeAnswer:
    """Return the answer to an Envelope with ``request``. A bytearray is consumed.

    Raises:
        DecodeError: the bytes are not such an answer.
    """
    reader = BodyReader(body, flexible=True)
    bounds = reader.nullable_byte_range("response_data")
    error_code = reader.int16("error_code")
    reader.end_structure()
    reader.expect_end("Envelope")
    if error_code:
        return EnvelopeAnswer(error_code=error_code)
    if bounds is None:
        raise DecodeError("response_data: expected bytes, found null", 0)
    reader = BodyReader(body, flexible=False, position=bounds[0], end=bounds[1])
    correlation_id = reader.int32("correlation id")
    if correlation_id != request.correlation_id:
        raise DecodeError(
            f"correlation id: expected {request.correlation_id}, found {correlation_id}", bounds[0]
        )
    reader.flexible = has_response_tags(request.api_key, request.api_version)
    reader.end_structure()
    return EnvelopeAnswer(error_code=0, body=cut_in_place(body, reader.position, bounds[1]))
