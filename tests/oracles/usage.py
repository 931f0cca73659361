"""Oracle: the ACLs that recorded events used, by a plain scan of all ACLs per event."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from authorizerd.acl.model import Acl, Question
from tests.oracles.scan import ALLOW, PREFIXED, speaks


@dataclass
class Recorded:
    """One event: a question with its answer and time."""

    question: Question
    allowed: bool
    at_ms: int


@dataclass
class Used:
    """The use of one ACL: questions that it decided alone or with others, and counts of events."""

    alone: set[Question] = field(default_factory=set)
    shared: set[Question] = field(default_factory=set)
    events_alone: int = 0
    events_shared: int = 0
    last_ms: int = 0

    @property
    def names(self) -> list[str]:
        return sorted({question.resource_name for question in self.alone | self.shared})


def is_wide(acl: Acl) -> bool:
    return acl.permission_type == ALLOW and (
        acl.pattern_type == PREFIXED or acl.resource_name == "*"
    )


def used_acls(
    acls: Collection[Acl], super_users: Collection[str], events: Iterable[Recorded]
) -> dict[Acl, Used]:
    used: dict[Acl, Used] = defaultdict(Used)
    of_principal: dict[str, list[Acl]] = {}
    for event in events:
        principal = event.question.principal
        if principal in super_users:
            continue
        if principal not in of_principal:
            of_principal[principal] = [a for a in acls if a.principal in (principal, "User:*")]
        deciding = [
            acl
            for acl in of_principal[principal]
            if speaks(acl, event.question) and (acl.permission_type == ALLOW) == event.allowed
        ]
        for acl in deciding:
            use = used[acl]
            use.last_ms = max(use.last_ms, event.at_ms)
            if len(deciding) == 1:
                use.alone.add(event.question)
                use.events_alone += 1
            else:
                use.shared.add(event.question)
                use.events_shared += 1
    return dict(used)
