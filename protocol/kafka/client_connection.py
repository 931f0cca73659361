"""The client's end of a Kafka connection, without a socket: requests to bytes, bytes to responses.

It numbers the requests, and matches responses by these numbers.

Source: Kafka 4.3 RequestHeader, ResponseHeader.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import Frames, frame
from authorizerd.protocol.kafka.api import (
    REQUESTED_APIS,
    RequestedKey,
    has_response_tags,
)
from authorizerd.protocol.kafka.body_reader import BodyReader, nullable_string
from authorizerd.protocol.kafka.codec import NO_TAGS

_HEAD: Final = struct.Struct(">hhi")
_CORRELATION_IDS: Final = 1 << 31


def request_header(
    api_key: RequestedKey, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Return the header of a request.

    Raises:
        ValueError: the client id exceeds Kafka's maximum.
    """
    head = _HEAD.pack(api_key, api_version, correlation_id)
    # The client id has a 2-byte length even if the version is flexible.
    tags = NO_TAGS if REQUESTED_APIS[api_key].is_flexible(api_version) else b""
    return head + nullable_string(client_id, flexible=False) + tags


class KafkaResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One complete response, with the API and version of its request."""

    api_key: RequestedKey
    api_version: int
    correlation_id: int
    body: bytes | bytearray


class KafkaClientConnection:
    """Numbers the requests of one client, and matches the responses to them."""

    __slots__ = ("_client_id", "_frames", "_next_correlation_id", "_response_bytes_max", "_waiting")

    def __init__(self, client_id: str | None, response_bytes_max: int) -> None:
        self._client_id = client_id
        self._frames = Frames()
        self._next_correlation_id = 0
        self._response_bytes_max = response_bytes_max
        self._waiting: dict[int, tuple[RequestedKey, int]] = {}

    def frame_request(self, api_key: RequestedKey, api_version: int, body: bytes) -> bytes:
        """Return a request's frame. Its response is expected from now on.

        Raises:
            ValueError: the client id exceeds Kafka's maximum.
        """
        assert REQUESTED_APIS[api_key].serves(api_version)
        correlation_id = self._next_correlation_id
        header = request_header(api_key, api_version, correlation_id, self._client_id)
        # Count the request only now: a client id that is too long raises an error above.
        self._next_correlation_id = (correlation_id + 1) % _CORRELATION_IDS
        self._waiting[correlation_id] = (api_key, api_version)
        return frame(header, body)

    def receive_data(self, data: bytes | bytearray) -> None:
        """Add data from the peer. After a DecodeError, data is dropped."""
        self._frames.receive_data(data)

    def next_response(self) -> KafkaResponse | None:
        """Return the next response, or None until it is complete.

        Raises:
            DecodeError: the bytes are not a response to any pending request.
        """
        response = self._frames.next(self._response_bytes_max)
        if response is None:
            return None
        try:
            return self._read_response(response)
        except DecodeError as error:
            raise self._frames.refuse(error.reason, error.position) from None

    def _read_response(self, response: bytearray) -> KafkaResponse:
        reader = BodyReader(response, flexible=False)
        correlation_id = reader.int32("correlation id")
        asked = self._waiting.pop(correlation_id, None)  # so a second response is an error
        if asked is None:
            raise DecodeError(f"no request has correlation id {correlation_id}", 0)
        api_key, api_version = asked
        # Only the request tells whether the header has tagged fields.
        reader.flexible = has_response_tags(api_key, api_version)
        reader.end_structure()
        del response[: reader.position]
        return KafkaResponse(
            api_key=api_key,
            api_version=api_version,
            correlation_id=correlation_id,
            body=response,
        )
