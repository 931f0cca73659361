"""Sum up the results in one sentence each, for the head of the page and for the console.

**Invariant:** a finding is "good" only if everything it is about was checked. If something was not
checked, or the results contradict each other, it is "doubtful".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from authorizerd.acl.known_settings import ALLOW_EVERYONE
from authorizerd.replay.ingest.logs import describe_stopped
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.load.thresholds import Verdict
from authorizerd.replay.report.results import Results
from authorizerd.replay.report.wording import cut, format_time
from authorizerd.replay.text import format_count
from authorizerd.replay.usage.report import HOW_TO_LOG_ALLOWED, UsageReport
from authorizerd.replay.whatif.report import Changed, WhatIf

State = Literal["good", "bad", "doubtful", "plain"]
REASONS_MAX: Final = 10
SYMBOLS: Final[dict[State, str]] = {"good": "✓", "bad": "✗", "doubtful": "?", "plain": "•"}


class Finding(msgspec.Struct, frozen=True):
    """One sentence about a kind of result, and the notes that a reader needs to judge it."""

    about: str
    state: State
    text: str
    notes: tuple[str, ...] = ()


def assess(results: Results) -> Iterator[Finding]:
    """Yield all findings; those that may be reasons against a change come first."""
    if results.whatif is not None:
        yield from _of_whatif(results.whatif)
    if results.load is not None:
        yield from _of_load(results.load)
    if results.usage is not None:
        yield from _of_usage(results.usage)
    if results.ingest is not None:
        yield _of_ingest(results.ingest)
        yield from _contradictions(results.ingest, results)


def _of_whatif(whatif: WhatIf) -> Iterator[Finding]:
    doubts = tuple(_doubts(whatif))
    notes = (*doubts, *whatif.candidate.describe_unknown())
    if whatif.baseline is not None and whatif.candidate.decides_as(whatif.baseline):
        notes = (*notes, "Both sides are the same ACLs under the same settings.")
    if whatif.newly_denied.tuples:
        text = f"{_changes(whatif.newly_denied)} would be newly denied"
        yield Finding("whatif", "bad", text, notes)
    else:
        text = "No recorded request would be newly denied"
        yield Finding("whatif", "doubtful" if doubts else "good", text, notes)
    if whatif.newly_allowed.tuples:
        text = f"{_changes(whatif.newly_allowed)} would be newly allowed"
        yield Finding("whatif", "doubtful", text)


def _doubts(whatif: WhatIf) -> Iterator[str]:
    lack = whatif.find_lack()
    if lack is not None:
        yield f"This proves nothing: {lack}."
    yield from (f"{line}." for line in describe_stopped(whatif.logs))
    if whatif.baseline is not None and ALLOW_EVERYONE in whatif.candidate.known.unknown:
        yield f"If {ALLOW_EVERYONE} is true, the first ACL of a resource may deny more."
    if whatif.contradiction is not None:
        yield f"This proves nothing: {whatif.contradiction}."
    skipped = sum(counts.events for counts in whatif.not_evaluated.values())
    if skipped:
        yield f"{format_count(skipped, 'event')} of {whatif.events:,} could not be evaluated."


def _changes(changed: Changed) -> str:
    principals = len(changed.by_principal) + changed.by_principal_left_out
    return (
        f"{format_count(changed.events, 'recorded request')} ({changed.tuples:,} distinct) of "
        f"{format_count(principals, 'principal')}"
    )


def _of_load(load: LoadReport) -> Iterator[Finding]:
    if load.dry_run:
        text = f"Dry run: {format_count(load.plan.questions, 'question')} planned, none sent"
        yield Finding("load", "plain", text)
        return
    if load.valid:
        answered = format_count(load.answered, "question")
        yield Finding("load", "good", f"Valid run: {answered} answered by {cut(load.target)}")
    else:
        notes = [cut(reason) for reason in load.invalid_reasons[:REASONS_MAX]]
        more = len(load.invalid_reasons) - REASONS_MAX
        notes += [f"and {more:,} more"] if more > 0 else []
        text = "Invalid run: its figures say nothing about the target"
        yield Finding("load", "bad", text, tuple(notes))
    yield from _of_thresholds(load.thresholds)
    if load.mismatches:
        text = f"{format_count(load.mismatches, 'answer')} different from the recorded decision"
        yield Finding("load", "doubtful", text)
    lost = {
        "errors": sum(load.errors.values()),
        "unanswered": load.unanswered,
        "dropped": load.dropped,
        "not sent": load.not_sent,
    }
    if any(lost.values()):
        listed = ", ".join(f"{number:,} {how}" for how, number in lost.items() if number)
        yield Finding("load", "doubtful", f"Questions without a decision: {listed}")


def _of_thresholds(verdicts: list[Verdict]) -> Iterator[Finding]:
    for verdict in verdicts:
        if not verdict.passed:
            text = f"Threshold {cut(verdict.threshold)} failed: measured {verdict.measured_text}"
            yield Finding("load", "bad", text)
    held = [verdict.threshold for verdict in verdicts if verdict.passed]
    if held:
        text = f"{format_count(len(held), 'threshold')} held: {cut(', '.join(held))}"
        yield Finding("load", "good", text)


def _of_usage(usage: UsageReport) -> Iterator[Finding]:
    grants = sum(item.acl.permission_type == "ALLOW" for item in usage.unused)
    not_judged = sum(map(len, usage.not_judged.values()))
    notes = [
        f"Seen: {format_time(usage.window.allowed_first_at)} to "
        f"{format_time(usage.window.allowed_last_at)} (UTC). An ACL that is used more rarely "
        "may appear unused."
    ]
    if not_judged:
        notes.append(f"{format_count(not_judged, 'ACL')} may be too young to be judged.")
    notes += [f"{line}." for line in describe_stopped(usage.logs)]
    notes += usage.acls.describe_unknown()
    if usage.assumed_in_force:
        notes.append("ACLs of unknown age were assumed to be older than the window.")
    text = f"{format_count(grants, 'grant')} of {format_count(usage.acls.acls, 'ACL')} never used"
    yield Finding("usage", "plain", text, tuple(notes))
    if usage.disagreeing.events:
        text = (
            f"{format_count(usage.disagreeing.events, 'event')} recorded with a different "
            "decision: these may not be the ACLs of that time"
        )
        yield Finding("usage", "doubtful", text)
    proof = usage.suggestions.proof
    if proof is not None and (proof.newly_denied.events or proof.newly_allowed.events):
        text = "The suggested ACLs would decide differently from the present ones"
        yield Finding("usage", "bad", text)


def _of_ingest(ingest: Ingested) -> Finding:
    counts = f"{ingest.set_aside:,} of {format_count(ingest.lines, 'line')} set aside"
    if ingest.explanations:
        counts += f", {format_count(ingest.explanations, 'explanation')} left out"
    if not ingest.accepted:
        text = f"Not accepted: {counts}; too few lines were read to draw conclusions"
        return Finding("ingest", "bad", text)
    text = f"{format_count(ingest.events, 'event')} read, {counts}"
    if ingest.damaged:
        note = f"Archives are damaged, so events are missing: {', '.join(ingest.damaged)}."
        return Finding("ingest", "doubtful", text, (note,))
    if ingest.events and not ingest.allowed_events:
        note = f"Only denials were recorded. {HOW_TO_LOG_ALLOWED}."
        return Finding("ingest", "doubtful", text, (note,))
    return Finding("ingest", "good", text)


def _contradictions(ingest: Ingested, results: Results) -> Iterator[Finding]:
    whatif, usage = results.whatif, results.usage
    shared = ("events", "tuples", "first_at", "last_at")
    is_whole = whatif is not None and whatif.window_begins_at is None
    if is_whole and any(getattr(whatif, n) != getattr(ingest, n) for n in shared):
        text = "whatif.json and ingest.json are about different events"
        yield Finding("whatif", "doubtful", text)
    if usage is not None and format_time(usage.window.ends_at) != format_time(ingest.last_at):
        text = "usage.json and ingest.json are about different events"
        yield Finding("usage", "doubtful", text)
