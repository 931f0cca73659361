"""Sets of ACLs, and questions of recorded events."""

from __future__ import annotations

from collections.abc import Sequence

from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of
from tests.ops.replay.recorded_events import Event


def acl_set_of(
    acls: Sequence[Acl], *, added_ms: int | None = 0, super_users: tuple[str, ...] | None = (),
    allow_everyone: bool | None = False,
) -> AclSet:  # fmt: skip
    return AclSet(
        source="test", acls=tuple(DatedAcl(acl, added_ms) for acl in acls), digest=digest_of(acls),
        super_users=super_users, allow_everyone_if_no_acl_found=allow_everyone,
    )  # fmt: skip


def topic_read(name: str, *, prefixed: bool = False, principal: str = "User:a") -> Acl:
    """Return an ALLOW of READ on a topic, from every host."""
    return Acl(ResourceType.TOPIC, name, 4 if prefixed else 3, principal, "*", Operation.READ, 3)


def question_of(event: Event) -> Question:
    """Return the question of an event that ACLs can decide."""
    operation, kind = Operation[event.operation], ResourceType[event.resource_type]
    return Question(event.principal, event.host, operation, kind, event.resource_name)
