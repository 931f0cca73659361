"""The content of ``whatif.json``, and the summary that the console shows.

**Invariant:** equal events and equal ACLs give equal bytes. The report does not say when it was
made, and its lists have a fixed order: most events first, then most tuples, then by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import astuple

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.ingest.logs import describe_log, describe_stopped, find_stopped
from authorizerd.replay.ingest.report import Ingested, Log
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.recorded.agreement import describe_contradiction
from authorizerd.replay.text import format_count, parse_time

LISTED_MAX: Final = 1_000
SHOWN_MAX: Final = 10
NEWLY_DENIED: Final = "newly_denied"
NEWLY_ALLOWED: Final = "newly_allowed"


class PrincipalCount(msgspec.Struct, frozen=True):
    """The changes for one principal."""

    principal: str
    events: int
    tuples: int


class ResourceCount(msgspec.Struct, frozen=True):
    """The changes for one resource."""

    resource_type: str
    resource_name: str
    events: int
    tuples: int


class OperationCount(msgspec.Struct, frozen=True):
    """The changes for one operation."""

    operation: str
    events: int
    tuples: int


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """One changed tuple, with the times of the events that change; ``host`` is None if unknown."""

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    events: int
    first_at: str
    last_at: str
    baseline_rule: str | None
    candidate_rule: str


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """Everything newly denied, or newly allowed; each list has at most ``LISTED_MAX`` items."""

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


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of ``whatif.json``; the fields up to ``last_at`` describe the events of the window.

    ``baseline`` is None if the candidate was compared with the recorded decisions. Otherwise,
    ``as_recorded`` and ``not_as_recorded`` count what it decides as recorded and differently,
    without requests of super users. ``judged_allowed_events`` counts the allowed events that the
    candidate's ACLs decide, also without those: only these show that somebody keeps access.
    Reports of version 1.0 have none of these. ``window_begins_at`` is None without a window, and
    ``logs`` is as in ``ingest.json``. ``gaps`` says why requests may be missing from the record.
    """

    events: int
    allowed_events: int
    tuples: int
    first_at: str | None
    last_at: str | None
    not_evaluated: dict[str, Count]
    candidate: JudgedBy
    baseline: JudgedBy | None
    newly_denied: Changed
    newly_allowed: Changed
    as_recorded: Count | None = None
    not_as_recorded: Count | None = None
    judged_allowed_events: int | None = None
    window_begins_at: str | None = None
    logs: dict[str, Log] = {}
    gaps: tuple[str, ...] = ()

    @property
    def contradiction(self) -> str | None:
        """Why the record proves nothing about the baseline, or None."""
        if self.as_recorded is None or self.not_as_recorded is None:
            return None
        differing = self.not_as_recorded.events
        return describe_contradiction(differing, differing + self.as_recorded.events)

    def find_lack(
        self, allowed_min: int = 1, newest_after_ms: int | None = None, flags: str = "--"
    ) -> str | None:
        """Return why the record cannot show that nobody loses access, or None; see ``find_lack``.

        It counts all allowed events of a report of version 1.0.
        """
        for gap in self.gaps:
            return escape_unprintable(gap)
        judged, begins_at = self.judged_allowed_events, self.window_begins_at
        allowed = self.allowed_events if judged is None else judged
        return find_lack(self, allowed, begins_at, allowed_min, newest_after_ms, flags)


def find_lack(
    recorded: Ingested | WhatIf,
    allowed: int,
    begins_at: str | None,
    allowed_min: int,
    newest_after_ms: int | None,
    flags: str,
) -> str | None:
    """Return why a record cannot show that nobody loses access, or None.

    Args:
        allowed: the number of allowed events that ACLs decide.
        begins_at: when the window begins, None without one.
        allowed_min: the minimum of ``allowed``.
        newest_after_ms: the minimum time of the newest event, also of each log that the newest
            ingest read, in milliseconds since 1970.
        flags: how the names of the command's flags begin.
    """
    since = "" if begins_at is None else f" since {begins_at}"
    if allowed < allowed_min:
        if not recorded.events:
            return f"no request was recorded{since}"
        if not recorded.allowed_events:
            return (
                f"the record contains no allowed request{since} (Kafka logs them at DEBUG; the "
                "default is INFO), so it cannot show that nobody loses access"
            )
        if not allowed:
            return f"all allowed requests{since} are of super users, or cannot be judged"
        count = format_count(allowed, "allowed event")
        return f"{count}{since}, and {flags}min-allowed {allowed_min:,}"
    if newest_after_ms is None:
        return None
    if recorded.last_at is None or parse_time(recorded.last_at) < newest_after_ms:
        last = f"the newest event is of {recorded.last_at}" if recorded.events else "there is none"
    elif stopped := find_stopped(recorded.logs, newest_after_ms):
        last = describe_log(*next(iter(stopped.items())))
    else:
        return None
    return f"{last}, and {flags}newest-within asks for a later one"


def decode_whatif(text: str) -> WhatIf:
    """Return the content of a ``whatif.json``.

    Raises:
        msgspec.DecodeError: the text is not such a document.
    """
    return msgspec.json.decode(text, type=WhatIf)


def summary_lines(report: WhatIf, lack: str | None = None) -> Iterator[str]:
    """Yield the lines for the console: who loses and gains access, and what was not judged.

    Args:
        lack: why the record cannot show that nobody loses access, if so.
    """
    baseline = report.baseline
    times = f", from {report.first_at} to {report.last_at}" if report.events else ""
    yield (
        f"{_counted(report.events, report.tuples)}{times}, judged by {_described(report.candidate)}"
    )
    if report.window_begins_at is not None:
        yield f"window: since {report.window_begins_at}; earlier events do not count"
    yield from (f"warning: {line}" for line in describe_stopped(report.logs))
    if baseline is not None:
        yield f"compared with {_described(baseline)}"
        if report.candidate.decides_as(baseline):
            yield "identical ACLs: nothing changes"
    else:
        yield "compared with the recorded decisions"
    yield from report.candidate.describe_unknown()
    for reason in (report.contradiction, lack):
        if reason is not None:
            yield f"this proves nothing: {reason}"
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
        yield f"  {escape_unprintable(one.principal)}: {_counted(one.events, one.tuples)}"
    more = len(changed.by_principal) + changed.by_principal_left_out - SHOWN_MAX
    if more > 0:
        yield f"  and {format_count(more, 'other principal')}"
    yield "  most frequent:"
    for detail in changed.details[:SHOWN_MAX]:
        yield (
            f"  {_name_request(detail)}, {format_count(detail.events, 'event')}: "
            + escape_unprintable(
                f"{detail.candidate_rule} (before: {detail.baseline_rule or 'unknown'})"
            )
        )


def find_new_denials(report: WhatIf, known: set[tuple[str, ...]]) -> Iterator[str]:
    """Yield a line for each newly denied principal or resource that is not ``known``, and add it.

    A report lists at most ``LISTED_MAX`` of each, so no others are found.
    """
    denied = report.newly_denied
    for detail in denied.details:
        names = {(detail.principal,), (detail.resource_type, detail.resource_name)}
        if not names <= known:
            known |= names
            rule = escape_unprintable(detail.candidate_rule)
            yield f"newly denied: {_name_request(detail)}: {rule}"
    for *name, events, _ in map(astuple, (*denied.by_principal, *denied.by_resource)):
        if tuple(name) not in known:  # it is in no listed detail
            known.add(tuple(name))
            text = escape_unprintable(" ".join(name))
            yield f"newly denied: {text}, {format_count(events, 'event')}"


def _name_request(detail: Detail) -> str:
    host = "an unknown host" if detail.host is None else detail.host
    return escape_unprintable(
        f"{detail.principal} {detail.operation} {detail.resource_type} {detail.resource_name} "
        f"from {host}"
    )


def _described(judged_by: JudgedBy) -> str:
    return f"{format_count(judged_by.acls, 'ACL')} ({escape_unprintable(judged_by.source)})"


def _counted(events: int, tuples: int) -> str:
    return f"{format_count(events, 'event')} of {format_count(tuples, 'tuple')}"
