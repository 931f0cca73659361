"""The connection to one server, and the machine's requests on it: brokers, quorum, listing.

A connection that breaks, or answers garbage, is closed and never used again.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeVar

import trio

from authorizerd.acl.listing import Listing
from authorizerd.actors.steps import finish_in_turns
from authorizerd.config.follow.settings import FollowSettings, SourceKind
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.daemon.sources.brokers.messages import (
    Broken,
    Opened,
    Quorum,
    Refused,
    Target,
    Unserved,
)
from authorizerd.daemon.sources.remedies import WRONG_NODES, missing_right
from authorizerd.daemon.sources.status import SourceStatus
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Call, Node, OpenNode, message_call
from authorizerd.kafka_client.errors import ConnectionFailedError, RequestFailedError
from authorizerd.kafka_client.quorum_calls import LISTING_CALL, describe_quorum_call
from authorizerd.metadata.meta_properties import is_cluster_id
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_client import (
    THROTTLE_BYTES,
    read_listing,
    read_listing_head,
)
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import MetadataRequest
from authorizerd.protocol.kafka.responses import MetadataAnswer

T = TypeVar("T")

CONNECTION_ERROR: Final = "connection"
"""The reason for broken connections in ``SourceStatus.errors``."""

_UNSERVED: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION)
_NO_AUTHORIZER: Final = (
    "the broker has no authorizer, and therefore no ACLs: set authorizer.class.name on every"
    " broker and controller of the cluster"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The undecoded answer to a listing.

    Attributes:
        digest: equal for answers with the same ACLs in the same order.
        seconds: the duration of the request.
    """

    version: int
    body: bytes | bytearray
    digest: bytes
    seconds: float
    throttle_seconds: float


class _BrokenError(Exception):
    """The connection is not usable; the text says why."""


class Exchange:
    """One connection at a time. ``status`` counts the failures."""

    def __init__(self, open_node: OpenNode, settings: FollowSettings, status: SourceStatus) -> None:
        self._open_node = open_node
        self._settings = settings
        self._status = status
        self._node: Node | None = None
        self._user = settings.username

    @property
    def address(self) -> Address | None:
        """The address of the connection, None if there is none."""
        return None if self._node is None else self._node.address

    async def aclose(self) -> None:
        """Close the connection, if there is one."""
        node, self._node = self._node, None
        if node is not None:
            await node.aclose()

    async def open(self, target: Target) -> Opened | Broken:
        """Connect, and ask for the cluster's id and its brokers."""
        await self.aclose()
        try:
            self._node = await self._open_node(target.host, target.port)
            metadata = await self._request(_METADATA_CALL)
            cluster_id = metadata.cluster_id
            if cluster_id is not None and not is_cluster_id(cluster_id):
                raise _BrokenError(f"expected a cluster id, found {cluster_id!r}")
        except RequestFailedError as error:
            if error.error.code != ErrorCode.UNSUPPORTED_VERSION:
                return await self._break(error)
            return await self._break(_BrokenError("; ".join(WRONG_NODES[SourceKind.BROKERS])))
        except (ConnectionFailedError, _BrokenError) as error:
            return await self._break(error)
        return Opened(cluster_id, _read_brokers(metadata))

    async def ask_brokers(self) -> tuple[Target, ...] | Broken:
        """Ask for the brokers that are running."""
        try:
            return _read_brokers(await self._request(_METADATA_CALL))
        except (_BrokenError, RequestFailedError) as error:
            return await self._break(error)

    async def ask_quorum(self) -> Quorum | Refused | Unserved | Broken:
        """Ask the quorum's leader, through the broker, how far each log reaches."""
        try:
            described = await self._request(describe_quorum_call())
        except RequestFailedError as error:
            return Unserved(str(error))
        except _BrokenError as error:
            return await self._break(error)
        if not isinstance(described, ApiError):
            return Quorum(described.high_watermark, described.log_ends)
        if described.code in _UNSERVED:
            return Unserved(f"DescribeQuorum: {described}")
        self._status.count_error(described.name)
        return Refused(f"DescribeQuorum: {described}")

    async def ask_listing(self) -> Answer | Refused | Broken:
        """Ask for all ACLs. Only the start of the answer is decoded."""
        started = trio.current_time()
        try:
            version, body = await self._request(LISTING_CALL)
            seconds = trio.current_time() - started
            head = read_listing_head(version, body)
        except (_BrokenError, RequestFailedError, DecodeError) as error:
            return await self._break(error)
        if head.error is not None:
            self._status.count_error(head.error.name)
            return Refused(self._explain(head.error))
        digest = await run_in_thread(_digest, body)
        return Answer(version, body, digest, seconds, head.throttle_ms / 1000)

    async def decode(self, answer: Answer) -> Listing | Broken:
        """Return the ACLs of an answer, decoded in slices."""
        try:
            return await finish_in_turns(read_listing(answer.version, answer.body))
        except DecodeError as error:
            return await self._break(error)

    async def _request(self, call: Call[T]) -> T:
        """Return the response to a call.

        Raises:
            _BrokenError: the connection broke, or its session ends.
            RequestFailedError: the node does not serve the API.
        """
        node = self._node
        assert node is not None, "a call needs an open connection"
        if trio.current_time() >= node.renewal_time:
            raise _BrokenError("the session of the connection ends")
        try:
            return await node.request(call, self._settings.request_timeout_ms)
        except ConnectionFailedError as error:
            raise _BrokenError(str(error)) from error

    async def _break(self, error: Exception) -> Broken:
        self._status.count_error(CONNECTION_ERROR)
        await self.aclose()
        return Broken(str(error))

    def _explain(self, error: ApiError) -> str:
        match error.code:
            case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                # The broker's text names the connection, so it would differ every time.
                advice = missing_right(SourceKind.BROKERS, self._user)
                return f"DescribeAcls: {error.name}: {advice}"
            case ErrorCode.SECURITY_DISABLED:
                advice = _NO_AUTHORIZER
            case _:
                return f"DescribeAcls: {error}"
        return f"DescribeAcls: {error}; {advice}"


def _read_brokers(metadata: MetadataAnswer) -> tuple[Target, ...]:
    return tuple(Target(broker.host, broker.port, broker.node_id) for broker in metadata.brokers)


def _digest(body: bytes | bytearray) -> bytes:
    # hashlib releases the GIL for large data, and a view avoids a copy.
    return blake2b(memoryview(body)[THROTTLE_BYTES:], digest_size=32).digest()


_METADATA_CALL: Final = message_call(
    ApiKey.METADATA,
    MetadataRequest(topics=(), allow_auto_topic_creation=False),
    MetadataAnswer,
)
