"""Changes of committed records other than ACLs: topics, configs, credentials, features, nodes.

**Invariant:** a change keeps all fields of its record, so a checkpoint written from it loses
nothing. Nodes are the exception: only the fields that prove their release are kept, and the
record's bytes.

Source: KIP-631 (topics, configs, nodes), KIP-858 and 966 (partitions), KIP-900 (SCRAM), KIP-584,
KIP-853 (voters), KIP-919 (controllers).
"""

from __future__ import annotations

from typing import Final

import msgspec

Replicas = tuple[int, ...]
"""Node ids. A partition's replicas are listed in order of preference."""

# Not -1: in records, that means that a partition has no leader.
LEADER_UNCHANGED: Final = -2
RECOVERY_STATE_UNCHANGED: Final = -1

UNKNOWN_LEVEL: Final = -1
"""The level of a feature that is not known."""


class Partition(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One partition, with the fields of its records.

    ``directories`` has a 16-byte uuid for each replica, or is empty. ``version`` is the highest
    version among the records that describe the partition.
    """

    replicas: Replicas
    isr: Replicas
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing_replicas: Replicas = ()
    adding_replicas: Replicas = ()
    leader_recovery_state: int = 0
    directories: bytes = b""
    eligible_leader_replicas: Replicas = ()
    last_known_eligible: Replicas = ()
    version: int = 0


class ScramCredential(msgspec.Struct, frozen=True, gc=False):
    """The data by which a server checks a SCRAM login. It does not reveal the password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Return a text without the keys, safe for logs."""
        return f"ScramCredential(iterations={self.iterations})"


class TopicAdded(msgspec.Struct, frozen=True, gc=False):
    """A TopicRecord; ``id`` is its 16-byte uuid."""

    name: str
    id: bytes


class PartitionAdded(msgspec.Struct, frozen=True, gc=False):
    """A PartitionRecord: a new partition, or all fields of an existing one."""

    topic_id: bytes
    number: int
    partition: Partition


class PartitionChanged(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PartitionChangeRecord. None and the codes ``…_UNCHANGED`` leave a field unchanged."""

    topic_id: bytes
    number: int
    isr: Replicas | None = None
    leader: int = LEADER_UNCHANGED
    replicas: Replicas | None = None
    removing_replicas: Replicas | None = None
    adding_replicas: Replicas | None = None
    leader_recovery_state: int = RECOVERY_STATE_UNCHANGED
    eligible_leader_replicas: Replicas | None = None
    last_known_eligible: Replicas | None = None
    directories: bytes | None = None
    version: int = 0


class TopicRemoved(msgspec.Struct, frozen=True, gc=False):
    """A RemoveTopicRecord: it removes the topic, its partitions and its configs."""

    id: bytes


class ConfigChanged(msgspec.Struct, frozen=True, gc=False):
    """A ConfigRecord. A value of None removes the key. ``resource_type`` is a raw int8."""

    resource_type: int
    resource_name: str
    key: str
    value: str | None


class CredentialAdded(msgspec.Struct, frozen=True, gc=False):
    """A UserScramCredentialRecord. ``mechanism`` is a raw int8."""

    user: str
    mechanism: int
    credential: ScramCredential


class CredentialRemoved(msgspec.Struct, frozen=True, gc=False):
    """A RemoveUserScramCredentialRecord."""

    user: str
    mechanism: int


class FeatureLevel(msgspec.Struct, frozen=True, gc=False):
    """A FeatureLevelRecord: a finalized feature. Level 0 removes it."""

    name: str
    level: int


class NodeRegistered(msgspec.Struct, frozen=True, gc=False):
    """A broker or controller joined the cluster, replacing an earlier one with this id.

    Attributes:
        level: the highest level of metadata.version that it supports, or ``UNKNOWN_LEVEL``.
        value: the record's bytes; empty if a broker was asked instead of reading a record.
    """

    is_controller: bool
    id: int
    level: int
    value: bytes = b""


class NodeUnregistered(msgspec.Struct, frozen=True, gc=False):
    """A broker or controller left the cluster."""

    is_controller: bool
    id: int


class VotersChanged(msgspec.Struct, frozen=True, gc=False):
    """A VotersRecord: the voting controllers. None means that no record names them."""

    ids: frozenset[int] | None


ClusterChange = (
    TopicAdded
    | PartitionAdded
    | PartitionChanged
    | TopicRemoved
    | ConfigChanged
    | CredentialAdded
    | CredentialRemoved
    | FeatureLevel
    | NodeRegistered
    | NodeUnregistered
    | VotersChanged
)
