"""The Envelope: a request that a broker forwards, its original sender, and the answer.

An Envelope is decoded completely before anything in it is executed. Each fault has one outer error.
The envelope's principal is not verified here: the handler must check that the sender may forward
requests. Requests that Kafka 4 cannot read get UNSUPPORTED_VERSION: no broker forwards them.

Source: KIP-590, KIP-801; Kafka 4.3 EnvelopeUtils, DefaultKafkaPrincipalBuilder. Stricter than Kafka
in three cases: it rejects bytes after the inner request, bytes after the principal, and a colon in
a principal's type, which could imitate another principal.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

import msgspec

from authorizerd.acl.hosts import host_address
from authorizerd.acl.steps import Steps
from authorizerd.protocol import primitives as wire
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.api_names import API_NAMES
from authorizerd.protocol.kafka.body_reader import BodyReader, cut_in_place
from authorizerd.protocol.kafka.chunked_output import Chunk
from authorizerd.protocol.kafka.codec import NO_TAGS
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.messages import decode_request
from authorizerd.protocol.kafka.server_connection import KafkaRequest, read_request, response_header

FORWARDABLE: Final = frozenset(
    (
        "CreateAcls",
        "DeleteAcls",
        "AlterConfigs",
        "IncrementalAlterConfigs",
        "AlterUserScramCredentials",
        "DescribeQuorum",
    )
)
"""The served APIs that an Envelope may contain."""
PRINCIPAL_VERSION: Final = 0

_FORWARDABLE_KEYS: Final = frozenset(
    int(key) for key, api in APIS.items() if api.name in FORWARDABLE
)
_ADDRESS_SIZES: Final = (4, 16)
_HEADER_BYTES_MIN: Final = 10
_KAFKAS_API_KEYS: Final = frozenset(API_NAMES) - {4, 5, 6, 7}
"""The API keys of Kafka 4. Kafka 4.0 dropped four, which only ZooKeeper-based controllers sent."""
_DROPPED_VERSIONS: Final = frozenset(((ApiKey.CREATE_ACLS, 0), (ApiKey.DELETE_ACLS, 0)))
"""Versions that this daemon serves to clients, for KIP-140. Kafka 4.0 dropped them."""
_INT16: Final = struct.Struct(">h")

_Range = tuple[int, int]
"""The bounds of some bytes in a request, so that large values are not copied."""


class Forwarded(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of an Envelope: a request, and its original sender.

    ``asked`` is the decoded request. Its arrays are lists, which may be long.
    """

    request: KafkaRequest
    asked: msgspec.Struct
    principal: str
    host: str


class EnvelopeError(Exception):
    """An Envelope must be answered with an outer error."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(f"{code.name}: {reason}")
        self.code = code


def open_envelope(body: bytes | bytearray) -> Steps[Forwarded]:
    """Return, in steps, the contents of an Envelope of either version. A bytearray is consumed.

    Raises:
        DecodeError: the bytes are not an Envelope. Kafka closes the connection.
        EnvelopeError: the contents are refused.
    """
    reader = BodyReader(body, flexible=True)
    data = reader.byte_range("request_data")
    principal_range = reader.nullable_byte_range("request_principal")
    address_range = reader.byte_range("client_host_address")
    reader.end_structure()
    # Check in Kafka's order, which decides which fault is reported. The request comes last: it
    # consumes ``body``.
    principal = _open_principal(body, principal_range)
    host = _open_address(body, address_range)
    request = _open_request(body, data)
    try:
        asked = yield from decode_request(
            request.api_key, request.api_version, request.body, is_exact=True
        )
    except DecodeError as error:
        raise unreadable_request(error) from error
    return Forwarded(request=request, asked=asked, principal=principal, host=host)


def decode_principal(data: bytes | bytearray, start: int = 0, end: int | None = None) -> str:
    """Return the principal, ``Type:name``, in ``data`` from ``start`` to ``end``.

    Raises:
        DecodeError: the bytes are not exactly one principal.
    """
    reader = BodyReader(data, flexible=True, position=start, end=end)
    version = reader.int16("principal version")
    if version != PRINCIPAL_VERSION:
        raise DecodeError(f"principal: expected version 0, found {version}", start)
    kind = reader.string("principal type")
    if ":" in kind:
        raise DecodeError(f"principal type: unexpected colon in {kind!r}", start + _INT16.size)
    name = reader.string("principal name")
    reader.boolean("token_authenticated")
    reader.end_structure()
    reader.expect_end("principal")
    return f"{kind}:{name}"


def encode_envelope_response(request: KafkaRequest, body: Sequence[Chunk]) -> list[Chunk]:
    """Return, in chunks, the body of the response whose inner ``body`` answers ``request``."""
    header = response_header(request)
    size = len(header) + sum(map(len, body))
    announced = wire.unsigned_varint(size + 1) + header
    return [announced, *body, _INT16.pack(ErrorCode.NONE) + NO_TAGS]


def unreadable_request(error: DecodeError) -> EnvelopeError:
    """Return the error for an inner request with invalid bytes.

    As in Kafka, INVALID_REQUEST is reserved for faults of the Envelope itself.
    """
    return EnvelopeError(ErrorCode.UNSUPPORTED_VERSION, f"inner request: {error}")


def _open_principal(body: bytes | bytearray, bounds: _Range | None) -> str:
    code = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    if bounds is None:
        raise EnvelopeError(code, "the principal is missing")
    try:
        return decode_principal(body, *bounds)
    except DecodeError as error:
        raise EnvelopeError(code, str(error)) from error


def _open_address(body: bytes | bytearray, bounds: _Range) -> str:
    start, end = bounds
    if end - start not in _ADDRESS_SIZES:
        raise EnvelopeError(
            ErrorCode.INVALID_REQUEST,
            f"client_host_address: expected 4 or 16 bytes, found {end - start}",
        )
    host = host_address(str(ip_address(bytes(body[start:end]))))
    assert host is not None, "every address of this size has a text"
    return host


def _open_request(body: bytes | bytearray, bounds: _Range) -> KafkaRequest:
    """Cut the inner request out of ``body`` and return it. Its own body is not decoded yet."""
    data = cut_in_place(body, *bounds)
    if not isinstance(data, bytearray):
        data = bytearray(data)
    # Other APIs get their own error, whatever follows the common header fields.
    if len(data) >= _HEADER_BYTES_MIN:
        (api_key,) = _INT16.unpack_from(data)
        if api_key in _KAFKAS_API_KEYS - _FORWARDABLE_KEYS:
            raise EnvelopeError(ErrorCode.INVALID_REQUEST, f"API key {api_key} cannot be forwarded")
    try:
        request = read_request(data)
    except DecodeError as error:
        raise unreadable_request(error) from error
    if (request.api_key, request.api_version) in _DROPPED_VERSIONS:
        reason = f"{request.api_key.name}: version {request.api_version} cannot be forwarded"
        raise EnvelopeError(ErrorCode.UNSUPPORTED_VERSION, reason)
    return request
