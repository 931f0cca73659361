"""Write the example's log: a few ACLs in Kafka's format."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from authorizerd.acl.model import (
    Acl,
    AclAdded,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.image.changes import FeatureLevel
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY, segment_name
from authorizerd.protocol.records.batch import encode_batch
from authorizerd.protocol.records.control import leader_change
from authorizerd.protocol.records.metadata import (
    METADATA_VERSION_FEATURE,
    METADATA_VERSION_KNOWN,
    encode_value,
)

NODE_ID: Final = 1
EPOCH: Final = 1
WRITTEN_MS: Final = 1_767_225_600_000
"""2026-01-01, so that the log has the same bytes every time."""


def _acl(
    resource_type: ResourceType,
    name: str,
    principal: str,
    operation: Operation,
    *,
    permission: PermissionType = PermissionType.ALLOW,
    pattern_type: PatternType = PatternType.LITERAL,
    host: str = "*",
) -> Acl:
    return Acl(resource_type, name, pattern_type, principal, host, operation, permission)


ACLS: Final = (
    _acl(ResourceType.TOPIC, "orders", "User:alice", Operation.READ),
    _acl(ResourceType.GROUP, "billing", "User:alice", Operation.READ),
    _acl(
        ResourceType.TOPIC,
        "orders",
        "User:bob",
        Operation.ALL,
        pattern_type=PatternType.PREFIXED,
    ),
    _acl(
        ResourceType.TOPIC,
        "orders-secret",
        "User:*",
        Operation.ALL,
        permission=PermissionType.DENY,
    ),
    _acl(ResourceType.TOPIC, "status", "User:*", Operation.READ),
    _acl(ResourceType.TOPIC, "status", "User:robot", Operation.WRITE, host="10.0.0.7"),
    _acl(ResourceType.CLUSTER, "kafka-cluster", "User:ops", Operation.DESCRIBE),
)


def write_log(log_dir: Path) -> None:
    """Write the log to ``log_dir``; overwrite an existing one."""
    directory = log_dir / METADATA_TOPIC_DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    version = FeatureLevel(METADATA_VERSION_FEATURE, METADATA_VERSION_KNOWN)
    added = [AclAdded(number.to_bytes(16, "big"), acl) for number, acl in enumerate(ACLS, 1)]
    batches = (
        encode_batch(0, EPOCH, WRITTEN_MS, [leader_change(NODE_ID)], is_control=True),
        encode_batch(1, EPOCH, WRITTEN_MS, [(None, encode_value(version))]),
        encode_batch(2, EPOCH, WRITTEN_MS, [(None, encode_value(change)) for change in added]),
    )
    (directory / segment_name(0)).write_bytes(b"".join(batches))
