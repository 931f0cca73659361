"""A TCP connection to one node of a Kafka cluster: connect, log in, send requests.

**Invariant:** one request is under way at a time, and every failure is one of the errors here. A
connection that broke, or on which a request was abandoned, cannot be used again.

Source: Kafka 4.3 NetworkClient, SaslClientAuthenticator; KIP-511 for ApiVersions.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from socket import AddressFamily, SocketKind
from types import SimpleNamespace
from typing import Final, Generic, TypeAlias, TypeVar, cast

import trio
from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from authorizerd.acl.steps import finish
from authorizerd.config.bounds import RECEIVE_BYTES
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import APIS, ApiKey, decode_response, encode_request
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection, KafkaResponse
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

T = TypeVar("T")

CONNECTION_SETUP_TIMEOUT_MS: Final = 10_000
RESPONSE_BYTES_MAX: Final = 256 << 20  # above any list of ACLs, but not unlimited
_FIRST_VERSIONS: Final = {
    ApiKey.SASL_HANDSHAKE: 1,  # version 0 is followed by bare tokens
    ApiKey.DESCRIBE_CLUSTER: 1,  # version 0 cannot list controllers
    ApiKey.DESCRIBE_ACLS: 1,  # version 0 has no pattern types
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
}
_MECHANISM: Final = "PLAIN"


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCredentials:
    """The credentials for SASL's mechanism PLAIN."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request in any version, and how its response is read.

    ``encode`` may raise ValueError, ``decode`` DecodeError.
    """

    api_key: ApiKey
    encode: Callable[[int], bytes]
    decode: Callable[[int, bytes | bytearray], T]


def entity_call(api_key: ApiKey, fields: object, answer: type[T]) -> Call[T]:
    """Return a call that is encoded from ``fields``, and whose response is decoded by kio.

    Args:
        answer: the entity of the newest version. An older version's response has only the fields
            that its version has.
    """
    return Call(
        api_key=api_key,
        encode=lambda api_version: finish(encode_request(api_key, api_version, fields)),
        decode=lambda api_version, body: cast(
            T, finish(decode_response(api_key, api_version, body))
        ),
    )


OpenStream: TypeAlias = Callable[[Address], Awaitable[trio.abc.Stream]]
"""Connect to an address, or raise ConnectionFailedError. TLS, for instance, can wrap the stream."""


SocketAddress: TypeAlias = tuple[
    AddressFamily,
    SocketKind,
    int,
    str,
    tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
]


class RequestFailedError(Exception):
    """A request that was rejected, or not answered in time."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.error = error


class LogInRequiredError(RequestFailedError):
    """The listener requires a log-in, and there are no credentials."""


class UnreachableError(RequestFailedError):
    """Every server refused the connection, closed it, or is not a Kafka server."""


class ConnectionFailedError(Exception):
    """A connection failed or broke; the text names the address."""


class UnservedError(ConnectionFailedError):
    """The server refused or closed the connection, or its answer was not a Kafka response.

    Waiting rarely helps.

    Args:
        address: the server's.
        is_closed_later: True if the server answered ApiVersions, then closed the connection.
    """

    def __init__(self, text: str, address: Address, *, is_closed_later: bool = False) -> None:
        super().__init__(text)
        self.address = address
        self.is_closed_later = is_closed_later


class Node:
    """A connection to one node, logged in, on which requests are answered one by one."""

    def __init__(self, address: Address, stream: trio.abc.Stream, client_id: str) -> None:
        self.address = address
        self._stream = stream
        self._connection = KafkaClientConnection(client_id, RESPONSE_BYTES_MAX)
        self._versions: Mapping[int, tuple[int, int]] = {}

    async def aclose(self) -> None:
        """Close the connection at once."""
        await trio.aclose_forcefully(self._stream)

    def choose_version(self, api_key: ApiKey) -> int:
        """Return the highest version of an API that both sides know.

        Raises:
            RequestFailedError: there is none.
        """
        lowest, highest = self._versions.get(api_key, (0, -1))
        chosen = min(highest, APIS[api_key].last_version)
        if chosen < max(lowest, _FIRST_VERSIONS.get(api_key, 0)):
            reason = f"The node does not support {api_key.name}"
            raise RequestFailedError(ApiError(ErrorCode.UNSUPPORTED_VERSION, reason))
        return chosen

    async def request(self, call: Call[T], timeout_ms: int) -> T:
        """Return the response to a call, in the highest version that both sides know.

        Raises:
            ConnectionFailedError: the connection broke, or no answer came in time.
            RequestFailedError: the node does not serve this API, or a string is too long.
        """
        api_version = self.choose_version(call.api_key)
        with trio.move_on_after(timeout_ms / 1000):
            return self._read(await self._exchange(call, api_version), call)
        raise ConnectionFailedError(f"{self.address}: no answer within {timeout_ms} ms")

    async def negotiate(self) -> None:
        """Learn which APIs the node serves.

        A node that does not know this version of ApiVersions answers in version 0 (KIP-511).

        Raises:
            ConnectionFailedError: the connection broke.
        """
        software = SimpleNamespace(
            client_software_name="authorizerd", client_software_version=version("authorizerd")
        )
        call = entity_call(ApiKey.API_VERSIONS, software, ApiVersionsResponse)
        asked = APIS[ApiKey.API_VERSIONS].last_version
        response = await self._exchange(call, asked)
        # Every version begins with the error code, and only the code tells which version this is.
        if int.from_bytes(response.body[:2], "big") == ErrorCode.UNSUPPORTED_VERSION:
            known = _served(self._read(response, call, 0))
            asked = min(known.get(ApiKey.API_VERSIONS, (0, 0))[1], asked)
            response = await self._exchange(call, asked)
        served = self._read(response, call)
        if served.error_code:
            raise ConnectionFailedError(f"{self.address}: {ApiError(served.error_code)}")
        self._versions = _served(served)

    async def log_in(self, credentials: PlainCredentials) -> None:
        """Log in with PLAIN.

        Raises:
            ConnectionFailedError: the connection broke.
            RequestFailedError: the node rejects the mechanism or the credentials.
        """
        timeout_ms = CONNECTION_SETUP_TIMEOUT_MS
        mechanism = SimpleNamespace(mechanism=_MECHANISM)
        shaken = await self.request(
            entity_call(ApiKey.SASL_HANDSHAKE, mechanism, SaslHandshakeResponse), timeout_ms
        )
        if shaken.error_code:
            raise RequestFailedError(_refused_mechanism(shaken.error_code, shaken.mechanisms))
        token = f"\0{credentials.username}\0{credentials.password}".encode()
        answer = await self.request(
            entity_call(
                ApiKey.SASL_AUTHENTICATE,
                SimpleNamespace(auth_bytes=token),
                SaslAuthenticateResponse,
            ),
            timeout_ms,
        )
        if answer.error_code:
            raise RequestFailedError(ApiError(answer.error_code, answer.error_message))

    async def requires_log_in(self, timeout_ms: int) -> bool:
        """Return True if the listener requires SASL; other listeners reject the handshake.

        Raises:
            ConnectionFailedError, RequestFailedError: see ``request``.
        """
        mechanism = SimpleNamespace(mechanism=_MECHANISM)
        call = entity_call(ApiKey.SASL_HANDSHAKE, mechanism, SaslHandshakeResponse)
        answer = await self.request(call, timeout_ms)
        return int(answer.error_code) in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM)

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
        except trio.BrokenResourceError as error:
            raise self._closed() from error
        except OSError as error:
            raise ConnectionFailedError(f"{self.address}: {error}") from error
        except DecodeError as error:
            raise self._unreadable(error) from error
        return response

    def _read(self, response: KafkaResponse, call: Call[T], api_version: int | None = None) -> T:
        """Return the decoded response, which may have another version than the request."""
        try:
            return call.decode(
                response.api_version if api_version is None else api_version, response.body
            )
        except DecodeError as error:
            raise self._unreadable(error) from error

    def _closed(self) -> UnservedError:
        text = f"{self.address}: the server closed the connection without an answer"
        return UnservedError(text, self.address, is_closed_later=bool(self._versions))

    def _unreadable(self, error: DecodeError) -> UnservedError:
        return UnservedError(f"{self.address}: expected a Kafka response: {error}", self.address)


async def find_addresses(address: Address) -> Sequence[SocketAddress]:
    """Return the addresses of a host, IPv4 and IPv6.

    Raises:
        ConnectionFailedError: the host name cannot be resolved.
    """
    try:
        return await trio.socket.getaddrinfo(
            address.host, address.port, type=trio.socket.SOCK_STREAM
        )
    except OSError as error:
        raise ConnectionFailedError(f"{address}: {error.strerror or error}") from error
    except UnicodeError as error:  # a label that is too long for a name
        raise ConnectionFailedError(f"{address}: {error}") from error


async def open_tcp(address: Address) -> trio.abc.Stream:
    """Connect over TCP. All addresses of the host are tried, and the first connection is used.

    Raises:
        UnservedError: every address refuses the connection.
        ConnectionFailedError: the host name cannot be resolved, or no address accepts.
    """
    try:
        return await trio.open_tcp_stream(address.host, address.port)
    except UnicodeError as error:  # a label that is too long for a name
        raise ConnectionFailedError(f"{address}: {error}") from error
    except OSError as error:
        # trio raises one OSError without a number; its cause is the group of the actual errors.
        attempts = error.__cause__
        failures = attempts.exceptions if isinstance(attempts, ExceptionGroup) else (error,)
        reasons = dict.fromkeys(map(_describe_failure, failures))
        text = f"{address}: {'; '.join(reasons)}"
        if all(isinstance(failure, ConnectionRefusedError) for failure in failures):
            raise UnservedError(text, address) from error
        raise ConnectionFailedError(text) from error


def _describe_failure(error: Exception) -> str:
    """Return the system's text for an error, without trio's words around it."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(getattr(error, "strerror", None) or error)  # gaierror: its numbers are negative


async def open_node(
    address: Address,
    credentials: PlainCredentials | None,
    client_id: str,
    open_stream: OpenStream = open_tcp,
) -> Node:
    """Connect to a node and log in.

    Raises:
        ConnectionFailedError: it cannot be reached, or does not answer as a Kafka server.
        RequestFailedError: it rejects the log-in.
    """
    with trio.move_on_after(CONNECTION_SETUP_TIMEOUT_MS / 1000):
        node = Node(address, await open_stream(address), client_id)
        try:
            await node.negotiate()
            if credentials is not None:
                await node.log_in(credentials)
        except BaseException:
            await node.aclose()
            raise
        return node
    raise ConnectionFailedError(f"{address}: not connected within {CONNECTION_SETUP_TIMEOUT_MS} ms")


def _served(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    """Return the lowest and highest version of each API by its key."""
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


def _refused_mechanism(code: int, mechanisms: Sequence[str]) -> ApiError:
    enabled = f"enabled mechanisms are [{', '.join(mechanisms)}]"
    if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        reason = f"Client SASL mechanism '{_MECHANISM}' not enabled in the server, {enabled}"
        return ApiError(code, reason)
    reason = f"Unexpected handshake request with client mechanism {_MECHANISM}, {enabled}"
    return ApiError(ErrorCode.ILLEGAL_SASL_STATE, reason)
