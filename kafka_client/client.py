"""A client of a Kafka cluster: it sends each request to whichever node answers.

**Invariant:** ``request`` tries a request on one node after the other until it is answered or its
time is up, so it must be safe to repeat; ``request_once`` sends it at most once. Both fail at once
if authentication is rejected or missing, or if the node lacks the API, and after a few attempts if
servers refuse or close every connection. A request is repeated while the authorizer is not ready.
One connection is open at a time, with one request in flight.

Source: Kafka 4.3 KafkaAdminClient, AdminMetadataManager; KIP-919 for controllers.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Final, Self, TypeVar

import trio

from authorizerd.config.tls import TlsSettings
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Call, Features, Node, message_call
from authorizerd.kafka_client.errors import (
    Cause,
    ConnectionFailedError,
    RequestFailedError,
    Stage,
    UnknownOutcomeError,
    UnservedError,
)
from authorizerd.kafka_client.log_in import AnyCredentials, open_node
from authorizerd.kafka_client.mismatch import find_mismatch
from authorizerd.kafka_client.tls_stream import TlsOpener
from authorizerd.kafka_client.transport import OpenStream, find_addresses, open_tcp
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import DescribeClusterRequest
from authorizerd.protocol.kafka.responses import CONTROLLER_ENDPOINTS, DescribeClusterAnswer

T = TypeVar("T")

FEATURES_SECONDS: Final = 10.0
_RETRY_FIRST_SECONDS: Final = 0.1
_RETRY_LAST_SECONDS: Final = 1.0
_UNSERVED_MAX: Final = 5
"""A request fails after this many consecutive failed connection attempts, within about 1.5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Where and how to connect.

    Args:
        to_controllers: True if ``bootstrap`` names controllers, not brokers.
        tls: None for connections without TLS.
    """

    bootstrap: Sequence[Address]
    to_controllers: bool = False
    credentials: AnyCredentials | None = None
    tls: TlsSettings | None = None
    client_id: str = "adminclient-1"
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000


class KafkaClient:
    """Sends requests to a cluster; as a context manager, closes the connection at the end.

    ``warn`` gets one line for each kind of failure that is retried, the first time only. It gets no
    line for a failure that ends the request, because the error says the same.

    Args:
        open_stream: opens TCP connections.
        context: required if the settings have TLS; see ``tls.context.new_client_context``.
    """

    def __init__(
        self,
        settings: ClientSettings,
        warn: Callable[[str], None],
        open_stream: OpenStream = open_tcp,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._open_tcp = self._open_stream = open_stream
        assert (context is None) == (settings.tls is None), "TLS needs settings and a context"
        if context is not None and settings.tls is not None:
            has_certificate = settings.tls.keystore is not None
            opener = TlsOpener(context, open_stream, has_certificate=has_certificate)
            self._open_stream = opener.open
        self._warn_once = _once(warn)
        self._held: list[str] = []
        """Warnings held back until it is clear that the request's error does not say the same."""
        self._node: Node | None = None
        self._failures = 0

    @property
    def node(self) -> object:
        """The open connection; None if there is none. It is another object after each opening."""
        return self._node

    def at(self, address: Address) -> Self:
        """Return a client of one node, with these settings and its own connection."""
        other = copy(self)
        other._settings = replace(self._settings, bootstrap=(address,))
        other._held, other._node, other._failures = [], None, 0
        return other

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._disconnect()

    async def can_resolve(self) -> bool:
        """Return True if the host of any bootstrap address can be resolved."""
        known = False
        with trio.move_on_after(self._settings.api_timeout_ms / 1000):
            for address in self._settings.bootstrap:
                try:
                    # Look up every address, so that each failure gets its warning.
                    known = bool(await find_addresses(address)) or known
                except ConnectionFailedError as error:
                    self._warn_once(str(error))
        return known

    async def request(
        self, call: Call[T], *, name: str, errors: Callable[[T], Sequence[ApiError]]
    ) -> T:
        """Return the response to a call.

        Args:
            name: the call's name in errors.
            errors: returns the errors in a response, in order. If one of them is NOT_CONTROLLER,
                or all are AUTHORIZER_NOT_READY, the call is repeated.

        Raises:
            RequestFailedError: the response has an error (the first one is raised), authentication
                is rejected or required, the API is not served, no server accepts a connection, no
                answer came within ``api_timeout_ms``, or the authorizer was not ready within that
                time.
        """
        return await self._retry(lambda: self._attempt(call, errors), name)

    async def request_once(self, call: Call[T], *, name: str) -> T:
        """Return the response to a call that is not safe to repeat.

        Only connecting is tried again. The caller looks for errors in the response.

        Args:
            name: the call's name in errors.

        Raises:
            RequestFailedError: the request was not sent. See ``request``.
            UnknownOutcomeError: it was sent, and no valid answer came.
        """
        node = await self._retry(self._open_connection, name)
        is_answered = False
        try:
            response = await node.request(call, self._settings.request_timeout_ms)
            is_answered = True
        except ConnectionFailedError as error:
            raise UnknownOutcomeError(str(error)) from error
        finally:
            # After a timeout or cancellation, the late answer would be taken for the next one.
            if not is_answered:
                await self._disconnect()
        return response

    async def _retry(self, attempt: Callable[[], Awaitable[T]], name: str) -> T:
        """Return what ``attempt`` returns once no connection fails. Raises as ``request``."""
        try:
            return await self._retry_attempt(attempt, name)
        finally:
            self._print_held()

    async def _retry_attempt(self, attempt: Callable[[], Awaitable[T]], name: str) -> T:
        delay = _RETRY_FIRST_SECONDS
        unserved = 0
        not_ready: RequestFailedError | None = None
        with trio.move_on_after(self._settings.api_timeout_ms / 1000):
            while True:
                try:
                    return await attempt()
                except UnservedError as error:
                    unserved += 1
                    not_ready = None
                    await self._check_unserved(error, unserved)
                except RequestFailedError as error:
                    if error.error.code != ErrorCode.AUTHORIZER_NOT_READY:
                        raise
                    unserved, not_ready = 0, error
                    self._print_held()
                    self._warn_once(f"{str(error).rstrip('.')}; retrying")
                except ConnectionFailedError as error:
                    unserved, not_ready = 0, None
                    self._print_held()
                    self._warn_once(str(error))
                self._failures += 1
                await trio.sleep(delay)
                delay = min(2 * delay, _RETRY_LAST_SECONDS)
        if not_ready is not None:
            raise not_ready
        # Kafka's client always gives this reason; the warnings name the actual one.
        reason = f"Timed out waiting for a node assignment. Call: {name}"
        raise RequestFailedError(ApiError(ErrorCode.REQUEST_TIMED_OUT, reason))

    async def _check_unserved(self, error: UnservedError, attempts: int) -> None:
        """Raise RequestFailedError if another attempt would fail in the same way."""
        await self._check_mismatch(error)
        self._held.append(str(error))
        if attempts >= _UNSERVED_MAX:
            self._held.clear()
            failure = ApiError(ErrorCode.NETWORK_EXCEPTION, str(error))
            raise RequestFailedError(failure, Cause.UNREACHABLE)

    def _print_held(self) -> None:
        held, self._held = self._held, []
        for text in held:
            self._warn_once(text)

    async def _check_mismatch(self, error: UnservedError) -> None:
        """Raise RequestFailedError if the listener expects another security protocol."""
        if not _is_reached(error):
            return
        found = await find_mismatch(
            error,
            has_tls=self._settings.tls is not None,
            has_credentials=self._settings.credentials is not None,
            open_tcp=self._open_tcp,
            open_stream=self._open_stream,
        )
        if found is not None:
            raise found

    async def _attempt(self, call: Call[T], errors: Callable[[T], Sequence[ApiError]]) -> T:
        answered = False
        try:
            node = await self._open_connection()
            response = await node.request(call, self._settings.request_timeout_ms)
            found = errors(response)
            if any(error.code == ErrorCode.NOT_CONTROLLER for error in found):
                raise ConnectionFailedError(f"{node.address} is not the active controller")
            if found and all(error.code == ErrorCode.AUTHORIZER_NOT_READY for error in found):
                raise RequestFailedError(found[0])  # another node may be ready
            answered = True
        finally:
            # After a timeout or cancellation, the late answer would be taken for the next one.
            if not answered:
                await self._disconnect()
        if found:
            raise RequestFailedError(
                next(error for error in found if error.code != ErrorCode.AUTHORIZER_NOT_READY)
            )
        return response

    async def read_features(self, addresses: Iterable[Address]) -> Mapping[Address, Features]:
        """Return the nodes' features. Nodes that do not answer in time are absent."""
        found: dict[Address, Features] = {}

        async def ask(address: Address) -> None:
            with suppress(ConnectionFailedError, RequestFailedError):
                node = await self._open(address)
                found[address] = node.features
                await node.aclose()

        with trio.move_on_after(FEATURES_SECONDS):
            async with trio.open_nursery() as nursery:
                for address in addresses:
                    nursery.start_soon(ask, address)
        return found

    async def _open_connection(self) -> Node:
        """Return the open connection, or a new one."""
        if self._node is None:
            self._node = await self._connect()
        return self._node

    async def _disconnect(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            await node.aclose()

    async def _connect(self) -> Node:
        node = await self._connect_to_any()
        try:
            if not self._settings.to_controllers:
                node.choose_version(ApiKey.METADATA)  # fails on a controller's listener
                return node
            controller = await self._find_controller(node)
            if controller == node.address:
                return node
        except BaseException:
            await node.aclose()
            raise
        await node.aclose()
        return await self._open(controller)

    async def _connect_to_any(self) -> Node:
        """Try each bootstrap address once, starting after those that failed before."""
        addresses = self._settings.bootstrap
        failures: list[ConnectionFailedError] = []
        for index in range(len(addresses)):
            address = addresses[(self._failures + index) % len(addresses)]
            try:
                node = await self._open(address)
            except ConnectionFailedError as error:
                failures.append(error)
                if not _is_reached(error):
                    self._held.append(str(error))
            else:
                for failure in failures:
                    self._warn_once(str(failure))
                return node
        unserved = [error for error in failures if isinstance(error, UnservedError)]
        reached = [error for error in unserved if _is_reached(error)]
        if len(unserved) == len(failures):
            first = (reached or unserved)[0]
            raise UnservedError("; ".join(map(str, failures)), first.address, first.stage)
        for each in reached:
            await self._check_mismatch(each)
            self._warn_once(str(each))
        raise ConnectionFailedError(
            f"{', '.join(map(str, addresses))}: none of these servers can be reached; retrying"
        )

    async def _find_controller(self, node: Node) -> Address:
        asked = DescribeClusterRequest(endpoint_type=CONTROLLER_ENDPOINTS)
        cluster = await node.request(
            message_call(ApiKey.DESCRIBE_CLUSTER, asked, DescribeClusterAnswer),
            self._settings.request_timeout_ms,
        )
        if cluster.error_code:
            raise RequestFailedError(ApiError(cluster.error_code, cluster.error_message))
        for broker in cluster.brokers:
            if broker.broker_id == cluster.controller_id:
                return Address(broker.host, broker.port)
        raise ConnectionFailedError(f"{node.address}: no controller is active")

    async def _open(self, address: Address) -> Node:
        settings = self._settings
        return await open_node(address, settings.credentials, settings.client_id, self._open_stream)


def _is_reached(error: ConnectionFailedError) -> bool:
    """Return True if a server accepted the connection, so that probes can find out more."""
    return isinstance(error, UnservedError) and error.stage is not Stage.REFUSED


def _once(warn: Callable[[str], None]) -> Callable[[str], None]:
    """Return a ``warn`` that drops repeated texts."""
    reported: set[str] = set()

    def warn_once(text: str) -> None:
        if text not in reported:
            reported.add(text)
            warn(text)

    return warn_once
