"""The operations of each resource type, and KIP-430's bit field of authorized operations.

Source: KIP-430; Kafka 4.3 AclEntry.supportedOperations. Where the two differ, Kafka 4.3 wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from authorizerd.acl.model import Operation, ResourceType

NOT_REQUESTED: Final = -(2**31)
"""The field's value if the client did not ask for authorized operations."""

SUPPORTED: Final[dict[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.TWO_PHASE_COMMIT,
    ),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


def bit_field(operations: Iterable[Operation]) -> int:
    """Return the int32 of KIP-430. Bit n is set if the operation with code n is authorized."""
    bits = 0
    for operation in operations:
        bits |= 1 << operation
    return bits
