"""What ``whatif.json`` says, and the few lines of it that a console shows.

**Invariant:** equal events and equal ACLs give equal bytes: the report tells no time of its own
making, and what is counted stands in one order, the most events first, then the most tuples, then
by names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from authorizerd.replay.acl_set import AclSet

LISTED_MAX: Final = 1_000
SHOWN_MAX: Final = 10
RECORDED: Final = "recorded"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Count(msgspec.Struct, frozen=True, kw_only=True):
    events: int
    tuples: int


class PrincipalCount(msgspec.Struct, frozen=True, kw_only=True):
    principal: str
    events: int
    tuples: int


class ResourceCount(msgspec.Struct, frozen=True, kw_only=True):
    resource_type: str
    resource_name: str
    events: int
    tuples: int


class OperationCount(msgspec.Struct, frozen=True, kw_only=True):
    operation: str
    events: int
    tuples: int


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """One changed tuple; a host of None is unknown. Times are those of the events that change."""

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    events: int
    first_at: str | None
    last_at: str | None
    baseline_rule: str | None
    candidate_rule: str


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """All that is newly denied, or newly allowed; of each list the first ``LISTED_MAX``."""

    events: int = 0
    tuples: int = 0
    by_principal: Sequence[PrincipalCount] = ()
    by_principal_left_out: int = 0
    by_resource: Sequence[ResourceCount] = ()
    by_resource_left_out: int = 0
    by_operation: Sequence[OperationCount] = ()
    details: Sequence[Detail] = ()
    details_left_out: int = 0


NOTHING_CHANGED: Final = Changed()


class JudgedBy(msgspec.Struct, frozen=True, kw_only=True):
    """Which ACLs, under which settings."""

    source: str
    digest: str
    offset: int | None
    stamped_at: str | None
    acls: int
    super_users: tuple[str, ...]
    allow_everyone_if_no_acl_found: bool

    @classmethod
    def of(cls, acl_set: AclSet) -> JudgedBy:
        stamped_ms = acl_set.stamped_ms
        return cls(
            source=acl_set.source,
            digest=acl_set.digest,
            offset=acl_set.offset,
            stamped_at=None if stamped_ms is None else _time_text(stamped_ms),
            acls=len(acl_set.acls),
            super_users=acl_set.super_users,
            allow_everyone_if_no_acl_found=acl_set.allow_everyone_if_no_acl_found,
        )

    def decides_as(self, other: JudgedBy) -> bool:
        """Return True if both are the same ACLs under the same settings."""
        return (
            self.digest == other.digest
            and set(self.super_users) == set(other.super_users)
            and self.allow_everyone_if_no_acl_found == other.allow_everyone_if_no_acl_found
        )


class RecordedBaseline(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions that were recorded."""

    source: str = RECORDED


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """``events`` to ``last_at`` are those of all that was ingested."""

    events: int
    allowed_events: int
    tuples: int
    first_at: str | None
    last_at: str | None
    not_evaluated: dict[str, Count]
    candidate: JudgedBy
    baseline: JudgedBy | RecordedBaseline
    newly_denied: Changed
    newly_allowed: Changed


def encode_report(report: WhatIf) -> str:
    """Return the text of ``whatif.json``."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def summary_lines(report: WhatIf) -> Iterator[str]:
    """Yield the lines of the console: who loses what, who gains, what could not be asked."""
    baseline = report.baseline
    yield (
        f"{_counted(report.events, report.tuples)}, from {report.first_at} to {report.last_at}, "
        f"judged by {report.candidate.acls} ACLs ({shown(report.candidate.source)})"
    )
    if isinstance(baseline, JudgedBy):
        yield f"compared with {baseline.acls} ACLs ({shown(baseline.source)})"
        if report.candidate.decides_as(baseline):
            yield "identical ACLs: nothing changes"
    else:
        yield "compared with the recorded decisions"
        if report.events and not report.allowed_events:
            yield (
                "no allowed request was recorded (Kafka logs them at DEBUG, and INFO is the "
                "default): this cannot say that nobody would be locked out"
            )
    for reason, count in sorted(report.not_evaluated.items()):
        yield f"not evaluated, {reason}: {_counted(count.events, count.tuples)}"
    yield from _changed_lines("newly denied", report.newly_denied)
    yield from _changed_lines("newly allowed", report.newly_allowed)


def _changed_lines(what: str, changed: Changed) -> Iterator[str]:
    if not changed.tuples:
        yield f"{what}: nothing"
        return
    yield f"{what}: {_counted(changed.events, changed.tuples)}"
    for one in changed.by_principal[:SHOWN_MAX]:
        yield f"  {shown(one.principal)}: {_counted(one.events, one.tuples)}"
    more = len(changed.by_principal) + changed.by_principal_left_out - SHOWN_MAX
    if more > 0:
        yield f"  and {more} other principals"
    yield "  the most frequent:"
    for detail in changed.details[:SHOWN_MAX]:
        host = "an unknown host" if detail.host is None else shown(detail.host)
        yield (
            f"  {shown(detail.principal)} {detail.operation} {detail.resource_type} "
            f"{shown(detail.resource_name)} from {host}, {detail.events} events: "
            f"{shown(detail.candidate_rule)} (before: {shown(detail.baseline_rule or 'unknown')})"
        )


def _counted(events: int, tuples: int) -> str:
    return f"{events} events of {tuples} tuples"


def shown(text: str) -> str:
    """Return ``text`` as it may stand on a terminal, which recorded names must not command."""
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def _time_text(time_ms: int) -> str:
    try:
        time = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
