"""A Kafka cluster in memory, whose nodes give the answers that a test prepares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import FunctionType, MethodType, SimpleNamespace
from typing import Final

import trio
from trio.testing import memory_stream_pair

from authorizerd.acl.steps import finish
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.errors import Stage, UnservedError
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.server_connection import (
    KafkaRequest,
    KafkaServerConnection,
    frame_response,
)
from tests.support.kio_codec import encode_response

REQUEST_BYTES_MAX: Final = 1 << 20
NOT_THROTTLED: Final = timedelta()

Served = Mapping[ApiKey, tuple[int, int]]

SERVED: Final[Served] = {
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.METADATA: (0, 13),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
}


def without(api_key: ApiKey) -> Served:
    """Return the served APIs of a node that lacks this one."""
    return {key: versions for key, versions in SERVED.items() if key is not api_key}


HANG_UP: Final = object()
"""A prepared answer: the node closes the connection."""
SILENCE: Final = object()
"""A prepared answer: the node never answers."""


def answer(**fields: object) -> SimpleNamespace:
    """Return an unthrottled response with these fields."""
    return SimpleNamespace(throttle_time=NOT_THROTTLED, **fields)


def described(*resources: object) -> SimpleNamespace:
    return answer(error_code=0, error_message=None, resources=resources)


def cluster_of(
    controller_id: int, *nodes: tuple[int, Address], error: int = 0, text: str | None = None
) -> SimpleNamespace:
    """Return an answer to DescribeCluster."""
    return answer(
        error_code=error,
        error_message=text,
        endpoint_type=2,
        cluster_id="cluster",
        controller_id=controller_id,
        brokers=[
            SimpleNamespace(
                broker_id=number, host=address.host, port=address.port, rack=None, is_fenced=False
            )
            for number, address in nodes
        ],
        cluster_authorized_operations=-(2**31),
    )


@dataclass
class KafkaNode:
    """A node that answers ApiVersions itself, and each other request with its next answer.

    An answer is the fields of an entity, a whole frame in bytes, HANG_UP or SILENCE, or a function
    that makes one from the request.
    """

    answers: list[object] = field(default_factory=list)
    served: Served = field(default_factory=lambda: SERVED)
    asked: list[KafkaRequest] = field(default_factory=list)
    closed: int = 0
    request_bytes_max: int = REQUEST_BYTES_MAX
    cluster: KafkaCluster = field(init=False, repr=False, compare=False)

    @property
    def names(self) -> list[str]:
        """The requests received, as ``NAME version``."""
        return [f"{request.api_key.name} {request.api_version}" for request in self.asked]

    async def serve(self, stream: trio.abc.Stream) -> None:
        connection = KafkaServerConnection(self.request_bytes_max)
        async with stream:
            try:
                while data := await stream.receive_some():
                    connection.receive_data(data)
                    while (request := connection.next_request()) is not None:
                        self.asked.append(request)
                        await self._reply(stream, request)
            except (EOFError, DecodeError, trio.BrokenResourceError):
                pass
            finally:
                self.closed += 1

    async def _reply(self, stream: trio.abc.Stream, request: KafkaRequest) -> None:
        is_first = request.api_key is ApiKey.API_VERSIONS
        given = self._versions(request) if is_first else self.answers.pop(0)
        if isinstance(given, FunctionType | MethodType):
            given = given(request)
        if given is HANG_UP:
            raise EOFError
        if given is SILENCE:
            await trio.sleep_forever()
        if isinstance(given, bytes):
            await stream.send_all(given)
            return
        version = 0 if is_first and not self._serves(request) else request.api_version
        body = b"".join(finish(encode_response(request.api_key, version, given)))
        await stream.send_all(b"".join(frame_response(request, [body])))

    def _serves(self, request: KafkaRequest) -> bool:
        lowest, highest = self.served[request.api_key]
        return lowest <= request.api_version <= highest

    def _versions(self, request: KafkaRequest) -> SimpleNamespace:
        return SimpleNamespace(
            error_code=0 if self._serves(request) else ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[
                SimpleNamespace(api_key=key, min_version=lowest, max_version=highest)
                for key, (lowest, highest) in self.served.items()
            ],
            throttle_time=NOT_THROTTLED,
        )


@dataclass
class KafkaCluster:
    """Nodes by address; connections to other addresses are refused."""

    nursery: trio.Nursery
    nodes: dict[Address, KafkaNode] = field(default_factory=dict)
    tried: list[Address] = field(default_factory=list)

    def add(self, address: Address, *answers: object, served: Served = SERVED) -> KafkaNode:
        node = self.nodes[address] = KafkaNode(list(answers), served)
        node.cluster = self
        return node

    async def connect(self, address: Address) -> trio.abc.HalfCloseableStream:
        self.tried.append(address)
        await trio.lowlevel.checkpoint()
        if address not in self.nodes:
            raise UnservedError(f"{address}: Connection refused", address, Stage.REFUSED)
        theirs, ours = memory_stream_pair()
        self.nursery.start_soon(self.nodes[address].serve, theirs)
        return ours


def addresses(count: int) -> Sequence[Address]:
    return [Address(f"host{number}", 9000 + number) for number in range(count)]
