"""Sets of ACLs, and questions of recorded events."""

from collections.abc import Sequence

from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of
from authorizerd.replay.recorded.tuples import RecordedTuple
from tests.ops.replay.recorded_events import Event
from tests.oracles.scan import decide


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


def question_of(event: Event | RecordedTuple) -> Question:
    """Return the question of an event that ACLs can decide."""
    operation, kind = Operation[event.operation], ResourceType[event.resource_type]
    return Question(event.principal, event.host, operation, kind, event.resource_name)


def allowed_by_scan(acl_set: AclSet, event: Event | RecordedTuple) -> bool:
    """Return the answer of the oracle, which shares no code with the index."""
    if event.principal in acl_set.settings.super_users:
        return True
    acls = [dated.acl for dated in acl_set.acls]
    return decide(acls, acl_set.settings.allow_everyone_if_no_acl_found, question_of(event))[0]
