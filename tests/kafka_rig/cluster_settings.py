"""The settings of a cluster: how many nodes, which users, and what these may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from authorizerd.acl.model import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from tests.kafka_rig.broker import ADMIN, BrokerSettings

FOLLOWER: Final = "follower"
"""The user that holds CLUSTER_ACTION on the cluster, and nothing else."""

POLLER: Final = "poller"
"""The user that holds DESCRIBE on the cluster, and nothing else."""

USERS: Final = (ADMIN, "alice", "bob", FOLLOWER, POLLER)
_TIMEOUTS: Final = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "1000"}
"""A killed broker can register again after its session."""


def _grant(user: str, operation: Operation) -> Acl:
    return Acl(
        ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, f"User:{user}", WILDCARD,
        operation, PermissionType.ALLOW,
    )  # fmt: skip


GRANTS: Final = (_grant(FOLLOWER, Operation.CLUSTER_ACTION), _grant(POLLER, Operation.DESCRIBE))
"""The ACLs that exist from the start."""


NODE: Final = BrokerSettings(
    users={name: f"{name}-secret" for name in USERS},
    jvm_options=("-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    linger_ms=5,
    more=_TIMEOUTS,
)
"""The settings of every node unless others are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The settings of a cluster.

    Args:
        controllers: how many voters there are at first.
        node: the settings of every node; ``roles`` is set for each.
        controller_more: additional lines of server.properties for controllers.
        broker_more: the same for brokers.
    """

    controllers: int = 3
    brokers: int = 1
    node: BrokerSettings = NODE
    controller_more: Mapping[str, str] = field(default_factory=dict)
    broker_more: Mapping[str, str] = field(default_factory=dict)
