"""Ask every broker which levels of metadata.version it supports, again at each poll.

A connection to each broker stays open, which proves that its process has not restarted. So an
answer counts while the connection lives, even if the next answer is slow.

**Invariant:** the level of an unreachable broker is unknown. So is the level, for
``FORGOTTEN_SECONDS``, of a broker that the cluster no longer names: it may be restarting.

Source: KIP-584; Kafka 4.3 BrokerFeatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import trio

from authorizerd.daemon.sources.brokers.messages import Target
from authorizerd.image.changes import (
    UNKNOWN_LEVEL,
    ClusterChange,
    FeatureLevel,
    NodeRegistered,
    NodeUnregistered,
)
from authorizerd.image.features import METADATA_VERSION_FEATURE
from authorizerd.kafka_client.connection import NO_FEATURES, Features, Node, OpenNode
from authorizerd.kafka_client.errors import ConnectionFailedError, RequestFailedError

FIRST_LOOK_SECONDS: Final = 10.0
"""How long the first probe waits for answers. Decisions begin after it."""
LOOK_SECONDS: Final = 1.0
"""How long a later probe waits for slow brokers."""
ASK_SECONDS: Final = 10.0
"""Time limit of one answer, including connecting and authenticating."""
FORGOTTEN_SECONDS: Final = 600.0


@dataclass(slots=True)
class _Watched:
    """A broker, and its open connection. ``named_at`` is when the cluster last named it."""

    target: Target
    named_at: float
    node: Node | None = None
    is_asked: bool = False

    @property
    def features(self) -> Features:
        return NO_FEATURES if self.node is None else self.node.features


class ReleaseProbe:
    """Keeps connections to all brokers. ``nursery`` runs the tasks that ask them."""

    def __init__(self, open_node: OpenNode, nursery: trio.Nursery) -> None:
        self._open_node: Final = open_node
        self._nursery: Final = nursery
        self._watched: Final[dict[int, _Watched]] = {}
        self._answered = trio.Event()
        self._patience = FIRST_LOOK_SECONDS
        self._taken: dict[int, int] = {}
        self._taken_finalized: int | None = None

    @property
    def levels(self) -> dict[int, int]:
        """The highest level that each broker supports, by its id."""
        return {
            broker_id: each.features.supported.get(METADATA_VERSION_FEATURE, UNKNOWN_LEVEL)
            for broker_id, each in self._watched.items()
        }

    @property
    def finalized(self) -> int:
        """The finalized level, according to the broker that knows the newest one."""
        newest = max(
            (each.features for each in self._watched.values()),
            key=lambda each: each.epoch,
            default=NO_FEATURES,
        )
        return newest.finalized.get(METADATA_VERSION_FEATURE, UNKNOWN_LEVEL)

    def take_changes(self) -> tuple[ClusterChange, ...]:
        """Return what has changed in the brokers' releases since the last call."""
        before, after, finalized = self._taken, self.levels, self.finalized
        changes: list[ClusterChange] = [
            NodeUnregistered(False, each) for each in before if each not in after
        ]
        changes += (
            NodeRegistered(False, broker_id, level)
            for broker_id, level in after.items()
            if before.get(broker_id) != level
        )
        if finalized != self._taken_finalized:
            changes.append(FeatureLevel(METADATA_VERSION_FEATURE, max(finalized, 0)))
        self._taken, self._taken_finalized = after, finalized
        return tuple(changes)

    async def look(self, brokers: Sequence[Target]) -> None:
        """Ask every broker. Return once all have answered or failed, or after a time limit.

        Args:
            brokers: the brokers that the cluster names, by id.
        """
        now = trio.current_time()
        for target in brokers:
            assert target.broker_id is not None, "Metadata has the ids"
            known = self._watched.get(target.broker_id)
            if known is None or known.target != target:
                await self._forget(target.broker_id)
                self._watched[target.broker_id] = _Watched(target, now)
            else:
                known.named_at = now
        for broker_id in list(self._watched):
            if now - self._watched[broker_id].named_at > FORGOTTEN_SECONDS:
                await self._forget(broker_id)
        for each in self._watched.values():
            if not each.is_asked:
                each.is_asked = True
                self._nursery.start_soon(self._ask, each)
        with trio.move_on_after(self._patience):
            while any(each.is_asked for each in self._watched.values()):
                self._answered = trio.Event()
                await self._answered.wait()
        self._patience = LOOK_SECONDS

    async def aclose(self) -> None:
        """Close all connections."""
        for broker_id in list(self._watched):
            await self._forget(broker_id)

    async def _forget(self, broker_id: int) -> None:
        watched = self._watched.pop(broker_id, None)
        if watched is not None:
            await _close(watched)

    async def _ask(self, watched: _Watched) -> None:
        try:
            with trio.move_on_after(ASK_SECONDS) as scope:
                await self._exchange(watched)
            if scope.cancelled_caught:
                await _close(watched)
        except (ConnectionFailedError, RequestFailedError):
            await _close(watched)
        finally:
            watched.is_asked = False
            self._answered.set()
        if self._watched.get(watched.target.broker_id or 0) is not watched:
            await _close(watched)  # it was forgotten in the meantime

    async def _exchange(self, watched: _Watched) -> None:
        node = watched.node
        if node is not None and trio.current_time() < node.renewal_time:
            await node.negotiate()
            return
        target = watched.target
        opened = await self._open_node(target.host, target.port)
        await _close(watched)
        watched.node = opened


async def _close(watched: _Watched) -> None:
    node, watched.node = watched.node, None
    if node is not None:
        with trio.CancelScope(shield=True):
            await node.aclose()
