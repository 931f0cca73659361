"""Brokers that answer a source in memory or over TCP: each has ACLs of its own, and can fail."""

import struct
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import trio
from trio.testing import memory_stream_pair

from authorizerd.acl.model import Acl
from authorizerd.acl.steps import finish
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.connection import Node
from authorizerd.kafka_client.errors import ConnectionFailedError
from authorizerd.protocol.framing import Frames, frame
from authorizerd.protocol.kafka.api import APIS, ApiKey, has_response_tags
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.daemon.kafka_cluster import answer
from tests.support.acl_messages import encode_describe_acls_error, encode_listing, joined
from tests.support.kio_codec import encode_response

CLUSTER_ID = "followed-cluster"
_HEAD = struct.Struct(">hhi")


@dataclass
class ScriptedBroker:
    """One broker. Its answers show ``acls``; its log ends at ``log_end``.

    Attributes:
        is_down: connections are refused, and open ones break at the next request.
        is_silent: requests are not answered.
        error: the error of each listing.
        cut: how many bytes of the next listing are sent before the connection ends.
        garbage: bytes that are sent instead of the next listing's body.
        level: the highest metadata.version that it supports, -1 if it does not say so.
    """

    broker_id: int
    address: Address
    acls: set[Acl] = field(default_factory=set)
    log_end: int = 0
    is_down: bool = False
    is_silent: bool = False
    error: ApiError | None = None
    cut: int | None = None
    garbage: bytes | None = None
    throttle_ms: int = 0
    level: int = 30
    listings: int = 0


class ScriptedCluster:
    """A cluster; ``open_node`` connects to its brokers. No change reaches ``lagging`` ones."""

    def __init__(self, nursery: trio.Nursery, *, brokers: int = 2) -> None:
        self._nursery = nursery
        self.brokers = {
            number: ScriptedBroker(number, Address("b", 9000 + number))
            for number in range(1, brokers + 1)
        }
        self.lagging: set[int] = set()
        self.cluster_id = CLUSTER_ID
        self.high_watermark = 0
        self.finalized = 30
        self.quorum_error: ApiError | None = None
        self.unserved: set[ApiKey] = set()
        self.opened: list[tuple[str, int]] = []

    def change(
        self, *added: Acl, removed: Collection[Acl] = (), lagging: Collection[int] = ()
    ) -> None:
        """Commit changes, which reach every broker at once except for the lagging ones."""
        self.high_watermark += 1
        for broker in self.brokers.values():
            if broker.broker_id not in self.lagging.union(lagging):
                broker.acls = (broker.acls | set(added)) - set(removed)
                broker.log_end = self.high_watermark

    def catch_up(self) -> None:
        """Let lagging brokers have what the others have."""
        self.lagging.clear()
        newest = max(self.brokers.values(), key=lambda each: each.log_end)
        for broker in self.brokers.values():
            broker.acls, broker.log_end = set(newest.acls), newest.log_end

    async def listen(self) -> None:
        """Listen on a free port of 127.0.0.1 for each broker, which is its address then."""
        for broker in self.brokers.values():
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            broker.address = Address("127.0.0.1", listener.socket.getsockname()[1])
            serve = partial(trio.serve_listeners, partial(self._serve, broker), [listener])
            self._nursery.start_soon(serve)

    async def open_node(self, host: str, port: int) -> Node:
        self.opened.append((host, port))
        await trio.sleep(0.001)
        up = [each for each in self.brokers.values() if not each.is_down]
        found = [each for each in up if host == "bootstrap" or port == each.address.port]
        if not found:
            raise ConnectionFailedError(f"{host}:{port}: Connection refused")
        ours, theirs = memory_stream_pair()
        self._nursery.start_soon(self._serve, found[0], theirs)
        node = Node(Address(host, port), ours, "tests")
        with trio.move_on_after(10):
            await node.negotiate()
            return node
        await node.aclose()
        raise ConnectionFailedError(f"{host}:{port}: not connected within 10 s")

    async def _serve(self, broker: ScriptedBroker, stream: trio.abc.Stream) -> None:
        frames = Frames()
        async with stream:
            try:
                while data := await stream.receive_some():
                    frames.receive_data(data)
                    while (request := frames.next(1 << 20)) is not None:
                        if not await self._answer(broker, bytes(request), stream):
                            return
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return

    async def _answer(
        self, broker: ScriptedBroker, request: bytes, stream: trio.abc.Stream
    ) -> bool:
        api_key, version, correlation_id = _HEAD.unpack_from(request)
        key = ApiKey(api_key)
        if broker.is_silent:
            await trio.sleep_forever()
        if broker.is_down:
            return False
        body = self._body(broker, key, version)
        head = correlation_id.to_bytes(4, "big") + b"\0" * has_response_tags(key, version)
        framed = frame(head, body)
        if key is ApiKey.DESCRIBE_ACLS and broker.cut is not None:
            await stream.send_all(framed[: broker.cut])
            broker.cut = None
            return False
        await stream.send_all(framed)
        return True

    def _body(self, broker: ScriptedBroker, key: ApiKey, version: int) -> bytes:
        match key:
            case ApiKey.API_VERSIONS:
                fields = self._versions(broker)
            case ApiKey.SASL_HANDSHAKE:
                fields = answer(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())
            case ApiKey.METADATA:
                fields = self._metadata()
            case ApiKey.DESCRIBE_QUORUM:
                fields = self._quorum()
            case ApiKey.DESCRIBE_ACLS:
                return self._listing(broker, version)
            case _:
                raise AssertionError(f"a right that the source does not have: {key.name}")
        return b"".join(finish(encode_response(key, version, fields)))

    def _versions(self, broker: ScriptedBroker) -> SimpleNamespace:
        keys = [
            SimpleNamespace(api_key=key, min_version=0, max_version=api.last_version)
            for key, api in APIS.items()
            if key not in self.unserved
        ]
        return SimpleNamespace(
            error_code=0, api_keys=keys, throttle_time=timedelta(),
            supported_features=[
                SimpleNamespace(name="metadata.version", min_version=7, max_version=broker.level)
            ] if broker.level >= 0 else [],
            finalized_features_epoch=self.high_watermark,
            finalized_features=[
                SimpleNamespace(
                    name="metadata.version", min_version_level=1, max_version_level=self.finalized
                )
            ],
            zk_migration_ready=False,
        )  # fmt: skip

    def _metadata(self) -> SimpleNamespace:
        brokers = [
            SimpleNamespace(
                node_id=each.broker_id, host=each.address.host, port=each.address.port, rack=None
            )
            for each in self.brokers.values()
        ]
        return SimpleNamespace(
            throttle_time=timedelta(), brokers=brokers, cluster_id=self.cluster_id,
            controller_id=1, topics=(), error_code=0,
        )  # fmt: skip

    def _quorum(self) -> SimpleNamespace:
        error = self.quorum_error
        if error is not None:
            return SimpleNamespace(
                error_code=error.code, error_message=error.message, topics=(), nodes=()
            )
        replicas = [_replica(each.broker_id, each.log_end) for each in self.brokers.values()]
        partition = SimpleNamespace(
            partition_index=0, error_code=0, error_message=None, leader_id=100, leader_epoch=1,
            high_watermark=self.high_watermark,
            current_voters=[_replica(100, self.high_watermark)], observers=replicas,
        )  # fmt: skip
        topic = SimpleNamespace(topic_name="__cluster_metadata", partitions=[partition])
        return SimpleNamespace(error_code=0, error_message=None, topics=[topic], nodes=())

    def _listing(self, broker: ScriptedBroker, version: int) -> bytes:
        broker.listings += 1
        if broker.error is not None:
            return encode_describe_acls_error(version, broker.error)
        garbage, broker.garbage = broker.garbage, None
        if garbage is not None:
            return garbage
        encoded = joined(encode_listing(version, sorted(broker.acls, key=str)))
        return broker.throttle_ms.to_bytes(4, "big") + encoded[4:]


def denied() -> ApiError:
    return ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


def _replica(node_id: int, log_end: int) -> SimpleNamespace:
    return SimpleNamespace(
        replica_id=node_id, log_end_offset=log_end, last_fetch_timestamp=0,
        last_caught_up_timestamp=0, replica_directory_id=None,
    )  # fmt: skip
