"""Questions for a decision stream, the ACLs that decide them, and the codes of decisions."""

from authorizerd.acl.model import Acl
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.protocol.decisions.stream import StreamQuestion
from tests.support.acls import acl, snapshot_of

DENIED, ALLOWED, INVALID, NOT_READY = b"\0", b"\1", b"\2", b"\3"
ALICE = "User:alice"
MAY: StreamQuestion = (ALICE, "10.0.0.1", "READ", "TOPIC", "orders")
MAY_NOT: StreamQuestion = (ALICE, "10.0.0.1", "WRITE", "TOPIC", "orders")
ACLS = (
    acl(ALICE, "READ", topic="orders"),
    acl("User:bob", "READ", topic="orders", host="0:0:0:0:0:0:0:1"),
    acl("User:*", "READ", topic="status"),
)


def at_offset(offset: int, *held: Acl) -> AclSnapshot:
    return snapshot_of(*held, offset=offset)


def question(
    principal: str = ALICE,
    host: str | None = "10.0.0.1",
    operation: int | str = "READ",
    resource_type: int | str = "TOPIC",
    name: str = "orders",
) -> StreamQuestion:
    return (principal, host, operation, resource_type, name)
