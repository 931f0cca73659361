"""Find the recorded tuples that other ACLs decide differently, and write the report of them.

**Invariant:** a tuple changes only if the candidate denies what was allowed, or allows what was
denied. Equal changes give equal bytes, wherever the rows are. This process keeps only the changes
and groups that the report lists.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from heapq import nsmallest
from itertools import count, groupby
from operator import itemgetter
from typing import Final, NamedTuple

from msgspec.structs import replace

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.ingest.logs import find_live
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.judging.asking import unasked_reason
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE, EXIT_NO_EVIDENCE
from authorizerd.replay.plans import WhatIfPlan
from authorizerd.replay.recorded.agreement import Judged, find_judged
from authorizerd.replay.recorded.rows import Rows, SelectiveFind, by_frequency
from authorizerd.replay.recorded.selecting import select_changed, select_excluded
from authorizerd.replay.recorded.tuples import (
    Engine,
    RecordedTuple,
    Source,
    find_begin,
    find_gaps,
)
from authorizerd.replay.text import encode_json, format_time, parse_time
from authorizerd.replay.whatif.report import (
    LISTED_MAX,
    NEWLY_ALLOWED,
    NEWLY_DENIED,
    NOTHING_CHANGED,
    Changed,
    Detail,
    OperationCount,
    PrincipalCount,
    ResourceCount,
    WhatIf,
    summary_lines,
)

_ALL: Final = "all"


class Change(NamedTuple):
    """A tuple that is decided differently, and the figures of the events that change.

    These are all of its events if two sets were compared, otherwise those whose recorded answer
    differs.
    """

    change: str
    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    baseline_rule: str | None
    candidate_rule: str
    events: int
    first_ms: int
    last_ms: int


class Excluded(NamedTuple):
    """The events with one answer that ACLs do not decide: for a reason, or of super users."""

    reason: str | None
    allowed: bool
    events: int
    tuples: int


class Total(NamedTuple):
    """All events with one answer; a tuple counts where it has events, first where it is allowed."""

    allowed: bool
    events: int
    tuples: int
    first_ms: int
    last_ms: int


class Group(NamedTuple):
    """The changes of one kind that share a name or a pair of names."""

    change: str
    counted_by: str
    name: str
    second_name: str
    events: int
    tuples: int


def run(plan: WhatIfPlan, engine: Engine) -> int:
    """Write ``whatif.json`` and ``changes``, print a summary, and return the exit code."""
    report = write_report(plan, engine)
    return print_summary(plan, report)


def print_summary(plan: WhatIfPlan, report: WhatIf) -> int:
    """Print a summary of the report, and return the exit code.

    It is 3 if anything is newly denied, or the record contradicts the baseline; else 5 if the
    record proves nothing; else 0.
    """
    lack = report.find_lack(plan.allowed_min, plan.newest_after_ms)
    for line in summary_lines(report, lack):
        print(line, flush=True)
    if report.newly_denied.tuples or report.contradiction:
        return EXIT_DENIED
    return EXIT_DONE if lack is None else EXIT_NO_EVIDENCE


def write_report(plan: WhatIfPlan, engine: Engine) -> WhatIf:
    """Write ``changes`` and then ``whatif.json``, and return the report."""
    tuples = read_window(plan, engine)
    # The sums come from the written rows, so that the report agrees with the files.
    changes = engine.store(tuples, change_finder(plan), Change, "changes")
    report = make_report(plan, engine, tuples, changes)
    engine.write_text("whatif.json", encode_json(report))
    return report


def change_finder(plan: WhatIfPlan) -> SelectiveFind[RecordedTuple, Change]:
    """Return the function that finds the changes of a plan."""
    candidate = AclIndex.of(plan.candidate)
    baseline = None if plan.baseline is None else AclIndex.of(plan.baseline)
    return SelectiveFind(
        partial(find_changes, candidate=candidate, baseline=baseline),
        partial(select_changed, candidate=candidate, baseline=baseline),
    )


def read_window(plan: WhatIfPlan, source: Source) -> Rows[RecordedTuple]:
    """Return the tuples of the plan's window."""
    first_at, begins_ms = source.ingested.first_at, _find_begin(plan, source)
    is_all = begins_ms is None or first_at is None or begins_ms <= parse_time(first_at)
    return source.tuples(None if is_all else begins_ms)


def _find_begin(plan: WhatIfPlan, source: Source) -> int | None:
    return find_begin(source.ingested, plan.lookback_days, plan.since_ms)


def make_report(
    plan: WhatIfPlan, source: Source, tuples: Rows[RecordedTuple], changes: Rows[Change]
) -> WhatIf:
    """Return the report of the changes that ``change_finder`` finds in the window's tuples."""
    ingested, begins_ms = source.ingested, _find_begin(plan, source)
    if begins_ms is not None:
        ingested = _sum_window(ingested, tuples)
    newly_denied, newly_allowed = sum_changes(changes)
    as_recorded, not_as_recorded = _compare_with_record(plan.baseline, tuples)
    excluded, not_evaluated = count_excluded(tuples, plan.candidate.settings)
    return WhatIf(
        events=ingested.events,
        allowed_events=ingested.allowed_events,
        judged_allowed_events=ingested.allowed_events - excluded,
        tuples=ingested.tuples,
        first_at=ingested.first_at,
        last_at=ingested.last_at,
        window_begins_at=None if begins_ms is None else format_time(begins_ms),
        logs=find_live(source.ingested),
        gaps=tuple(find_gaps(source)),
        not_evaluated=not_evaluated,
        candidate=JudgedBy.of(plan.candidate),
        baseline=None if plan.baseline is None else JudgedBy.of(plan.baseline),
        newly_denied=newly_denied,
        newly_allowed=newly_allowed,
        as_recorded=as_recorded,
        not_as_recorded=not_as_recorded,
    )


def _sum_window(ingested: Ingested, tuples: Rows[RecordedTuple]) -> Ingested:
    """Return figures with the events of some tuples only."""
    totals = list(tuples.sum(find_totals, Total))
    events = sum(total.events for total in totals)
    allowed = sum(total.events for total in totals if total.allowed)
    return replace(
        ingested,
        lines=ingested.lines - ingested.events + events,
        events=events,
        allowed_events=allowed,
        denied_events=events - allowed,
        tuples=sum(total.tuples for total in totals),
        first_at=format_time(min(total.first_ms for total in totals)) if totals else None,
        last_at=format_time(max(total.last_ms for total in totals)) if totals else None,
    )


def find_totals(tuples: Iterable[RecordedTuple]) -> Iterator[Total]:
    """Yield the figures of the events of each tuple by their answer."""
    for one in tuples:
        for is_allowed, figures in ((True, one.allowed), (False, one.denied)):
            if figures is not None:
                tuples_here = int(is_allowed or not one.allowed_events)
                yield Total(is_allowed, figures.events, tuples_here, *figures[1:3])


def _compare_with_record(
    baseline: AclSet | None, tuples: Rows[RecordedTuple]
) -> tuple[Count | None, Count | None]:
    """Return what the baseline decides as recorded, and what differently, if there is one.

    Requests of super users do not count.
    """
    if baseline is None:
        return None, None
    judged = tuples.sum(partial(find_judged, index=AclIndex.of(baseline)), Judged)
    sums = {each.agrees: Count(events=each.events, tuples=each.tuples) for each in judged}
    return sums.get(True, Count()), sums.get(False, Count())


def find_changes(
    tuples: Iterable[RecordedTuple], candidate: AclIndex, baseline: AclIndex | None
) -> Iterator[Change]:
    """Yield the tuples that the candidate decides differently from the baseline or the record.

    Without a baseline, the figures and ``baseline_rule`` are those of the events whose recorded
    decision changes. With a baseline, the figures are those of the whole tuple. If several Kafka
    releases may judge, a request that the record or the baseline allowed is newly denied if any of
    them denies it, and a denied request is newly allowed only if none of them denies it.
    """
    for one in tuples:
        if unasked_reason(one) is not None:
            continue
        answers = candidate.answers(one)
        is_allowed = all(answers)
        release = answers.index(is_allowed)
        if baseline is None:
            figures = one.denied if is_allowed else one.allowed
            if figures is None:
                continue
            rule = figures.rule
        else:
            before = baseline.answers(one)
            if answers == before:
                continue
            differing = [n for n, answer in enumerate(answers) if answer is not before[n]]
            release = next((n for n in differing if before[n]), differing[0])
            is_allowed = answers[release]
            figures, rule = one.all_events, str(baseline.explain(one, release).rule)
        yield Change(
            NEWLY_ALLOWED if is_allowed else NEWLY_DENIED,
            *one[:5],
            rule,
            str(candidate.explain(one, release).rule),
            *figures[:3],
        )


def find_excluded(
    tuples: Iterable[RecordedTuple], super_users: frozenset[str]
) -> Iterator[Excluded]:
    """Yield the events that ACLs cannot decide, and without a reason those of super users."""
    for one in tuples:
        reason = unasked_reason(one)
        if reason is not None or one.principal in super_users:
            yield Excluded(reason, True, one.allowed_events, 1)
            yield Excluded(reason, False, one.denied_events, 0)


def count_excluded(
    tuples: Rows[RecordedTuple], settings: AuthorizerSettings
) -> tuple[int, dict[str, Count]]:
    """Return the allowed events that ACLs do not decide, and what they cannot decide, by reason.

    The reasons are sorted.
    """
    super_users = settings.super_users
    find = SelectiveFind(
        partial(find_excluded, super_users=super_users),
        partial(select_excluded, super_users=super_users),
    )
    allowed, counts = 0, dict[str, Count]()
    for each in tuples.sum(find, Excluded):
        allowed += each.events if each.allowed else 0
        if each.reason is not None:
            so_far = counts.get(each.reason, Count())
            counts[each.reason] = Count(
                events=so_far.events + each.events, tuples=so_far.tuples + each.tuples
            )
    return allowed, counts


def sum_changes(changes: Rows[Change]) -> tuple[Changed, Changed]:
    """Return what is newly denied, and what is newly allowed."""
    details = {
        kind: nsmallest(LISTED_MAX, some, key=by_frequency)
        for kind, some in groupby(changes.sum(find_most_frequent, Change), key=itemgetter(0))
    }
    groups = {
        key: _list(some)
        for key, some in groupby(changes.sum(find_groups, Group), key=itemgetter(0, 1))
    }
    denied, allowed = (
        _make_changed({by: groups[kind, by] for of, by in groups if of == kind}, details[kind])
        if kind in details
        else NOTHING_CHANGED
        for kind in (NEWLY_DENIED, NEWLY_ALLOWED)
    )
    return denied, allowed


def find_groups(changes: Iterable[Change]) -> Iterator[Group]:
    """Yield each change once for every group that counts it."""
    for change in changes:
        yield Group(change.change, _ALL, "", "", change.events, 1)
        yield Group(change.change, "principal", change.principal, "", change.events, 1)
        yield Group(
            change.change, "resource", change.resource_type, change.resource_name, change.events, 1
        )
        yield Group(change.change, "operation", change.operation, "", change.events, 1)


def find_most_frequent(changes: Iterable[Change]) -> Iterator[Change]:
    """Yield the changes of each kind that a report lists."""
    kept: defaultdict[str, list[Change]] = defaultdict(list)
    for change in changes:
        most = kept[change.change]
        most.append(change)
        if len(most) > 10 * LISTED_MAX:
            most[:] = nsmallest(LISTED_MAX, most, key=by_frequency)
    for most in kept.values():
        yield from nsmallest(LISTED_MAX, most, key=by_frequency)


def _list(groups: Iterator[Group]) -> tuple[list[Group], int]:
    """Return the first groups, and the number of other groups."""
    numbers = count()
    listed = nsmallest(
        LISTED_MAX,
        (group for group, _ in zip(groups, numbers, strict=False)),
        key=lambda one: (-one.events, -one.tuples, *one[2:4]),
    )
    return listed, next(numbers) - len(listed)


def _make_changed(listed: dict[str, tuple[list[Group], int]], details: list[Change]) -> Changed:
    ((total,), _), (principals, more_principals) = listed[_ALL], listed["principal"]
    (resources, more_resources), (operations, _) = listed["resource"], listed["operation"]
    return Changed(
        events=total.events,
        tuples=total.tuples,
        by_principal=[PrincipalCount(one.name, *one[4:]) for one in principals],
        by_principal_left_out=more_principals,
        by_resource=[ResourceCount(*one[2:]) for one in resources],
        by_resource_left_out=more_resources,
        by_operation=[OperationCount(one.name, *one[4:]) for one in operations],
        details=list(map(make_detail, details)),
        details_left_out=total.tuples - len(details),
    )


def make_detail(change: Change) -> Detail:
    """Return a change as the report lists it."""
    fields = change._asdict()
    del fields["change"]
    first_at, last_at = (format_time(fields.pop(name)) for name in ("first_ms", "last_ms"))
    return Detail(**fields, first_at=first_at, last_at=last_at)
