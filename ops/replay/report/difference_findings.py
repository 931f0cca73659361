"""Sum up the differences between two runs in one sentence each.

**Invariant:** a finding is "good" only if two results, or all of their inputs, are equal. What is
newly denied or allowed in one run only is certain only if the lists of both are complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from authorizerd.replay.report.differences import (
    ALLOWED,
    DENIED,
    SUGGESTIONS,
    THRESHOLDS,
    USE,
    Changes,
    Comparison,
    Difference,
)
from authorizerd.replay.report.findings import Finding, State
from authorizerd.replay.report.wording import cut, format_change, format_milliseconds
from authorizerd.replay.text import format_count

_MAY_BE_IN_BOTH: Final = (
    "The lists contain only the most frequent changes, so some of these may be in both runs."
)
_NOISE: Final = "Equal runs differ too. Repeat both before you conclude anything from this."
_P99: Final = "latency: corrected: p99 ms"


def assess_difference(difference: Difference) -> tuple[Finding, ...]:
    """Return all findings, first whether the inputs were the same."""
    return tuple(_assess(difference))


def _assess(difference: Difference) -> Iterator[Finding]:
    yield _of_inputs(difference)
    was, now = cut(difference.was.name), cut(difference.now.name)
    for kind, comparison in difference.results.items():
        changes = comparison.changes
        if comparison.is_equal:
            text = "No difference: the results are equal"
            yield Finding(about=kind, state="good", text=text)
            continue
        yield from _of_decisions(changes.get(DENIED), "newly denied", "bad", was, now)
        yield from _of_decisions(changes.get(ALLOWED), "newly allowed", "doubtful", was, now)
        yield from _of_acls(changes)
        yield from _of_load(comparison)
        differing = sum(row.differs for row in comparison.figures)
        text = f"{differing:,} of {format_count(len(comparison.figures), 'figure')} differ"
        yield Finding(about=kind, state="plain", text=text)
    for run in (difference.was, difference.now):
        for kind in run.files:
            if kind not in difference.results:
                text = f"Only {cut(run.name)} has this result, so it is not compared"
                yield Finding(about=kind, state="doubtful", text=text)


def _of_inputs(difference: Difference) -> Finding:
    names = {
        kind: ", ".join(row.name for row in comparison.inputs if row.differs)
        for kind, comparison in difference.results.items()
    }
    notes = tuple(f"{kind}: {cut(listed)}" for kind, listed in names.items() if listed)
    if notes:
        return Finding(about="inputs", state="plain", text="The inputs differ", notes=notes)
    return Finding(about="inputs", state="good", text="The inputs are the same")


def _of_decisions(
    changes: Changes | None, what: str, state: State, was: str, now: str
) -> Iterator[Finding]:
    if changes is None:
        return
    notes = () if changes.is_certain else (_MAY_BE_IN_BOTH,)
    came = sum(row.was is None for row in changes.rows)
    if came:
        text = f"{format_count(came, 'distinct request')} {what} only in {now}"
        yield Finding(about="whatif", state=state, text=text, notes=notes)
    if came < len(changes.rows):
        went = len(changes.rows) - came
        text = f"{format_count(went, 'distinct request')} {what} only in {was}"
        yield Finding(about="whatif", state="plain", text=text, notes=notes)


def _of_acls(changes: dict[str, Changes]) -> Iterator[Finding]:
    if USE in changes:
        moves = Counter((row.was or "absent", row.now or "absent") for row in changes[USE].rows)
        counts = (f"{number:,} from {was} to {now}" for (was, now), number in moves.items())
        yield Finding(about="usage", state="plain", text=f"ACLs: {', '.join(counts)}")
    if SUGGESTIONS in changes:
        rows = changes[SUGGESTIONS].rows
        came, went = sum(row.was is None for row in rows), sum(row.now is None for row in rows)
        text = f"Suggestions: {came:,} new, {went:,} gone, {len(rows) - came - went:,} changed"
        yield Finding(about="usage", state="plain", text=text)


def _of_load(comparison: Comparison) -> Iterator[Finding]:
    if THRESHOLDS in comparison.changes:
        for row in comparison.changes[THRESHOLDS].rows:
            state: State = "bad" if row.now == "failed" else "plain"
            text = f"Threshold {row.item[0]}: {row.was or 'absent'}, then {row.now or 'absent'}"
            yield Finding(about="load", state=state, text=cut(text))
    figures = {row.name: row for row in comparison.figures}
    valid, p99 = figures.get("valid"), figures.get(_P99)
    if valid is not None and not (valid.was and valid.now):
        text = "A run is invalid or sent nothing: its figures say nothing about the target"
        yield Finding(about="load", state="doubtful", text=text)
    if p99 is not None and isinstance(p99.was, float) and isinstance(p99.now, float):
        text = (
            f"Corrected p99: {format_milliseconds(p99.was)}, then {format_milliseconds(p99.now)}"
            f" ({format_change(p99.was, p99.now)})"
        )
        yield Finding(about="load", state="plain", text=text, notes=(_NOISE,))
