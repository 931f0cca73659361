"""A connection to one node of a Kafka cluster, on which requests are sent.

**Invariant:** one request is in flight at a time. A connection that broke, or on which a request
was abandoned, cannot be used again.

Source: Kafka 4.3 NetworkClient; KIP-511 for ApiVersions.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final, Generic, NamedTuple, TypeVar, cast

import trio

from authorizerd.config.bounds import RECEIVE_BYTES
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.errors import (
    ConnectionFailedError,
    RequestFailedError,
    Stage,
    UnservedError,
)
from authorizerd.kafka_client.transport import is_readable
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import ApiKey, RequestedKey, choose_version
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection, KafkaResponse
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.messages import read_response, write_request
from authorizerd.protocol.kafka.requests import ApiVersionsRequest
from authorizerd.protocol.kafka.responses import ApiVersionsAnswer

T = TypeVar("T")

CONNECTION_SETUP_TIMEOUT_MS: Final = 10_000
_API_VERSIONS_ASKED: Final = 4
"""The version of ApiVersions to ask for first.

Version 5 only adds ids to the request (KIP-1242), and costs a second request with Kafka before 4.4.
"""
RESPONSE_BYTES_MAX: Final = 256 << 20  # larger than any list of ACLs, but not unlimited


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request in any version, and how to read its response.

    ``encode`` may raise ValueError, ``decode`` DecodeError. Only ``versions``, if given, are sent.
    """

    api_key: RequestedKey
    encode: Callable[[int], bytes]
    decode: Callable[[int, bytes | bytearray], T]
    versions: range | None = None


def message_call(
    api_key: ApiKey, request: object, answer: type[T], versions: range | None = None
) -> Call[T]:
    """Return a call with ``request``, whose response is an ``answer``."""
    return Call(
        api_key=api_key,
        versions=versions,
        encode=lambda api_version: write_request(api_key, api_version, request),
        decode=lambda api_version, body: cast(T, read_response(api_key, api_version, body)),
    )


class Features(NamedTuple):
    """The features that a node reported.

    Attributes:
        supported: the highest level of each feature that the node supports.
        finalized: the cluster's level of each feature, as far as the node knows.
        epoch: increases with each change of the finalized levels; -1 if the node knows none.
    """

    supported: Mapping[str, int]
    finalized: Mapping[str, int]
    epoch: int


NO_FEATURES: Final = Features({}, {}, -1)


class Node:
    """A connection to one node, on which requests are answered one by one.

    Attributes:
        renewal_time: trio's time from which the user should reconnect, because the node closes
            connections whose authentication is too old (KIP-368). Infinite if it does not.
        features: the features that the node reported (KIP-584).
    """

    def __init__(self, address: Address, stream: trio.abc.Stream, client_id: str) -> None:
        self.address = address
        self._stream = stream
        self._connection = KafkaClientConnection(client_id, RESPONSE_BYTES_MAX)
        self._versions: Mapping[int, tuple[int, int]] = {}
        self.renewal_time = math.inf
        self.features = NO_FEATURES

    async def aclose(self) -> None:
        """Close the connection at once."""
        await trio.aclose_forcefully(self._stream)

    @property
    def is_silent(self) -> bool:
        """True if an idle connection is still open: the node has neither closed it nor written."""
        return not is_readable(self._stream)

    def choose_version(self, api_key: RequestedKey, versions: range | None = None) -> int:
        """Return the highest version that both sides support, among ``versions`` if given.

        Raises:
            RequestFailedError: there is none.
        """
        lowest, highest = self._versions.get(api_key, (0, -1))
        chosen = choose_version(api_key, lowest, highest, versions)
        if chosen is None:
            reason = f"The node does not support {api_key.name}"
            raise RequestFailedError(ApiError(ErrorCode.UNSUPPORTED_VERSION, reason))
        return chosen

    async def request(self, call: Call[T], timeout_ms: int) -> T:
        """Return the response to a call, in the highest version that both sides support.

        Raises:
            ConnectionFailedError: the connection broke, or no answer came in time.
            RequestFailedError: the node does not serve this API, or a string is too long.
        """
        api_version = self.choose_version(call.api_key, call.versions)
        with trio.move_on_after(timeout_ms / 1000):
            return self._read(await self._exchange(call, api_version), call)
        raise ConnectionFailedError(f"{self.address}: no answer within {timeout_ms} ms")

    async def negotiate(self) -> None:
        """Learn which APIs and features the node has. May be called repeatedly.

        A node that does not know this version of ApiVersions answers in version 0 (KIP-511).

        Raises:
            ConnectionFailedError: the connection broke.
        """
        software = ApiVersionsRequest(
            client_software_name="authorizerd", client_software_version=version("authorizerd")
        )
        call = message_call(ApiKey.API_VERSIONS, software, ApiVersionsAnswer)
        asked = _API_VERSIONS_ASKED
        response = await self._exchange(call, asked)
        # Every version begins with the error code, and only the code tells which version this is.
        if int.from_bytes(response.body[:2], "big") == ErrorCode.UNSUPPORTED_VERSION:
            known = _served(self._read(response, call, 0))
            asked = max(0, min(known.get(ApiKey.API_VERSIONS, (0, 0))[1], asked))
            response = await self._exchange(call, asked)
        served = self._read(response, call)
        if served.error_code:
            raise ConnectionFailedError(f"{self.address}: {ApiError(served.error_code)}")
        self._versions = _served(served)
        self.features = _read_features(served)

    async def _exchange(self, call: Call[T], api_version: int) -> KafkaResponse:
        try:
            body = call.encode(api_version)
            request = self._connection.frame_request(call.api_key, api_version, body)
        except ValueError as error:
            raise RequestFailedError(ApiError(ErrorCode.INVALID_REQUEST, str(error))) from None
        try:
            await self._stream.send_all(request)
            while (response := self._connection.next_response()) is None:
                received = await self._stream.receive_some(RECEIVE_BYTES)
                if not received:
                    raise self._closed()
                self._connection.receive_data(received)
        # Another task may close the connection in the meantime, for example to a former leader.
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise self._closed() from error
        except OSError as error:
            raise ConnectionFailedError(f"{self.address}: {error}") from error
        except DecodeError as error:
            raise self._unreadable(error) from error
        return response

    def _read(self, response: KafkaResponse, call: Call[T], api_version: int | None = None) -> T:
        """Return the decoded response, whose version may differ from the request's."""
        try:
            return call.decode(
                response.api_version if api_version is None else api_version, response.body
            )
        except DecodeError as error:
            raise self._unreadable(error) from error

    def _closed(self) -> UnservedError:
        text = f"{self.address}: the server closed the connection without an answer"
        return self._unserved(text, Stage.REQUEST)

    def _unreadable(self, error: DecodeError) -> UnservedError:
        text = f"{self.address}: expected a Kafka response: {error}"
        return self._unserved(text, Stage.RESPONSE)

    def _unserved(self, text: str, later: Stage) -> UnservedError:
        """Return the error at stage ``later``, or at NEGOTIATION if ApiVersions is unanswered."""
        return UnservedError(text, self.address, later if self._versions else Stage.NEGOTIATION)


OpenNode = Callable[[str, int], Awaitable[Node]]
"""Connect to a host and port, and log in, as ``NodeOpener.open`` does.

Raises:
    ConnectionFailedError: the node cannot be used.
"""


def _served(response: ApiVersionsAnswer) -> dict[int, tuple[int, int]]:
    """Return the lowest and highest version of each API by its key."""
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


def _read_features(response: ApiVersionsAnswer) -> Features:
    """Return the features; versions below 3 have none."""
    epoch = response.finalized_features_epoch
    finalized = response.finalized_features if epoch >= 0 else ()
    return Features(
        {
            supported_feature.name: supported_feature.max_version
            for supported_feature in response.supported_features
        },
        {each.name: each.max_version_level for each in finalized},
        epoch,
    )
