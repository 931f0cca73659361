"""One controller of a scripted quorum: a connection's bytes in, answers by the model out.

Source: Kafka 4.3 KafkaRaftClient.handleFetchRequest and similar methods, ControllerApis.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from itertools import chain
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import trio
from msgspec.structs import replace

from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.filters import accepts
from authorizerd.acl.model import AclAdded, AclRemoved
from authorizerd.acl.steps import finish
from authorizerd.acl.validation import validate_filter, validate_new_acl
from authorizerd.kafka_client.address import Address
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import Frames, frame
from authorizerd.protocol.kafka.acls import FilterResult, MatchingAcl
from authorizerd.protocol.kafka.api import (
    REQUESTED_APIS,
    ApiKey,
    QuorumKey,
    RequestedKey,
    has_response_tags,
)
from authorizerd.protocol.kafka.envelope import encode_envelope_response, open_envelope
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.fetch import (
    METADATA_TOPIC,
    FetchAnswer,
    FetchPosition,
    SnapshotAnswer,
)
from authorizerd.protocol.kafka.quorum_messages import EpochEnd, SnapshotId
from tests.daemon.kafka_cluster import answer, cluster_of
from tests.support import acl_messages
from tests.support.kafka_versions import Versions
from tests.support.kio_codec import encode_response
from tests.support.kio_messages import read_by_kio
from tests.support.quorum_answers import write_fetch, write_fetch_snapshot
from tests.support.replica_log import AnyRecord, ReplicaLog

if TYPE_CHECKING:
    from tests.support.scripted_quorum import ScriptedQuorum

T = TypeVar("T")

REQUEST_BYTES_MAX: Final = 16 << 20
NO_WATERMARK: Final = -1

_HEAD: Final = struct.Struct(">hhih")
_VERSION_WITH_ENDPOINTS: Final = 17


class Fault(Enum):
    """What goes wrong instead of an answer, or after it was made."""

    CUT = auto()
    """The connection is closed, and the request was not done."""
    CUT_AFTER = auto()
    """The request is done, and its changes are committed. Then the connection is closed."""
    SILENCE = auto()
    """The request is not done, and never answered."""
    GARBAGE = auto()
    """The answer is no Kafka response."""


class Asked(NamedTuple):
    """A request that was received."""

    api_key: RequestedKey
    version: int
    body: bytes

    @property
    def name(self) -> str:
        return f"{self.api_key.name} {self.version}"


class _HangUpError(Exception):
    """The connection is closed now."""


class Controller:
    """A controller: what it believes, its log, and how it answers.

    Attributes:
        epoch, leader_id: what it believes. ``leader_id`` is -1 if it knows no leader.
        high_watermark: exclusive; -1 as long as it does not know it.
        is_isolated: True if it hears nothing of the other controllers.
        asked: the requests that it has received.
    """

    def __init__(self, quorum: ScriptedQuorum, node_id: int, address: Address) -> None:
        self.node_id = node_id
        self.address = address
        self.epoch = 0
        self.leader_id = -1
        self.high_watermark = NO_WATERMARK
        self.log = ReplicaLog()
        self.is_alive = True
        self.is_isolated = False
        self.asked: list[Asked] = []
        self.connections: set[trio.CancelScope] = set()
        self._quorum = quorum
        self._changes = trio.lowlevel.ParkingLot()
        self._faults: deque[tuple[RequestedKey, Fault | bytes]] = deque()

    @property
    def leads(self) -> bool:
        return self.leader_id == self.node_id

    @property
    def versions(self) -> Versions:
        """The APIs that it serves."""
        return self._quorum.versions

    @property
    def names(self) -> list[str]:
        """The requests received, as ``NAME version``."""
        return [each.name for each in self.asked]

    def spoil(self, api_key: RequestedKey, fault: Fault | bytes) -> None:
        """Answer the next request of an API by a fault, or by a body in its version."""
        self._faults.append((api_key, fault))

    def notice_change(self) -> None:
        """Answer requests that wait for a change of the log, the leader or the watermark."""
        self._changes.unpark_all()

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Answer the requests of one connection until it ends, or the controller is killed."""
        frames = Frames()
        with trio.CancelScope() as scope:
            self.connections.add(scope)
            async with stream:
                with suppress(trio.BrokenResourceError, _HangUpError, DecodeError):
                    while data := await stream.receive_some():
                        frames.receive_data(data)
                        while (request := frames.next(REQUEST_BYTES_MAX)) is not None:
                            await stream.send_all(await self._answer_frame(bytes(request)))
        self.connections.discard(scope)

    async def _answer_frame(self, request: bytes) -> bytes:
        number, version, correlation_id, client_id_size = _HEAD.unpack_from(request)
        [api_key] = [key for key in REQUESTED_APIS if key == number]
        start = _HEAD.size + max(client_id_size, 0)
        start += REQUESTED_APIS[api_key].is_flexible(version)
        asked = Asked(api_key, version, request[start:])
        self.asked.append(asked)
        fault = self._take_fault(api_key)
        match fault:
            case Fault.CUT:
                raise _HangUpError
            case Fault.SILENCE:
                await trio.sleep_forever()
            case Fault.GARBAGE:
                return frame(b"\xff" * 16)
            case bytes():
                body = fault
            case _:
                body = await self._answer(asked)
        if fault is Fault.CUT_AFTER:
            raise _HangUpError
        tags = b"\0" if has_response_tags(api_key, version) else b""
        return frame(struct.pack(">i", correlation_id) + tags, body)

    def _take_fault(self, api_key: RequestedKey) -> Fault | bytes | None:
        for index, (key, fault) in enumerate(self._faults):
            if key is api_key:
                del self._faults[index]
                return fault
        return None

    async def _answer(self, asked: Asked) -> bytes:
        version, body = asked.version, asked.body
        match asked.api_key:
            case QuorumKey.FETCH:
                return await self._fetch(version, body)
            case QuorumKey.FETCH_SNAPSHOT:
                return self._fetch_snapshot(version, body)
            case ApiKey.CREATE_ACLS | ApiKey.DELETE_ACLS:
                error = None if self.leads else ApiError(ErrorCode.NOT_CONTROLLER)
                return await self.change(asked, error)
            case ApiKey.ENVELOPE:
                return await self._unwrap(body)
            case _:
                fields = self._describe(asked.api_key)
                return b"".join(finish(encode_response(asked.api_key, version, fields)))

    def _describe(self, api_key: RequestedKey) -> object:
        """Return the fields of the answer to a request that changes nothing."""
        quorum = self._quorum
        match api_key:
            case ApiKey.API_VERSIONS:
                served = [
                    SimpleNamespace(api_key=key, min_version=lowest, max_version=highest)
                    for key, (lowest, highest) in self.versions.items()
                ]
                return answer(error_code=0, api_keys=served)
            case ApiKey.SASL_HANDSHAKE:
                return answer(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())
            case ApiKey.DESCRIBE_CLUSTER:
                nodes = [(each.node_id, each.address) for each in quorum.controllers.values()]
                fields = cluster_of(self.leader_id, *nodes)
                fields.cluster_id = quorum.cluster_id
                return fields
            case ApiKey.DESCRIBE_QUORUM:
                return self.describe_quorum()
        raise _HangUpError

    def describe_quorum(self) -> object:
        """Return the fields of the answer to DescribeQuorum."""
        code = ErrorCode.NONE if self.leads else ErrorCode.NOT_LEADER_OR_FOLLOWER
        voters = [
            _replica(each.node_id, each.log.end_offset)
            for each in self._quorum.controllers.values()
        ]
        observers = [_replica(*each) for each in self._quorum.list_observers(self.epoch).items()]
        partition = SimpleNamespace(
            partition_index=0,
            error_code=code,
            error_message=None,
            leader_id=self.leader_id,
            leader_epoch=self.epoch,
            high_watermark=self.high_watermark,
            current_voters=voters if self.leads else (),
            observers=observers if self.leads else (),
        )
        nodes = [
            SimpleNamespace(
                node_id=each.node_id,
                listeners=[
                    SimpleNamespace(
                        name="CONTROLLER", host=each.address.host, port=each.address.port
                    )
                ],
            )
            for each in self._quorum.controllers.values()
        ]
        topic = SimpleNamespace(topic_name=METADATA_TOPIC, partitions=(partition,))
        return answer(error_code=0, error_message=None, topics=(topic,), nodes=nodes)

    def _leader_error(self, epoch: int) -> ErrorCode:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.leads else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _endpoints(self) -> dict[int, tuple[str, int]]:
        leader = self._quorum.controllers.get(self.leader_id)
        return (
            {} if leader is None else {leader.node_id: (leader.address.host, leader.address.port)}
        )

    async def _fetch(self, version: int, body: bytes) -> bytes:
        request: Any = read_by_kio(QuorumKey.FETCH, version, body)
        if request.cluster_id not in (None, self._quorum.cluster_id):
            nothing = FetchAnswer(error_code=0)
            return write_fetch(
                version, nothing, top_error=ErrorCode.INCONSISTENT_CLUSTER_ID, topics=0
            )
        [partition] = request.topics[0].partitions
        position = FetchPosition(
            offset=partition.fetch_offset,
            last_epoch=partition.last_fetched_epoch,
            leader_epoch=partition.current_leader_epoch,
            high_watermark=getattr(partition, "high_watermark", 2**63 - 1),
        )
        found = self._fetch_now(position, request.max_bytes)
        with trio.move_on_after(request.max_wait.total_seconds()):
            while self._has_nothing(found, position):
                await self._changes.park()
                found = self._fetch_now(position, request.max_bytes)
        if version < _VERSION_WITH_ENDPOINTS:
            found = replace(found, endpoints={})
        return write_fetch(version, found)

    @staticmethod
    def _has_nothing(found: FetchAnswer, position: FetchPosition) -> bool:
        has_news = found.records or found.diverging or found.snapshot
        return not (found.error_code or has_news or found.high_watermark > position.high_watermark)

    def _fetch_now(self, position: FetchPosition, bytes_max: int) -> FetchAnswer:
        error = self._leader_error(position.leader_epoch)
        has_negative = min(position.offset, position.last_epoch, position.leader_epoch) < 0
        if has_negative or (not error and position.last_epoch > self.epoch):
            error = ErrorCode.INVALID_REQUEST
        found = FetchAnswer(
            error_code=error,
            leader_id=self.leader_id,
            leader_epoch=self.epoch,
            endpoints=self._endpoints(),
        )
        if error:
            return found
        found = replace(
            found, high_watermark=self.high_watermark, log_start_offset=self.log.start_offset
        )
        match self.log.compare(position):
            case EpochEnd() as diverging:
                return replace(found, diverging=diverging)
            case SnapshotId() as snapshot:
                return replace(found, snapshot=snapshot)
            case None:
                size = min(bytes_max, self._quorum.fetch_bytes_max)
                return replace(found, records=self.log.read(position.offset, size))

    def _fetch_snapshot(self, version: int, body: bytes) -> bytes:
        request: Any = read_by_kio(QuorumKey.FETCH_SNAPSHOT, version, body)
        [partition] = request.topics[0].partitions
        asked, position = partition.snapshot_id, partition.position
        snapshot = SnapshotId(asked.end_offset, asked.epoch)
        data = self.log.snapshots.get(snapshot)
        error = self._leader_error(partition.current_leader_epoch)
        if data is None and not error:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif data is not None and not 0 <= position < len(data):
            error = ErrorCode.POSITION_OUT_OF_RANGE
        if error and self._quorum.hides_snapshot_errors:
            hidden = SnapshotAnswer(error_code=0, snapshot=snapshot)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            return write_fetch_snapshot(version, hidden, top_error=code, topics=0)
        found = SnapshotAnswer(
            error_code=error,
            leader_id=self.leader_id,
            leader_epoch=self.epoch,
            endpoints=self._endpoints(),
            snapshot=snapshot,
        )
        if data is not None and not error:
            end = position + min(request.max_bytes, self._quorum.snapshot_bytes_max)
            found = replace(found, size=len(data), position=position, data=data[position:end])
        return write_fetch_snapshot(version, found)

    async def _unwrap(self, body: bytes) -> bytes:
        forwarded = finish(open_envelope(bytearray(body)))
        self._quorum.forwarded.append(forwarded)
        if not self.leads:
            return acl_messages.encode_envelope_error(ErrorCode.NOT_CONTROLLER)
        request = forwarded.request
        is_allowed = self._quorum.authorizes(forwarded)
        inner = await self.change(
            Asked(request.api_key, request.api_version, bytes(request.body)),
            None if is_allowed else ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        )
        return b"".join(encode_envelope_response(request, [inner]))

    async def change(self, asked: Asked, error: ApiError | None) -> bytes:
        """Create or delete ACLs, or answer each item with ``error``."""
        version = asked.version
        if asked.api_key is ApiKey.CREATE_ACLS:
            acls = finish(acl_messages.decode_create_acls(version, asked.body))[0]
            faults = [_find_fault(validate_new_acl, acl) for acl in acls]
            if error is None:
                known = {*self.log.acls().values()}
                known |= {acl for acl, fault in zip(acls, faults, strict=True) if fault}
                new = [acl for acl in dict.fromkeys(acls) if acl not in known]
                error = await self._append([AclAdded(self._quorum.new_id(), acl) for acl in new])
            errors = [error or fault for fault in faults]
            return b"".join(finish(acl_messages.encode_create_acls(version, errors)))
        filters = finish(acl_messages.decode_delete_acls(version, asked.body))[0]
        faults = [_find_fault(validate_filter, each) for each in filters]
        held = self.log.acls()
        found = [
            [key for key, acl in held.items() if fault is None and accepts(each, acl)]
            for each, fault in zip(filters, faults, strict=True)
        ]
        if error is None:
            removed = dict.fromkeys(chain.from_iterable(found))
            error = await self._append([AclRemoved(key) for key in removed])
        results = [
            FilterResult(matches=(), error=error or fault) if error or fault
            else FilterResult(matches=[MatchingAcl(acl=held[key]) for key in keys])
            for keys, fault in zip(found, faults, strict=True)
        ]  # fmt: skip
        return b"".join(finish(acl_messages.encode_delete_acls(version, results)))

    async def _append(self, records: list[AnyRecord]) -> ApiError | None:
        """Append any records, wait until the log is committed, and return an error if it is not."""
        epoch = self.epoch
        if records:
            self.log.append(epoch, records)
        end = self.log.end_offset
        self.notice_change()
        if records and self._quorum.commits_changes:  # else it would commit those of others
            self._quorum.commit()
        while self.high_watermark < end and self.epoch == epoch:
            await self._changes.park()
        return None if self.epoch == epoch else ApiError(ErrorCode.NOT_CONTROLLER)


def _replica(node_id: int, log_end: int) -> SimpleNamespace:
    return SimpleNamespace(
        replica_id=node_id,
        replica_directory_id=None,
        log_end_offset=log_end,
        last_fetch_timestamp=-1,
        last_caught_up_timestamp=-1,
    )


def _find_fault(validate: Callable[[T], None], item: T) -> ApiError | None:
    try:
        validate(item)
    except InvalidAclError as error:
        return ApiError(ErrorCode.INVALID_REQUEST, str(error))
    return None
