"""The connection to one quorum node, which sends requests and converts answers to events."""

from __future__ import annotations

from typing import Final, TypeVar

import trio
from msgspec.structs import replace

from authorizerd.actors.steps import collect
from authorizerd.daemon.sources.quorum.messages import (
    AskCluster,
    ClusterAnswered,
    Connected,
    ConnectionLost,
    Event,
    FetchAnswered,
    Probe,
    SendFetch,
    SendFetchSnapshot,
    SnapshotAnswered,
)
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Call, Node, OpenNode, message_call
from authorizerd.kafka_client.errors import (
    ConnectionFailedError,
    RequestFailedError,
    Stage,
    UnservedError,
    UnusableNodeError,
)
from authorizerd.kafka_client.quorum_calls import fetch_call, fetch_snapshot_call
from authorizerd.metadata.meta_properties import is_cluster_id
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import ApiKey, QuorumKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.fetch import FetchAnswer
from authorizerd.protocol.kafka.requests import DescribeClusterRequest
from authorizerd.protocol.kafka.responses import CONTROLLER_ENDPOINTS, DescribeClusterAnswer
from authorizerd.protocol.records.fetched import read_fetched_batches

IDLE_ANSWER_MS: Final = 2_000
"""How much longer than requested a leader with nothing to send may wait, as for Kafka's followers.

After that, the daemon looks for another leader.
"""

PROBES_MAX: Final = 2
"""A leader closes idle connections, so a probe that fails on an old connection is retried once."""

BATCHES_PER_EVENT: Final = 256
"""The maximum number of batches per event, since the machine handles an event without a pause."""

T = TypeVar("T")

_CONTROLLER_ENDPOINT: Final = 2
_ID_IS_SECRET: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION)
"""Controllers describe the cluster only to principals that may ALTER it, unlike brokers."""


class Link:
    """Opens one connection at a time, and sends one request at a time on it.

    Args:
        request_timeout_ms: the time limit of a request that may bring many records.
    """

    def __init__(self, open_node: OpenNode, *, request_timeout_ms: int) -> None:
        self._open_node: Final = open_node
        self._timeout_ms: Final = request_timeout_ms
        self._node: Node | None = None
        self._rest: FetchAnswered | None = None

    @property
    def address(self) -> Address | None:
        """The address of the connection, None if there is none."""
        return None if self._node is None else self._node.address

    async def close(self) -> None:
        """Close the connection, if there is one."""
        node, self._node, self._rest = self._node, None, None
        if node is not None:
            await node.aclose()

    async def connect(self, address: Address) -> Event:
        """Connect to a node."""
        try:
            await self.close()
            self._node = node = await self._open_node(address.host, address.port)
            return Connected(node.choose_version(QuorumKey.FETCH))
        except (ConnectionFailedError, RequestFailedError) as error:
            await self.close()
            return _lost(error, address)

    async def ask(
        self,
        request: AskCluster | SendFetch | SendFetchSnapshot,
        *,
        cluster_id: str | None,
        is_behind: bool,
    ) -> Event:
        """Send a request and return its answer; open a new connection first if authentication is
        due.

        Args:
            cluster_id: the id that the cluster must have; empty or None if it is not known.
            is_behind: True if the answer to a Fetch is expected to bring records.
        """
        assert self._node is not None, "connected"
        address = self._node.address
        if trio.current_time() >= self._node.renewal_time:
            return await self.connect(address)
        try:
            match request:
                case AskCluster():
                    return await self._ask_cluster()
                case SendFetch():
                    limit_ms = request.max_wait_ms + IDLE_ANSWER_MS
                    if is_behind:
                        limit_ms = max(limit_ms, self._timeout_ms)
                    return await self._fetch(request, cluster_id, limit_ms)
                case SendFetchSnapshot():
                    return await self._fetch_snapshot(request, cluster_id)
        except (ConnectionFailedError, RequestFailedError) as error:
            return _lost(error, address)
        except DecodeError as error:
            return ConnectionLost("garbage", f"expected record batches: {error}")

    async def _send(self, call: Call[T], timeout_ms: int) -> T:
        assert self._node is not None, "connected"
        return await self._node.request(call, timeout_ms)

    async def _ask_cluster(self) -> Event:
        asked = DescribeClusterRequest(endpoint_type=CONTROLLER_ENDPOINTS)
        call = message_call(ApiKey.DESCRIBE_CLUSTER, asked, DescribeClusterAnswer)
        try:
            cluster = await self._send(call, self._timeout_ms)
            if cluster.error_code:
                raise RequestFailedError(ApiError(cluster.error_code, cluster.error_message))
        except RequestFailedError as error:
            if error.error.code in _ID_IS_SECRET:
                return ClusterAnswered("")
            raise
        if not is_cluster_id(cluster.cluster_id):
            return ConnectionLost("garbage", f"expected a cluster id, found {cluster.cluster_id!r}")
        return ClusterAnswered(cluster.cluster_id)

    async def _fetch(self, request: SendFetch, cluster_id: str | None, limit_ms: int) -> Event:
        rest = self._take_rest(request)
        if rest is not None:
            await trio.lowlevel.checkpoint()
            return rest
        call = fetch_call(
            cluster_id=cluster_id or None,
            position=request.position,
            max_wait_ms=request.max_wait_ms,
            max_bytes=request.max_bytes,
        )
        answer = await self._send(call, limit_ms)
        batches = await collect(read_fetched_batches(answer.records))
        return self._split(FetchAnswered(answer, batches))

    def _split(self, event: FetchAnswered) -> FetchAnswered:
        """Return the first part of an answer. The next Fetches get the other parts."""
        answer, batches = event.answer, event.batches
        if len(batches) <= BATCHES_PER_EVENT:
            return event
        # Only the first part has the high watermark: a Fetch for the next part does not reach the
        # leader.
        rest = replace(answer, high_watermark=-1, records=b"", throttle_ms=0)
        self._rest = FetchAnswered(rest, batches[BATCHES_PER_EVENT:])
        return FetchAnswered(answer, batches[:BATCHES_PER_EVENT])

    def _take_rest(self, request: SendFetch) -> FetchAnswered | None:
        """Return the next part of the last answer, if the request asks for it."""
        rest, self._rest = self._rest, None
        if rest is None or rest.batches[0].base_offset != request.position.offset:
            return None
        return (
            None if rest.answer.leader_epoch != request.position.leader_epoch else self._split(rest)
        )

    async def _fetch_snapshot(self, request: SendFetchSnapshot, cluster_id: str | None) -> Event:
        call = fetch_snapshot_call(
            cluster_id=cluster_id or None,
            snapshot=request.snapshot,
            position=request.position,
            leader_epoch=request.leader_epoch,
            max_bytes=request.max_bytes,
        )
        return SnapshotAnswered(await self._send(call, self._timeout_ms))


class LeaderProbe:
    """A second connection to the leader, on which a Fetch never waits for new records.

    It carries one probe at a time, and is kept for the next one.
    """

    def __init__(self, link: Link) -> None:
        self.link: Final = link
        self.lock: Final = trio.Lock()

    async def fetch(self, probe: Probe, *, cluster_id: str | None) -> FetchAnswer | None:
        """Return the answer to a probe, None if there is none. The caller holds the lock.

        If cancelled, the connection is closed.
        """
        for _ in range(PROBES_MAX):
            try:
                answer = await self._try(probe, cluster_id)
            except BaseException:
                await self.link.close()
                raise
            if answer is not None:
                return answer
            await self.link.close()
        return None

    async def _try(self, probe: Probe, cluster_id: str | None) -> FetchAnswer | None:
        link = self.link
        is_open = link.address == probe.address
        if not is_open and not isinstance(await link.connect(probe.address), Connected):
            return None
        event = await link.ask(probe.request, cluster_id=cluster_id, is_behind=False)
        return event.answer if isinstance(event, FetchAnswered) else None


def _lost(error: ConnectionFailedError | RequestFailedError, address: Address) -> ConnectionLost:
    """Return the event for a failed exchange. The machine adds the address itself."""
    text = str(error).removeprefix(f"{address}: ")
    if isinstance(error, RequestFailedError):
        return ConnectionLost(error.error.name, text)
    if isinstance(error, UnusableNodeError) and error.cause is not None:
        return ConnectionLost(error.cause.name, text)
    if isinstance(error, UnservedError):
        return ConnectionLost("garbage" if error.stage is Stage.RESPONSE else "connection", text)
    return ConnectionLost("connection", text, is_silent=True)
