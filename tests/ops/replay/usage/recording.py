"""Recorded events as figures and as tuples, and strategies for them and for the ACLs they use."""

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from authorizerd.acl.model import OPERATIONS, RESOURCE_TYPES, Acl, Operation, ResourceType
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.judging.report import Count
from authorizerd.replay.recorded.tuples import Part, RecordedTuple, merge_tuples
from authorizerd.replay.text import format_time
from authorizerd.replay.usage.uses import AclUsage
from tests.acl.questions import questions
from tests.ops.replay.acl_sets import acl_set_of
from tests.oracles.usage import Recorded, is_wide, used_acls
from tests.support import strategies

DAY_MS = 86_400_000


def ingested(events: Sequence[Recorded], *, accepted: bool = True) -> Ingested:
    """Return the figures of an ingest of ``events``."""
    allowed = sum(event.allowed for event in events)
    times = [event.at_ms for event in events]
    return Ingested(
        accepted=accepted, lines=len(events), blank_lines=0, events=len(events), set_aside=0,
        reasons={}, allowed_events=allowed, denied_events=len(events) - allowed,
        tuples=len({event.question for event in events}),
        first_at=format_time(min(times)) if times else None,
        last_at=format_time(max(times)) if times else None, time_zone="UTC", inputs=("test",),
        levels={},
    )  # fmt: skip


def tuples_of(events: Iterable[Recorded]) -> list[RecordedTuple]:
    """Return the distinct questions of ``events`` with their figures."""
    return merge_tuples(
        Part(
            one.question.principal, one.question.host, Operation(one.question.operation).name,
            ResourceType(one.question.resource_type).name, one.question.resource_name, "LITERAL",
            one.allowed, None, 1, one.at_ms, one.at_ms,
        )
        for one in events
    )  # fmt: skip


asked_questions = questions().filter(
    lambda question: question.operation in OPERATIONS and question.resource_type in RESOURCE_TYPES
)


def acl_sets(*, unknown_codes: bool = False) -> st.SearchStrategy[AclSet]:
    """Generate sets without repeats, with several settings; allow-everyone may be unknown."""
    return st.builds(
        lambda found, super_users, allow_everyone: acl_set_of(
            found, super_users=super_users, allow_everyone=allow_everyone
        ),
        st.lists(strategies.acls(unknown_codes=unknown_codes), max_size=12, unique=True),
        st.sampled_from([(), ("User:b",)]),
        st.sampled_from([None, False, True]),
    )


def recorded_events() -> st.SearchStrategy[list[Recorded]]:
    """Generate unordered events; a question may be allowed once and denied later."""
    return st.lists(
        st.builds(Recorded, asked_questions, st.booleans(), st.integers(1, 9)), max_size=15
    )


def usage_of(acl_set: AclSet, events: Iterable[Recorded], names_max: int) -> dict[Acl, AclUsage]:
    """Return the use that a scan finds, which shares no code with the index."""
    acls = [item.acl for item in acl_set.acls]
    usage = {}
    for acl, used in used_acls(acls, acl_set.settings.super_users, events).items():
        names = used.names if is_wide(acl) else []
        usage[acl] = AclUsage(
            Count(events=used.events_alone, tuples=len(used.alone)),
            Count(events=used.events_shared, tuples=len(used.shared)),
            used.last_ms, len(names), tuple(names[:max(names_max, 1)]), max(names, default=""),
        )  # fmt: skip
    return usage
