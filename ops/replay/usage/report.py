"""The content of ``usage.json``: the recorded use of each ACL, and the suggestions.

**Invariant:** every ACL of the set is in exactly one of ``used``, ``unused`` and ``not_judged``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from authorizerd.acl.model import Acl, Code, Operation, PatternType, PermissionType, ResourceType
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.text import format_time
from authorizerd.replay.usage.suggestions import AclUsage, Suggestions
from authorizerd.replay.usage.window import Age, Window, age_of, distinct

NOT_IN_FORCE: Final = {Age.ADDED_WITHIN: "added_within", Age.UNKNOWN: "age_unknown"}


class NamedAcl(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL in the form of YAML and JSON sources; an unknown code is written as its number."""

    principal: str
    host: str
    operation: str
    permission_type: str
    resource_type: str
    resource_name: str
    pattern_type: str


class WindowReport(msgspec.Struct, frozen=True, kw_only=True):
    """The window and the events in it; times are ISO 8601 in UTC.

    An ACL is judged if it was added before ``begins_at``. An unused ACL was not used from
    ``allowed_first_at`` to ``allowed_last_at``. Outside that time, nothing shows that allowed
    requests were logged at all.
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
    """An ACL and the requests that it decided, alone or with others that decided the same.

    ``names`` counts the resources that a wildcard or a prefix was used for; None for other ACLs.
    """

    acl: NamedAcl
    added_at: str | None
    alone: Count
    with_others: Count
    last_used_at: str
    names: int | None


class UnusedAcl(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL that no recorded request used."""

    acl: NamedAcl
    added_at: str | None


class NarrowingReport(msgspec.Struct, frozen=True, kw_only=True):
    """A wide ACL and the narrower ones that would replace it."""

    acl: NamedAcl
    names: int
    events: int
    narrower: tuple[NamedAcl, ...]


class LeftOutReport(msgspec.Struct, frozen=True, kw_only=True):
    """An ACL that is kept, although its use suggests otherwise, and the reason."""

    acl: NamedAcl
    reason: str


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of the suggested set with the old one, on every tuple of the window."""

    digest: str
    acls: int
    tuples: int
    newly_denied: Count
    newly_allowed: Count


class SuggestionsReport(msgspec.Struct, frozen=True, kw_only=True):
    """The suggested changes, and the proof that they change no answer."""

    removals: tuple[NamedAcl, ...]
    narrowings: tuple[NarrowingReport, ...]
    left_out: tuple[LeftOutReport, ...]
    proof: Proof | None


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of ``usage.json``.

    ``not_evaluated`` counts the requests that ACLs cannot decide, by reason; ``by_super_users``
    counts those that need no ACL; ``disagreeing`` counts those that these ACLs decide differently
    from the record. ``not_judged`` has the keys of ``NOT_IN_FORCE`` and contains no used ACL.
    """

    acls: JudgedBy
    window: WindowReport
    assumed_in_force: bool
    not_evaluated: dict[str, Count]
    by_super_users: Count
    disagreeing: Count
    used: tuple[UsedAcl, ...]
    unused: tuple[UnusedAcl, ...]
    not_judged: dict[str, tuple[UnusedAcl, ...]]
    suggestions: SuggestionsReport


def decode_usage(text: str) -> UsageReport:
    """Return the report in ``text``, the content of a ``usage.json``.

    Raises:
        msgspec.DecodeError: the text is not a ``usage.json``.
    """
    return msgspec.json.decode(text, type=UsageReport)


class Sorted(msgspec.Struct, frozen=True, kw_only=True):
    """The ACLs of a set, sorted into three groups; each group keeps the set's order."""

    used: tuple[UsedAcl, ...]
    unused: tuple[UnusedAcl, ...]
    not_judged: dict[str, tuple[UnusedAcl, ...]]


def sort_acls(
    acl_set: AclSet, usage: Mapping[Acl, AclUsage], window: Window, *, assume_in_force: bool
) -> Sorted:
    """Return every ACL once: used, unused, or not judged because it may be too young."""
    used: list[UsedAcl] = []
    not_used: dict[Age, list[UnusedAcl]] = {age: [] for age in Age}
    for dated in distinct(acl_set):
        acl, added_at = named(dated.acl), _format_time(dated.added_ms)
        use = usage.get(dated.acl)
        # An ACL that was added after the last request that it matches has decided nothing.
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
        alone=usage.alone,
        with_others=usage.with_others,
        last_used_at=format_time(usage.last_ms),
        names=usage.names_count or None,
    )


def suggestions_report(
    suggestions: Suggestions, usage: Mapping[Acl, AclUsage], proof: Proof | None
) -> SuggestionsReport:
    """Return ``suggestions`` as the report shows them."""
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
    """Return ``acl`` with names instead of codes."""
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


def _format_time(ms: int | None) -> str | None:
    return None if ms is None else format_time(ms)
