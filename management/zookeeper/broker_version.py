"""The ACLs that brokers of a Kafka version with ZooKeeper can read.

**Invariant:** an ACL is given to a broker only if its version knows the type of resource, the
operation and the type of pattern. Otherwise, the broker may fail to start, or ignore a DENY.

Source: Kafka 0.9 to 3.9: ResourceType, Operation and AclOperation, ZkData of each branch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from authorizerd.acl.model import Acl, Operation, PatternType, ResourceType
from authorizerd.management.zookeeper.paths import OPERATION_NAMES, RESOURCE_TYPE_NAMES

_TEXT: Final = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})(?:\.[0-9]{1,4}){0,2}")


class BrokerVersion(NamedTuple):
    """A version of Kafka: 3.9, or 0.11."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> BrokerVersion:
        """Return the version of a text such as ``2.8`` or ``3.9.1``."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"expected a version of Kafka such as {NEWEST}, found {text!r}")
        version = cls(int(match[1]), int(match[2]))
        if not OLDEST <= version <= NEWEST:
            raise ValueError(
                f"expected a version from {OLDEST} to {NEWEST}, found {text}: only these keep "
                "ACLs in ZooKeeper"
            )
        return version


OLDEST: Final = BrokerVersion(0, 9)
NEWEST: Final = BrokerVersion(3, 9)
PREFIXES_SINCE: Final = BrokerVersion(2, 0)
ENUM_NAMES_SINCE: Final = BrokerVersion(2, 5)
"""From this version on, change events have TRANSACTIONAL_ID instead of TransactionalId."""

_TYPES_SINCE: Final[Mapping[int, BrokerVersion]] = {
    ResourceType.TRANSACTIONAL_ID: BrokerVersion(0, 11),
    ResourceType.DELEGATION_TOKEN: BrokerVersion(1, 1),
    ResourceType.USER: BrokerVersion(3, 3),
}
_OPERATIONS_SINCE: Final[Mapping[int, BrokerVersion]] = {
    Operation.DESCRIBE_CONFIGS: BrokerVersion(0, 11),
    Operation.ALTER_CONFIGS: BrokerVersion(0, 11),
    Operation.IDEMPOTENT_WRITE: BrokerVersion(0, 11),
    Operation.CREATE_TOKENS: BrokerVersion(3, 3),
    Operation.DESCRIBE_TOKENS: BrokerVersion(3, 3),
    Operation.TWO_PHASE_COMMIT: BrokerVersion(4, 0),
}
"""Codes that the oldest version lacks, with the first version that knows them."""


def list_types(version: BrokerVersion) -> list[ResourceType]:
    return [code for code in RESOURCE_TYPE_NAMES if _TYPES_SINCE.get(code, OLDEST) <= version]


def why_unreadable(acl: Acl, version: BrokerVersion) -> str | None:
    """Return why brokers of this version cannot apply an ACL; None if they can."""
    kind, operation = ResourceType.read(acl.resource_type), Operation.read(acl.operation)
    if kind not in RESOURCE_TYPE_NAMES:
        return f"Kafka's code {acl.resource_type} has no name as a resource type in ZooKeeper"
    if operation not in OPERATION_NAMES:
        return f"Kafka's code {acl.operation} has no name as an operation in ZooKeeper"
    for since, what in (
        (_TYPES_SINCE.get(kind, OLDEST), f"the resource type {kind.name}"),
        (_OPERATIONS_SINCE.get(operation, OLDEST), f"the operation {operation.name}"),
        (
            PREFIXES_SINCE if acl.pattern_type == PatternType.PREFIXED else OLDEST,
            "prefixed patterns",
        ),
    ):
        if version < since:
            if since > NEWEST:
                return f"no Kafka version with ZooKeeper knows {what}"
            return f"Kafka {version} does not know {what}, which needs {since}"
    return None
