"""The server's end of a Kafka connection, without a socket: bytes to requests.

The same bytes give the same requests, however they were split. After a request that Kafka answers
by closing the connection, the rest is ignored. ``protocol.kafka.messages`` decodes the bodies.

Source: KIP-511; Kafka 4.3 RequestHeader, RequestContext, SocketServer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import Frames, frame, frame_chunks
from authorizerd.protocol.kafka.api import APIS, ApiKey, has_response_tags
from authorizerd.protocol.kafka.api_names import API_NAMES
from authorizerd.protocol.kafka.body_reader import BodyReader
from authorizerd.protocol.kafka.codec import NO_TAGS
from authorizerd.protocol.kafka.error_codes import ErrorCode

_HEAD: Final = struct.Struct(">hhih")
"""API key, version, correlation id, and the size of the client id."""
_CORRELATION_ID: Final = struct.Struct(">i")
_UNSUPPORTED_API_VERSIONS: Final = struct.Struct(">hihhh")
_API_KEYS: Final = {int(key): key for key in ApiKey}


class KafkaRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One complete request."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None
    body: bytes | bytearray

    def __repr__(self) -> str:
        """Return a text without the body, which may contain passwords."""
        return f"KafkaRequest({self.api_key.name}, version={self.api_version})"

    @property
    def is_served(self) -> bool:
        """False only for an unknown version of ApiVersions: see ``unsupported_api_versions``."""
        return APIS[self.api_key].serves(self.api_version)


class KafkaServerConnection:
    """Reads requests one after the other. Each one is answered before the next is read.

    ``request_bytes_max`` may change, for example when a client has logged in.
    """

    __slots__ = ("_frames", "request_bytes_max")

    def __init__(self, request_bytes_max: int) -> None:
        self._frames = Frames()
        self.request_bytes_max = request_bytes_max

    @property
    def bytes_held(self) -> int:
        """The bytes received but not returned yet."""
        return self._frames.bytes_held

    def receive_data(self, data: bytes | bytearray) -> None:
        """Add data from the peer. After a DecodeError, data is dropped."""
        self._frames.receive_data(data)

    def next_request(self) -> KafkaRequest | None:
        """Return the next request, or None until it is complete.

        Raises:
            DecodeError: the request is invalid. Kafka closes the connection.
        """
        request = self._frames.next(self.request_bytes_max)
        if request is None:
            return None
        try:
            return read_request(request)
        except DecodeError as error:
            raise self._frames.refuse(error.reason, error.position) from None

    def next_token(self) -> bytes | None:
        """Return the next frame unparsed: after SaslHandshake version 0, a SASL token.

        Raises:
            DecodeError: its size is negative or too large.
        """
        token = self._frames.next(self.request_bytes_max)
        return None if token is None else bytes(token)


def frame_response(
    request: KafkaRequest, body: Sequence[bytes | bytearray]
) -> list[bytes | bytearray]:
    """Return the frame that answers ``request``, in chunks to be sent one after the other.

    Args:
        body: the response's bytes, in any number of chunks.
    """
    return frame_chunks(response_header(request), body)


def response_header(request: KafkaRequest) -> bytes:
    """Return the header of the response to ``request``."""
    header = _CORRELATION_ID.pack(request.correlation_id)
    if has_response_tags(request.api_key, request.api_version):
        header += NO_TAGS
    return header


def frame_token(token: bytes) -> bytes:
    """Return the frame of a SASL token that answers another, after SaslHandshake version 0."""
    return frame(token)


def unsupported_api_versions(request: KafkaRequest) -> list[bytes | bytearray]:
    """Return the frame that answers an ApiVersions request of an unknown version.

    It has version 0, which every client can read, and lists the known versions.
    """
    assert request.api_key is ApiKey.API_VERSIONS
    last_version = APIS[ApiKey.API_VERSIONS].last_version
    body = _UNSUPPORTED_API_VERSIONS.pack(
        ErrorCode.UNSUPPORTED_VERSION, 1, ApiKey.API_VERSIONS, 0, last_version
    )
    return frame_response(request, [body])


def read_request(request: bytearray) -> KafkaRequest:
    """Return the request in ``request``: the header is cut off, and the rest becomes the body.

    Raises:
        DecodeError: the API is not served, or the header is incomplete.
    """
    if len(request) < _HEAD.size:
        raise DecodeError(f"expected a request header, found {len(request)} bytes", len(request))
    number, version, correlation_id, client_id_size = _HEAD.unpack_from(request)
    api_key = _API_KEYS.get(number)
    if api_key is None:
        name = API_NAMES.get(number, f"API key {number}")
        raise DecodeError(f"{name} is not served", 0)
    api = APIS[api_key]
    # An unknown version of ApiVersions is answered, so that the client can choose a known one.
    if not api.serves(version) and api_key is not ApiKey.API_VERSIONS:
        raise DecodeError(
            f"{api.name}: expected version {api.first_version} to {api.last_version}, "
            f"found {version}",
            2,
        )
    client_id: str | None = None
    body_start = _HEAD.size
    # Kafka reads any negative size as null, not only -1.
    if client_id_size >= 0:
        body_start += client_id_size
        if body_start > len(request):
            raise DecodeError(
                f"client id: {client_id_size} bytes announced, {len(request) - _HEAD.size} left",
                _HEAD.size,
            )
        # Replacing invalid UTF-8, as Kafka does, is safe here: no decision uses the client id.
        client_id = request[_HEAD.size : body_start].decode("utf-8", "replace")
    # This includes unknown versions of ApiVersions, whose headers are read as well.
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
