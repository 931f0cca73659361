"""The brokers of a story's cluster. Each answers from its own copy of the ACLs, which may be late.

**Invariant:** a broker shows what it has fetched within ``APPLY_S_MAX``, which is less than
``SETTLE_SECONDS`` of the daemon. It never shows what is not committed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import trio

from authorizerd.acl.steps import finish
from authorizerd.kafka_client.address import Address
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_delete_acls_response,
)
from authorizerd.protocol.kafka.api import ApiKey, QuorumKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.daemon.kafka_cluster import answer
from tests.model.story import Event
from tests.support.acl_messages import encode_listing, joined
from tests.support.kafka_versions import Versions
from tests.support.kio_codec import encode_response
from tests.support.scripted_controller import Asked, Controller, Fault

if TYPE_CHECKING:
    from tests.model.cluster import Cluster

IDS: Final = (11, 12, 13)
FETCH_S: Final = 0.3
APPLY_S_MAX: Final = 0.3
_PAUSES_S: Final = (0.0, 0.05, APPLY_S_MAX)
_RETRY_S: Final = 0.1
_FORWARDING_S_MAX: Final = 1.5
"""How long a controller may take before a broker sends it the change again."""
_APIS: Final = (
    ApiKey.DESCRIBE_ACLS, ApiKey.DESCRIBE_ACLS, ApiKey.DESCRIBE_QUORUM, ApiKey.METADATA,
    ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS,
)  # fmt: skip
_UNSERVED: Final = (QuorumKey.FETCH, QuorumKey.FETCH_SNAPSHOT, ApiKey.ENVELOPE)


class Broker(Controller):
    """A broker. ``epoch`` and ``leader_id`` are those of the controller that it fetches from.

    Attributes:
        log_end: the end of what it has fetched, exclusive.
        shown: the last offset of the state that its answers show.
        is_stuck: True if it fetches nothing, but passes on what it is asked.
    """

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        super().__init__(cluster, node_id, Address(f"broker{node_id}", 9092))
        self._cluster = cluster
        self.log_end = cluster.end_offset + 1
        self.shown = cluster.end_offset
        self.is_stuck = False

    @property
    def versions(self) -> Versions:
        served = {**super().versions, ApiKey.METADATA: (0, 13), ApiKey.DESCRIBE_ACLS: (1, 3)}
        for key in _UNSERVED:
            del served[key]
        if self._cluster.hides_quorum:
            del served[ApiKey.DESCRIBE_QUORUM]
        return served

    # What it has read.

    async def replicate(self) -> None:
        """Fetch from a controller that leads, for ever, and apply what was fetched."""
        while True:
            await trio.sleep(FETCH_S)
            if self.is_alive and not self.is_stuck:
                self._fetch_committed()
            if self.shown < self.log_end - 1:
                await trio.sleep(self._cluster.chance.choice(_PAUSES_S))
                self.shown = max(self.shown, self.log_end - 1)

    def _fetch_committed(self) -> None:
        leader = self._find_leader()
        if leader is not None:
            self.epoch, self.leader_id = leader.epoch, leader.node_id
            self.log_end = max(self.log_end, leader.high_watermark)
        if self._cluster.hides_quorum:
            self.log_end = self._cluster.end_offset + 1

    def _find_leader(self) -> Controller | None:
        """Return the leader that it knows, as long as that one leads; otherwise the newest one."""
        controllers = self._cluster.controllers
        leaders = [each for each in controllers.values() if each.leads and each.epoch >= self.epoch]
        if self.is_isolated or not leaders:
            return None
        known = [each for each in leaders if each.node_id == self.leader_id]
        return known[0] if known else max(leaders, key=lambda each: each.epoch)

    def start(self, lost: int = 0) -> None:
        """Start again after a kill. Its log may have lost its end: so many committed batches."""
        self.is_alive = True
        offsets = [each for each in sorted(self._cluster.states) if each <= self.shown]
        if lost and not self._cluster.hides_quorum:
            # The leader knows its log's end only once it has fetched.
            self.shown = offsets[max(0, len(offsets) - 1 - lost)]
            self.log_end, self.leader_id = self.shown + 1, -1
            self.epoch = 0
        else:
            self.show_all()

    def show_all(self) -> None:
        self._fetch_committed()
        self.shown = max(self.shown, self.log_end - 1)

    # What it answers.

    async def _answer(self, asked: Asked) -> bytes:
        match asked.api_key:
            case ApiKey.DESCRIBE_ACLS:
                return self._list(asked.version)
            case ApiKey.METADATA:
                fields = self._describe_brokers()
            case ApiKey.DESCRIBE_QUORUM:
                fields = (await self._reach_leader()).describe_quorum()
            case ApiKey.CREATE_ACLS | ApiKey.DELETE_ACLS:
                return await self._pass_on(asked)
            case _:
                return await super()._answer(asked)
        key = ApiKey(asked.api_key)
        return b"".join(finish(encode_response(key, asked.version, fields)))

    def _list(self, version: int) -> bytes:
        self._cluster.listed.append(self.shown)
        return joined(
            encode_listing(version, sorted(self._cluster.states[self.shown].acls, key=str))
        )

    def _describe_brokers(self) -> object:
        brokers = [
            SimpleNamespace(
                node_id=each.node_id, host=each.address.host, port=each.address.port, rack=None
            )
            for each in self._cluster.brokers.values()
        ]
        return answer(
            brokers=brokers, cluster_id=self._cluster.cluster_id, controller_id=self.node_id,
            topics=(), error_code=0,
        )  # fmt: skip

    async def _reach_leader(self) -> Controller:
        while True:
            await trio.sleep(self._cluster.chance.choice(_PAUSES_S))
            if (leader := self._find_leader()) is not None:
                return leader
            await trio.sleep(_RETRY_S)

    async def _pass_on(self, asked: Asked) -> bytes:
        """Send a change to the active controller; repeat it if that one has resigned."""
        while True:
            leader = await self._reach_leader()
            with trio.move_on_after(_FORWARDING_S_MAX):
                body = await leader.change(asked, None)
                if not _names_no_controller(asked, body):
                    await trio.sleep(self._cluster.chance.choice(_PAUSES_S))
                    return body


def _names_no_controller(asked: Asked, body: bytes) -> bool:
    if asked.api_key is ApiKey.CREATE_ACLS:
        errors = decode_create_acls_response(asked.version, body)
    else:
        errors = [each.error for each in decode_delete_acls_response(asked.version, body)]
    return any(each is not None and each.code == ErrorCode.NOT_CONTROLLER for each in errors)


def harm(broker: Broker, event: Event) -> None:
    """Let a broker fail, or recover from an earlier failure."""
    may_lag = not broker._cluster.hides_quorum
    match event.kind:
        case "stop the broker":
            broker.is_alive = False
            drop_connections(broker)
        case "start the broker" if not broker.is_alive:
            broker.start(lost=event.number % 4)
        case "isolate the broker" if may_lag:
            broker.is_isolated = True
        case "hold the broker" if may_lag:
            broker.is_stuck = True
        case "hold every broker" if may_lag:
            for each in broker._cluster.brokers.values():
                each.is_stuck = True
        case "release the broker":
            broker.is_isolated = broker.is_stuck = False
        case "drop the broker":
            drop_connections(broker)
        case "spoil the broker":
            faults = (Fault.CUT, Fault.CUT_AFTER, Fault.SILENCE, Fault.GARBAGE)
            broker.spoil(_APIS[event.number % len(_APIS)], faults[event.number % len(faults)])


def drop_connections(broker: Broker) -> None:
    for scope in broker.connections:
        scope.cancel()


def heal(broker: Broker) -> None:
    """End every failure of a broker; its connections end as well."""
    broker._faults.clear()
    drop_connections(broker)
    broker.is_isolated = broker.is_stuck = False
    if not broker.is_alive:
        broker.start()
