"""Find the recorded tuples that other ACLs decide differently, and write the report of them.

**Invariant:** a tuple changes only if the candidate denies what was allowed, or allows what was
denied. Equal changes give equal bytes, wherever the rows are. This process keeps only the changes
and groups that the report lists.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from heapq import nsmallest
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from authorizerd.replay.judging.asking import unasked_reason
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE, EXIT_NO_EVIDENCE
from authorizerd.replay.plans import WhatIfPlan
from authorizerd.replay.recorded.agreement import Judged, find_judged
from authorizerd.replay.recorded.rows import Rows, by_frequency
from authorizerd.replay.recorded.tuples import Engine, RecordedTuple, Source
from authorizerd.replay.text import encode_json, format_count, format_time, parse_time
from authorizerd.replay.whatif.report import (
    LISTED_MAX,
    NEWLY_ALLOWED,
    NEWLY_DENIED,
    NOTHING_ALLOWED,
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


class NotEvaluated(NamedTuple):
    """The tuples that ACLs cannot decide for one reason."""

    reason: str
    events: int
    tuples: int


class Group(NamedTuple):
    """The changes of one kind that share a name or a pair of names."""

    change: str
    counted_by: str
    name: str
    second_name: str
    events: int
    tuples: int


class _Listed(NamedTuple):
    """The first groups, and the number of other groups."""

    groups: list[Group]
    left_out: int


def run(plan: WhatIfPlan, engine: Engine) -> int:
    """Write ``whatif.json`` and ``changes``, print a summary, and return the exit code."""
    report = write_report(plan, engine)
    return print_summary(plan, report)


def print_summary(plan: WhatIfPlan, report: WhatIf) -> int:
    """Print a summary of the report, and return the exit code.

    It is 3 if anything is newly denied, or the record contradicts the baseline; else 5 if the
    record proves nothing; else 0.
    """
    lack = find_lack(plan, report)
    for line in summary_lines(report, lack):
        print(line, flush=True)
    if report.newly_denied.tuples or report.contradiction:
        return EXIT_DENIED
    return EXIT_DONE if lack is None else EXIT_NO_EVIDENCE


def find_lack(plan: WhatIfPlan, report: WhatIf) -> str | None:
    """Return why the record cannot show that nobody loses access, or None."""
    allowed, last_at = report.allowed_events, report.last_at
    if allowed < plan.allowed_min:
        if not report.events:
            return "no request was recorded"
        if not allowed:
            return NOTHING_ALLOWED
        return f"{format_count(allowed, 'allowed event')}, and --min-allowed {plan.allowed_min:,}"
    newest_after_ms = plan.newest_after_ms
    if newest_after_ms is None or (last_at is not None and parse_time(last_at) >= newest_after_ms):
        return None
    return f"the newest event is of {last_at}, and --newest-within asks for a later one"


def write_report(plan: WhatIfPlan, engine: Engine) -> WhatIf:
    """Write ``changes`` and then ``whatif.json``, and return the report."""
    # The sums come from the written rows, so that the report agrees with the files.
    changes = engine.store(change_finder(plan), Change, "changes")
    report = make_report(plan, engine, changes)
    engine.write_text("whatif.json", encode_json(report))
    return report


def change_finder(plan: WhatIfPlan) -> partial[Iterator[Change]]:
    """Return the function that finds the changes of a plan."""
    baseline = None if plan.baseline is None else AclIndex.of(plan.baseline)
    return partial(find_changes, candidate=AclIndex.of(plan.candidate), baseline=baseline)


def make_report(plan: WhatIfPlan, source: Source, changes: Rows[Change]) -> WhatIf:
    """Return the report of the changes that ``change_finder`` finds in a source."""
    ingested = source.ingested
    newly_denied, newly_allowed = sum_changes(changes)
    as_recorded, not_as_recorded = _compare_with_record(plan, source)
    return WhatIf(
        events=ingested.events,
        allowed_events=ingested.allowed_events,
        tuples=ingested.tuples,
        first_at=ingested.first_at,
        last_at=ingested.last_at,
        not_evaluated=count_unasked(source.tuples()),
        candidate=JudgedBy.of(plan.candidate),
        baseline=None if plan.baseline is None else JudgedBy.of(plan.baseline),
        newly_denied=newly_denied,
        newly_allowed=newly_allowed,
        as_recorded=as_recorded,
        not_as_recorded=not_as_recorded,
    )


def _compare_with_record(plan: WhatIfPlan, source: Source) -> tuple[Count | None, Count | None]:
    """Return what the baseline decides as recorded, and what differently, if there is one."""
    if plan.baseline is None:
        return None, None
    return count_judged(source.tuples(), AclIndex.of(plan.baseline))


def count_judged(tuples: Rows[RecordedTuple], index: AclIndex) -> tuple[Count, Count]:
    """Return what ACLs decide as recorded, and what differently, without super users' requests."""
    sums = {
        each.agrees: Count(events=each.events, tuples=each.tuples)
        for each in tuples.sum(partial(find_judged, index=index), Judged)
    }
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


def find_unasked(tuples: Iterable[RecordedTuple]) -> Iterator[NotEvaluated]:
    """Yield the tuples that ACLs cannot decide."""
    for one in tuples:
        reason = unasked_reason(one)
        if reason is not None:
            yield NotEvaluated(reason.value, one.events, 1)


def count_unasked(tuples: Rows[RecordedTuple]) -> dict[str, Count]:
    """Return the number of tuples that ACLs cannot decide, by reason, sorted by reason."""
    found = tuples.sum(find_unasked, NotEvaluated)
    return {each.reason: Count(events=each.events, tuples=each.tuples) for each in found}


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


def _list(groups: Iterable[Group]) -> _Listed:
    count = Counter[None]()

    def counted() -> Iterator[Group]:
        for group in groups:
            count[None] += 1
            yield group

    listed = nsmallest(LISTED_MAX, counted(), key=lambda one: (-one.events, -one.tuples, *one[2:4]))
    return _Listed(listed, count[None] - len(listed))


def _make_changed(listed: dict[str, _Listed], details: list[Change]) -> Changed:
    (total,), _ = listed[_ALL]
    principals, resources = listed["principal"], listed["resource"]
    return Changed(
        events=total.events,
        tuples=total.tuples,
        by_principal=[
            PrincipalCount(group.name, group.events, group.tuples) for group in principals.groups
        ],
        by_principal_left_out=principals.left_out,
        by_resource=[ResourceCount(*group[2:]) for group in resources.groups],
        by_resource_left_out=resources.left_out,
        by_operation=[
            OperationCount(group.name, group.events, group.tuples)
            for group in listed["operation"].groups
        ],
        details=list(map(make_detail, details)),
        details_left_out=total.tuples - len(details),
    )


def make_detail(change: Change) -> Detail:
    """Return a change as the report lists it."""
    fields = change._asdict()
    del fields["change"]
    first_at, last_at = (format_time(fields.pop(name)) for name in ("first_ms", "last_ms"))
    return Detail(**fields, first_at=first_at, last_at=last_at)
