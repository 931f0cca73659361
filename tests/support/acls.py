"""The words that tests use for ACLs, questions and snapshots."""

from collections.abc import Iterable
from typing import TypedDict, TypeVar, Unpack

from authorizerd.acl import model
from authorizerd.acl.index.builder import build
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, apply_changes, at_offset

AnyCode = TypeVar("AnyCode", bound=model.Code)

KNOWN_SETTINGS = ("--super-users=", "--allow-everyone-if-no-acl-found=false")
"""The flags that state Kafka's defaults, for commands that read ACLs from a place without them."""


class Resource(TypedDict, total=False):
    """One resource, by the keyword of its type. Without a keyword: the topic ``t``."""

    topic: str
    group: str
    transactional_id: str
    delegation_token: str
    user: str
    cluster: bool


def acl(
    principal: str = "User:a",
    operation: str | int = "READ",
    *,
    pattern: str | int = "LITERAL",
    deny: bool = False,
    host: str = "*",
    **resource: Unpack[Resource],
) -> model.Acl:
    """Return an ACL: ``acl("User:a", "READ", topic="orders", pattern="PREFIXED")``.

    Operation and pattern are names, or codes. For other unusual codes, construct ``Acl`` itself.
    """
    kind, name = _resource(resource)
    permission = model.PermissionType.DENY if deny else model.PermissionType.ALLOW
    return model.Acl(
        kind, name, _code(model.PatternType, pattern), principal, host,
        _code(model.Operation, operation), permission,
    )  # fmt: skip


def question(
    principal: str = "User:a",
    operation: str | int = "READ",
    *,
    host: str | None = "10.0.0.1",
    **resource: Unpack[Resource],
) -> model.Question:
    """Return a question: ``question("User:a", "READ", topic="orders")``."""
    kind, name = _resource(resource)
    return model.Question(principal, host, _code(model.Operation, operation), kind, name)


def exact_filter(each: model.Acl) -> model.AclFilter:
    return model.AclFilter(
        each.resource_type, each.resource_name, each.pattern_type, each.principal, each.host,
        each.operation, each.permission_type,
    )  # fmt: skip


def snapshot_of(*acls: model.Acl, offset: int = 0) -> AclSnapshot:
    """Return the snapshot of these ACLs, which get the ids 1, 2, 3, …"""
    added = (model.AclAdded(n.to_bytes(16, "big"), each) for n, each in enumerate(acls, 1))
    return build(added, offset)


def snapshot_after(log: Iterable[model.ChangeBatch]) -> AclSnapshot:
    snapshot = EMPTY_SNAPSHOT
    for batch in log:
        snapshot = at_offset(apply_changes(snapshot, batch.changes), batch.last_offset)
    return snapshot


def _resource(resource: Resource) -> tuple[model.ResourceType, str]:
    if not resource:
        return model.ResourceType.TOPIC, "t"
    ((keyword, name),) = resource.items()
    if keyword == "cluster":
        name = model.CLUSTER_NAME
    return model.ResourceType[keyword.upper()], str(name)


def _code(codes: type[AnyCode], value: str | int) -> int:
    return codes[value] if isinstance(value, str) else value
