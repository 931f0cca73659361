"""Derive the report and the script from the sums of recorded use, wherever the tuples are.

**Invariant:** equal tuples give equal bytes. Every suggestion is compared on every tuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import JudgedBy
from authorizerd.replay.plans import UsagePlan
from authorizerd.replay.recorded.rows import Rows
from authorizerd.replay.recorded.tuples import RecordedTuple, Source
from authorizerd.replay.text import format_time, parse_time
from authorizerd.replay.usage.commands import script
from authorizerd.replay.usage.errors import UsageError
from authorizerd.replay.usage.proving import prove
from authorizerd.replay.usage.report import (
    UsageReport,
    WindowReport,
    sort_acls,
    suggestions_report,
)
from authorizerd.replay.usage.suggestions import Suggestions, keep_resources_closed, suggest
from authorizerd.replay.usage.summary import script_comments
from authorizerd.replay.usage.uses import compare, sum_uses
from authorizerd.replay.usage.window import (
    HOW_TO_LOG_ALLOWED,
    Age,
    Window,
    age_of,
    check_ages,
    distinct,
    window_of,
)


class Total(NamedTuple):
    """The events of a window with one answer, or with any."""

    answer: str
    events: int
    tuples: int
    first_ms: int
    last_ms: int


def evaluate(plan: UsagePlan, source: Source) -> tuple[UsageReport, str]:
    """Return the report, and the script that carries out its suggestions.

    Raises:
        UsageError: the record, or the dates of the ACLs, support no claim, or no suggestion is
            safe.
    """
    window = window_of(source.ingested, plan.lookback_days)
    check_ages(plan.acls, assume_in_force=plan.assume_in_force)
    first_at = source.ingested.first_at
    is_all = first_at is not None and window.begins_ms <= parse_time(first_at)
    tuples = source.tuples(None if is_all else window.begins_ms)
    # Before the costly sums, since it rejects a window that can prove nothing.
    seen = describe_window(window, tuples, plan.lookback_days)
    index = AclIndex.of(plan.acls)
    summed = sum_uses(tuples, index, plan.names_max)
    judged = [
        item.acl
        for item in distinct(plan.acls)
        if age_of(item, window, assume_in_force=plan.assume_in_force) is Age.IN_FORCE
    ]
    first = suggest(judged, summed.usage, names_max=plan.names_max)
    suggestions, proof = prove(
        plan.acls,
        keep_resources_closed(plan.acls, first),
        partial(compare, tuples, index),
        tuples=seen.tuples - sum(count.tuples for count in summed.not_evaluated.values()),
    )
    found = sort_acls(plan.acls, summed.usage, window, assume_in_force=plan.assume_in_force)
    report = UsageReport(
        acls=JudgedBy.of(plan.acls),
        window=seen,
        assumed_in_force=plan.assume_in_force,
        not_evaluated=summed.not_evaluated,
        by_super_users=summed.by_super_users,
        disagreeing=summed.disagreeing,
        used=found.used,
        unused=found.unused,
        not_judged=found.not_judged,
        suggestions=suggestions_report(suggestions, summed.usage, proof),
    )
    return report, _script(report, index, suggestions)


def describe_window(
    window: Window, tuples: Rows[RecordedTuple], lookback_days: float | None
) -> WindowReport:
    """Return the figures of the window.

    Raises:
        UsageError: the window contains no allowed request.
    """
    totals = {each.answer: each for each in tuples.sum(_find_totals, Total)}
    allowed, denied = totals.get("allowed"), totals.get("denied")
    if allowed is None:
        raise UsageError(
            f"no allowed request was recorded since {format_time(window.begins_ms)}, so no ACL can "
            f"be called unused. {HOW_TO_LOG_ALLOWED}"
        )
    return WindowReport(
        begins_at=format_time(window.begins_ms),
        ends_at=format_time(window.ends_ms),
        allowed_first_at=format_time(allowed.first_ms),
        allowed_last_at=format_time(allowed.last_ms),
        lookback_days=lookback_days,
        allowed_events=allowed.events,
        denied_events=0 if denied is None else denied.events,
        tuples=totals["any"].tuples,
    )


def _find_totals(tuples: Iterable[RecordedTuple]) -> Iterator[Total]:
    for one in tuples:
        figures = {"allowed": one.allowed, "denied": one.denied, "any": one.all_events}
        for answer, some in figures.items():
            if some is not None:
                yield Total(answer, some.events, 1, some.first_ms, some.last_ms)


def _script(report: UsageReport, index: AclIndex, suggestions: Suggestions) -> str:
    resulting = suggestions.resulting(index.acls)
    after = set(resulting)
    return script(
        script_comments(report),
        added=[acl for acl in resulting if acl not in index.numbers],
        removed=[acl for acl in index.acls if acl not in after],
    )
