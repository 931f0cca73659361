"""The Envelope: a request that a broker forwards, with whom it came from, and what answers it.

An Envelope is opened whole before anything in it is done, and what cannot be opened has one outer
error each. Whom it names is taken at their word: who may send one is for the handler to ask.

Source: KIP-590, KIP-801; Kafka 4.3 EnvelopeUtils, DefaultKafkaPrincipalBuilder. Stricter than
Kafka in three things: bytes after the inner request or the principal, and a principal's type with
a colon in it, which would pass for somebody else's, are refused.
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
from authorizerd.protocol.kafka.acl_responses import Piece
from authorizerd.protocol.kafka.api import APIS, NO_TAGS, request_type
from authorizerd.protocol.kafka.body_reader import BodyReader
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.message_codec import check_entity
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
"""The APIs that an Envelope carries, those of them that are served."""
PRINCIPAL_VERSION: Final = 0

_FORWARDABLE_KEYS: Final = frozenset(
    int(key) for key, api in APIS.items() if api.name in FORWARDABLE
)
_ADDRESS_SIZES: Final = (4, 16)
_API_KEY_BYTES: Final = 2
_INT16: Final = struct.Struct(">h")

_Range = tuple[int, int]
"""Where bytes of a request stand; a large one is not copied out of the buffer it came in."""


class Forwarded(msgspec.Struct, frozen=True, kw_only=True):
    """What an Envelope holds: a request, and who sent it to the forwarder."""

    request: KafkaRequest
    principal: str
    host: str


class EnvelopeError(Exception):
    """An Envelope that is answered by an outer error."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(f"{code.name}: {reason}")
        self.code = code


def open_envelope(body: bytes | bytearray) -> Steps[Forwarded]:
    """Return, in steps, what an Envelope of either version holds; a bytearray is used up by it.

    Raises:
        DecodeError: it is no Envelope: what Kafka answers by closing the connection.
        EnvelopeError: what it holds is refused.
    """
    reader = BodyReader(body, flexible=True)
    data = _read_range(reader, "request_data")
    principal_range = _read_nullable_range(reader, "request_principal")
    address_range = _read_range(reader, "client_host_address")
    reader.end_structure()
    principal = _open_principal(body, principal_range)
    host = _open_address(body, address_range)
    request = _open_request(body, data)
    try:
        yield from check_entity(request_type(request.api_key, request.api_version), request.body)
    except DecodeError as error:
        raise unreadable_request(error) from error
    return Forwarded(request=request, principal=principal, host=host)


def decode_principal(data: bytes | bytearray, start: int = 0, end: int | None = None) -> str:
    """Return the principal, ``Type:name``, that stands in ``data`` from ``start`` to ``end``.

    Raises:
        DecodeError: no principal stands there, or more than one does.
    """
    reader = BodyReader(data, flexible=True, position=start, end=end)
    version = reader.int16("version of the principal")
    if version != PRINCIPAL_VERSION:
        raise DecodeError(f"a principal of version {version}; 0 is known", start)
    kind = reader.string("type of the principal")
    if ":" in kind:
        raise DecodeError(f"type of the principal: a colon in {kind!r}", start + _INT16.size)
    name = reader.string("name of the principal")
    reader.boolean("token_authenticated")
    reader.end_structure()
    reader.expect_end("principal")
    return f"{kind}:{name}"


def encode_envelope_response(request: KafkaRequest, body: Sequence[Piece]) -> list[Piece]:
    """Return, in pieces, the body of the response whose inner ``body`` answers ``request``."""
    header = response_header(request)
    size = len(header) + sum(map(len, body))
    announced = wire.unsigned_varint(size + 1) + header
    return [announced, *body, _INT16.pack(ErrorCode.NONE) + NO_TAGS]


def encode_envelope_error(code: ErrorCode) -> bytes:
    """Return the body of a response that holds no other."""
    no_response = b"\0"
    return no_response + _INT16.pack(code) + NO_TAGS


def unreadable_request(error: DecodeError) -> EnvelopeError:
    """Return what is answered where the inner request's bytes are not what they should be.

    Kafka's choice: INVALID_REQUEST is what is wrong with the Envelope itself.
    """
    return EnvelopeError(ErrorCode.UNSUPPORTED_VERSION, f"inner request: {error}")


def _open_principal(body: bytes | bytearray, place: _Range | None) -> str:
    code = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    if place is None:
        raise EnvelopeError(code, "there is no principal")
    try:
        return decode_principal(body, *place)
    except DecodeError as error:
        raise EnvelopeError(code, str(error)) from error


def _open_address(body: bytes | bytearray, place: _Range) -> str:
    start, end = place
    if end - start not in _ADDRESS_SIZES:
        raise EnvelopeError(
            ErrorCode.INVALID_REQUEST, f"client_host_address: {end - start} bytes, not 4 or 16"
        )
    host = host_address(str(ip_address(bytes(body[start:end]))))
    assert host is not None, "every such address has a text"
    return host


def _open_request(body: bytes | bytearray, place: _Range) -> KafkaRequest:
    """Cut the inner request out of ``body`` and return it, its own body not read yet."""
    start, end = place
    data = body if isinstance(body, bytearray) else bytearray(body)
    del data[end:]
    del data[:start]
    if len(data) >= _API_KEY_BYTES:
        (api_key,) = _INT16.unpack_from(data)
        if api_key not in _FORWARDABLE_KEYS:
            raise EnvelopeError(ErrorCode.INVALID_REQUEST, f"API key {api_key} is not forwarded")
    try:
        return read_request(data)
    except DecodeError as error:
        raise unreadable_request(error) from error


def _read_range(reader: BodyReader, what: str) -> _Range:
    start = reader.position
    place = _read_nullable_range(reader, what)
    if place is None:
        raise DecodeError(f"{what}: null where bytes must stand", start)
    return place


def _read_nullable_range(reader: BodyReader, what: str) -> _Range | None:
    size = reader.unsigned_varint(what) - 1
    if size < 0:
        return None
    start = reader.position
    if size > reader.remaining:
        raise DecodeError(f"{what}: {size} bytes announced, {reader.remaining} left", start)
    reader.position = start + size
    return start, reader.position
