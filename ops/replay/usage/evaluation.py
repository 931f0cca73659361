"""Derive the report and the script from the sums of recorded use, wherever they were summed up.

**Invariant:** equal sums give equal bytes. Every suggestion is compared on every tuple.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.report import JudgedBy
from authorizerd.replay.plans import UsagePlan
from authorizerd.replay.text import format_time
from authorizerd.replay.usage.commands import script
from authorizerd.replay.usage.errors import UsageError
from authorizerd.replay.usage.matching import distinct
from authorizerd.replay.usage.proving import Comparison, prove
from authorizerd.replay.usage.recorded import Summed
from authorizerd.replay.usage.report import (
    Proof,
    UsageReport,
    WindowReport,
    sort_acls,
    suggestions_report,
)
from authorizerd.replay.usage.suggestions import Suggestions, keep_resources_closed, suggest
from authorizerd.replay.usage.summary import script_comments
from authorizerd.replay.usage.window import HOW_TO_LOG_ALLOWED, Age, Window, age_of


class Judge(Protocol):
    """Evaluates sets of ACLs on the tuples of the window."""

    def sum_uses(self, names_max: int, /) -> Summed:
        """Return the use by all tuples, with at most ``names_max`` names for each wide ACL."""
        ...

    def compare(self, other: AclSet, /) -> Comparison:
        """Return the tuples that ``other`` answers differently, in total and by removed ACL."""
        ...


class WindowSums(NamedTuple):
    """The figures of all tuples of a window.

    Times are those of allowed events, in milliseconds since 1970; None without such events.
    """

    tuples: int
    allowed_events: int
    denied_events: int
    first_ms: int | None
    last_ms: int | None


def describe_window(window: Window, sums: WindowSums, lookback_days: float | None) -> WindowReport:
    """Return the figures of the window.

    Raises:
        UsageError: the window contains no allowed request.
    """
    if sums.first_ms is None or sums.last_ms is None:
        raise UsageError(
            f"no allowed request was recorded since {format_time(window.begins_ms)}, so no ACL can "
            f"be called unused. {HOW_TO_LOG_ALLOWED}"
        )
    return WindowReport(
        begins_at=format_time(window.begins_ms),
        ends_at=format_time(window.ends_ms),
        allowed_first_at=format_time(sums.first_ms),
        allowed_last_at=format_time(sums.last_ms),
        lookback_days=lookback_days,
        allowed_events=sums.allowed_events,
        denied_events=sums.denied_events,
        tuples=sums.tuples,
    )


def evaluate(
    plan: UsagePlan, window: Window, seen: WindowReport, judge: Judge
) -> tuple[UsageReport, str]:
    """Return the report, and the script that carries out its suggestions.

    Raises:
        UsageError: no suggestion is safe.
    """
    summed = judge.sum_uses(plan.names_max)
    suggestions, proof = _suggested(plan, window, seen, summed, judge)
    report = _report(plan, window, seen, summed, suggestions, proof)
    return report, _script(report, plan.acls, suggestions)


def _suggested(
    plan: UsagePlan, window: Window, seen: WindowReport, summed: Summed, judge: Judge
) -> tuple[Suggestions, Proof | None]:
    """Return the suggestions that follow from the use and contradict no recorded request."""
    judged = [
        item.acl
        for item in distinct(plan.acls)
        if age_of(item, window, assume_in_force=plan.assume_in_force) is Age.IN_FORCE
    ]
    suggestions = suggest(judged, summed.usage, names_max=plan.names_max)
    suggestions = keep_resources_closed(plan.acls, suggestions)
    evaluated = seen.tuples - sum(count.tuples for count in summed.not_evaluated.values())
    return prove(plan.acls, suggestions, judge.compare, tuples=evaluated)


def _report(
    plan: UsagePlan,
    window: Window,
    seen: WindowReport,
    summed: Summed,
    suggestions: Suggestions,
    proof: Proof | None,
) -> UsageReport:
    found = sort_acls(plan.acls, summed.usage, window, assume_in_force=plan.assume_in_force)
    return UsageReport(
        acls=JudgedBy.of(plan.acls),
        window=seen,
        assumed_in_force=plan.assume_in_force,
        # Sorted: the report must not depend on the order in which they were counted.
        not_evaluated=dict(sorted(summed.not_evaluated.items())),
        by_super_users=summed.by_super_users,
        disagreeing=summed.disagreeing,
        used=found.used,
        unused=found.unused,
        not_judged=found.not_judged,
        suggestions=suggestions_report(suggestions, summed.usage, proof),
    )


def _script(report: UsageReport, acl_set: AclSet, suggestions: Suggestions) -> str:
    acls = [item.acl for item in distinct(acl_set)]
    resulting = suggestions.resulting(acls)
    before, after = set(acls), set(resulting)
    return script(
        script_comments(report),
        added=[acl for acl in resulting if acl not in before],
        removed=[acl for acl in acls if acl not in after],
    )
