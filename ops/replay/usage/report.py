"""``usage.json``: what recorded traffic shows of each ACL, and what it suggests.

**Invariant:** every ACL of the set stands in exactly one of ``used``, ``unused`` and
``not_judged``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from authorizerd.acl.model import Acl, Code, Operation, PatternType, PermissionType, ResourceType
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.usage.matching import distinct
from authorizerd.replay.usage.suggestions import AclUsage, Suggestions
from authorizerd.replay.usage.window import Age, Window, age_of, time_text

NOT_IN_FORCE: Final = {Age.ADDED_WITHIN: "added_within", Age.UNKNOWN: "age_unknown"}


class NamedAcl(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL by Kafka's names, as a YAML or JSON source has it; an unknown code is its number."""

    principal: str
    host: str
    operation: str
    permission_type: str
    resource_type: str
    resource_name: str
    pattern_type: str


class Count(msgspec.Struct, frozen=True, kw_only=True):
    events: int = 0
    tuples: int = 0


class SetReport(msgspec.Struct, frozen=True, kw_only=True):
    """The ACLs that were judged, and the settings they were judged by."""

    source: str
    digest: str
    offset: int | None
    stamped_at: str | None
    acls: int
    super_users: tuple[str, ...]
    allow_everyone_if_no_acl_found: bool


class WindowReport(msgspec.Struct, frozen=True, kw_only=True):
    """Times are ISO 8601 in UTC.

    An ACL is judged if it was added before ``begins_at``. What is unused was not seen in use from
    ``allowed_first_at`` to ``allowed_last_at``: outside them nothing shows that what was allowed
    was logged at all.
    """

    begins_at: str
    ends_at: str
    allowed_first_at: str
    allowed_last_at: str
    lookback_days: float | None
    allowed_events: int
    denied_events: int
    tuples: int


class UsedAcl(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL and what it decided: ``alone``, or ``with_others`` that would have decided the same.

    ``names`` counts the resources that a wildcard or prefix was used for; None for other ACLs.
    """

    acl: NamedAcl
    added_at: str | None
    alone: Count
    with_others: Count
    last_used_at: str
    names: int | None


class UnusedAcl(msgspec.Struct, frozen=True, kw_only=True):
    acl: NamedAcl
    added_at: str | None


class NarrowingReport(msgspec.Struct, frozen=True, kw_only=True):
    acl: NamedAcl
    names: int
    events: int
    narrower: tuple[NamedAcl, ...]


class LeftOutReport(msgspec.Struct, frozen=True, kw_only=True):
    acl: NamedAcl
    reason: str


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The suggested set against the old one, on every tuple of the window."""

    digest: str
    acls: int
    tuples: int
    newly_denied: Count
    newly_allowed: Count


class SuggestionsReport(msgspec.Struct, frozen=True, kw_only=True):
    removals: tuple[NamedAcl, ...]
    narrowings: tuple[NarrowingReport, ...]
    left_out: tuple[LeftOutReport, ...]
    proof: Proof | None


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """All of it.

    ``not_evaluated`` counts requests that no ACL can be asked about, by reason; ``by_super_users``
    those that need none; ``disagreeing`` those that these ACLs decide otherwise than was recorded.
    ``not_judged`` has the keys of ``NOT_IN_FORCE``; what was used is not among them.
    """

    acls: SetReport
    window: WindowReport
    assumed_in_force: bool
    not_evaluated: dict[str, Count]
    by_super_users: Count
    disagreeing: Count
    used: tuple[UsedAcl, ...]
    unused: tuple[UnusedAcl, ...]
    not_judged: dict[str, tuple[UnusedAcl, ...]]
    suggestions: SuggestionsReport


def encode_usage(report: UsageReport) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def decode_usage(text: str) -> UsageReport:
    """Return what ``encode_usage`` wrote.

    Raises:
        msgspec.DecodeError: it is another's.
    """
    return msgspec.json.decode(text, type=UsageReport)


def set_report(acl_set: AclSet) -> SetReport:
    return SetReport(
        source=acl_set.source,
        digest=acl_set.digest,
        offset=acl_set.offset,
        stamped_at=_time_text(acl_set.stamped_ms),
        acls=len(acl_set.acls),
        super_users=acl_set.super_users,
        allow_everyone_if_no_acl_found=acl_set.allow_everyone_if_no_acl_found,
    )


class Sorted(msgspec.Struct, frozen=True, kw_only=True):
    """The ACLs of a set by what can be said of them, each in the set's order."""

    used: tuple[UsedAcl, ...]
    unused: tuple[UnusedAcl, ...]
    not_judged: dict[str, tuple[UnusedAcl, ...]]


def sort_acls(
    acl_set: AclSet, usage: Mapping[Acl, AclUsage], window: Window, *, assume_in_force: bool
) -> Sorted:
    """Return every ACL once: used, not used, or not judged since it may be too young."""
    used: list[UsedAcl] = []
    not_used: dict[Age, list[UnusedAcl]] = {age: [] for age in Age}
    for dated in distinct(acl_set):
        acl, added_at = named(dated.acl), _time_text(dated.added_ms)
        use = usage.get(dated.acl)
        # Spoken of by requests that were over before it was added, an ACL has decided nothing.
        if use is not None and (dated.added_ms is None or use.last_ms >= dated.added_ms):
            used.append(_used(acl, added_at, use))
        else:
            age = age_of(dated, window, assume_in_force=assume_in_force)
            not_used[age].append(UnusedAcl(acl=acl, added_at=added_at))
    return Sorted(
        used=tuple(used),
        unused=tuple(not_used[Age.IN_FORCE]),
        not_judged={key: tuple(not_used[age]) for age, key in NOT_IN_FORCE.items()},
    )


def _used(acl: NamedAcl, added_at: str | None, usage: AclUsage) -> UsedAcl:
    return UsedAcl(
        acl=acl,
        added_at=added_at,
        alone=Count(events=usage.events_alone, tuples=usage.tuples_alone),
        with_others=Count(events=usage.events_with_others, tuples=usage.tuples_with_others),
        last_used_at=time_text(usage.last_ms),
        names=usage.names_count or None,
    )


def suggestions_report(
    suggestions: Suggestions, usage: Mapping[Acl, AclUsage], proof: Proof | None
) -> SuggestionsReport:
    return SuggestionsReport(
        removals=_all_named(suggestions.removals),
        narrowings=tuple(
            NarrowingReport(
                acl=named(item.wide),
                names=item.names_count,
                events=usage[item.wide].events,
                narrower=_all_named(item.narrower),
            )
            for item in suggestions.narrowings
        ),
        left_out=tuple(
            LeftOutReport(acl=named(item.acl), reason=item.reason) for item in suggestions.left_out
        ),
        proof=proof,
    )


def named(acl: Acl) -> NamedAcl:
    return NamedAcl(
        principal=acl.principal,
        host=acl.host,
        operation=_name(Operation, acl.operation),
        permission_type=_name(PermissionType, acl.permission_type),
        resource_type=_name(ResourceType, acl.resource_type),
        resource_name=acl.resource_name,
        pattern_type=_name(PatternType, acl.pattern_type),
    )


def _all_named(acls: Iterable[Acl]) -> tuple[NamedAcl, ...]:
    return tuple(map(named, acls))


def _name(codes: type[Code], code: int) -> str:
    member = codes.read(code)
    return member.name if member == code else str(code)


def _time_text(ms: int | None) -> str | None:
    return None if ms is None else time_text(ms)
