"""The server's end of a Kafka connection, without the connection: bytes to requests.

The same bytes give the same requests however they were cut, and nothing after a request that
Kafka answers by closing the connection is looked at. Bodies stay bytes (protocol.kafka.api).

Source: KIP-511; Kafka 4.3 RequestHeader, RequestContext, SocketServer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import Frames, frame, frame_pieces
from authorizerd.protocol.kafka.api import APIS, NO_TAGS, ApiKey, has_response_tags
from authorizerd.protocol.kafka.body_reader import BodyReader
from authorizerd.protocol.kafka.error_codes import ErrorCode

_HEAD: Final = struct.Struct(">hhih")
"""API key, version, correlation id, and the client id's size."""
_CORRELATION_ID: Final = struct.Struct(">i")
_UNSUPPORTED_API_VERSIONS: Final = struct.Struct(">hihhh")
_API_KEYS: Final = {int(key): key for key in ApiKey}


class KafkaRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One whole request."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    body: bytes | bytearray

    @property
    def is_served(self) -> bool:
        """False only for an ApiVersions of an unknown version: see ``unsupported_api_versions``."""
        return APIS[self.api_key].serves(self.api_version)


class KafkaServerConnection:
    """Requests, one after the other; each is answered before the next one is asked for.

    ``request_bytes_max`` may change, as it does once a client has logged in.
    """

    __slots__ = ("_frames", "request_bytes_max")

    def __init__(self, request_bytes_max: int) -> None:
        self._frames = Frames()
        self.request_bytes_max = request_bytes_max

    @property
    def bytes_held(self) -> int:
        """What has come and is not asked for yet, in bytes."""
        return self._frames.bytes_held

    def receive_data(self, data: bytes | bytearray) -> None:
        """Take what the peer sent; after a DecodeError, drop it."""
        self._frames.receive_data(data)

    def next_request(self) -> KafkaRequest | None:
        """Return the next request, None until all of it has come.

        Raises:
            DecodeError: what Kafka answers by closing the connection, and why.
        """
        request = self._frames.next(self.request_bytes_max)
        if request is None:
            return None
        try:
            return read_request(request)
        except DecodeError as error:
            raise self._frames.refuse(error.reason, error.position) from None

    def next_token(self) -> bytes | None:
        """Return the next frame as it is: after SaslHandshake version 0, a SASL token.

        Raises:
            DecodeError: its size is negative or too large.
        """
        token = self._frames.next(self.request_bytes_max)
        return None if token is None else bytes(token)


def frame_response(
    request: KafkaRequest, body: Sequence[bytes | bytearray]
) -> list[bytes | bytearray]:
    """Return the frame that answers ``request``, in pieces to be sent one after the other.

    Args:    body: the response's bytes in as many pieces as there happen to be.
    """
    return frame_pieces(response_header(request), body)


def response_header(request: KafkaRequest) -> bytes:
    """Return what stands before the body of the response to ``request``."""
    header = _CORRELATION_ID.pack(request.correlation_id)
    if has_response_tags(request.api_key, request.api_version):
        header += NO_TAGS
    return header


def frame_token(token: bytes) -> bytes:
    """Return the frame of a SASL token that answers another, after SaslHandshake version 0."""
    return frame(token)


def unsupported_api_versions(request: KafkaRequest) -> list[bytes | bytearray]:
    """Return the frame that answers an ApiVersions request of an unknown version.

    It is of version 0, which every client reads, and says which versions are known.
    """
    assert request.api_key is ApiKey.API_VERSIONS
    last_version = APIS[ApiKey.API_VERSIONS].last_version
    body = _UNSUPPORTED_API_VERSIONS.pack(
        ErrorCode.UNSUPPORTED_VERSION, 1, ApiKey.API_VERSIONS, 0, last_version
    )
    return frame_response(request, [body])


def read_request(request: bytearray) -> KafkaRequest:
    """Return the request in ``request``, header and body; what is left of that is its body.

    Raises:
        DecodeError: no API that is served, or no whole header.
    """
    if len(request) < _HEAD.size:
        raise DecodeError(f"a request of {len(request)} bytes has no whole header", len(request))
    number, version, correlation_id, client_id_size = _HEAD.unpack_from(request)
    api_key = _API_KEYS.get(number)
    if api_key is None:
        raise DecodeError(f"API key {number} is not served", 0)
    api = APIS[api_key]
    if not api.serves(version) and api_key is not ApiKey.API_VERSIONS:
        raise DecodeError(
            f"{api.name} of version {version}; "
            f"{api.first_version} to {api.last_version} are served",
            2,
        )
    client_id: str | None = None
    body_start = _HEAD.size
    if client_id_size >= 0:
        body_start += client_id_size
        if body_start > len(request):
            raise DecodeError(f"client id of {client_id_size} bytes, past the end", _HEAD.size)
        # Nothing is decided by this label: here Kafka's leniency does no harm.
        client_id = request[_HEAD.size : body_start].decode("utf-8", "replace")
    if api.is_flexible(version):
        reader = BodyReader(request, flexible=True, position=body_start)
        reader.end_structure()
        body_start = reader.position
    del request[:body_start]
    return KafkaRequest(
        api_key=api_key,
        api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
        body=request,
    )
