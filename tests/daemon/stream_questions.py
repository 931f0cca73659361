"""Questions to ask a decision stream, the ACLs that judge them, and the decisions' codes."""

from __future__ import annotations

from authorizerd.acl.builder import build
from authorizerd.acl.model import Acl, AclAdded, Operation
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.protocol.decisions.stream import StreamQuestion
from tests.daemon.decision_place import allow

DENIED, ALLOWED, INVALID, NOT_READY = b"\0", b"\1", b"\2", b"\3"
ALICE = "User:alice"
MAY: StreamQuestion = (ALICE, "10.0.0.1", "READ", "TOPIC", "orders")
MAY_NOT: StreamQuestion = (ALICE, "10.0.0.1", "WRITE", "TOPIC", "orders")
ACLS = (
    allow(ALICE, Operation.READ, "orders"),
    allow("User:bob", Operation.READ, "orders", host="0:0:0:0:0:0:0:1"),
    allow("User:*", Operation.READ, "status"),
)


def at_offset(offset: int, *held: Acl) -> AclSnapshot:
    return build((AclAdded(bytes([n] * 16), acl) for n, acl in enumerate(held)), offset)


def question(
    principal: str = ALICE,
    host: str | None = "10.0.0.1",
    operation: int | str = "READ",
    resource_type: int | str = "TOPIC",
    name: str = "orders",
) -> StreamQuestion:
    return (principal, host, operation, resource_type, name)
