"""Sum up the differences between two runs in one sentence each.

**Invariant:** a finding is "good" only if two results, or all of their inputs, are equal. Entries
newly denied or allowed in only one run are certain only if the lists of both are complete.
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
from authorizerd.replay.report.wording import cut, format_change, format_significant
from authorizerd.replay.text import format_count

_MAY_BE_IN_BOTH: Final = (
    "The lists contain only the most frequent changes, so some of these may be in both runs."
)
_NOISE: Final = "Even identical runs differ. Repeat both before you draw conclusions."


def assess_difference(difference: Difference) -> Iterator[Finding]:
    """Yield all findings, first whether the inputs were the same."""
    yield _of_inputs(difference)
    runs = cut(difference.was.name), cut(difference.now.name)
    for kind, comparison in difference.results.items():
        if comparison.is_equal:
            yield Finding(kind, "good", "No difference: the results are equal")
            continue
        changes = comparison.changes
        if DENIED in changes:
            yield from _of_decisions(changes[DENIED], "newly denied", "bad", runs)
        if ALLOWED in changes:
            yield from _of_decisions(changes[ALLOWED], "newly allowed", "doubtful", runs)
        yield from _of_acls(changes)
        yield from _of_load(comparison)
        differing = sum(row.differs for row in comparison.figures)
        text = f"{differing:,} of {format_count(len(comparison.figures), 'figure')} differ"
        yield Finding(kind, "plain", text)
    for run in (difference.was, difference.now):
        for kind in (kind for kind in run.files if kind not in difference.results):
            text = f"Only {cut(run.name)} has this result, so it is not compared"
            yield Finding(kind, "doubtful", text)


def _of_inputs(difference: Difference) -> Finding:
    names = {
        kind: ", ".join(str(row.item[0]) for row in comparison.inputs if row.differs)
        for kind, comparison in difference.results.items()
    }
    notes = tuple(f"{kind}: {cut(listed)}" for kind, listed in names.items() if listed)
    if notes:
        return Finding("inputs", "plain", "The inputs differ", notes)
    return Finding("inputs", "good", "The inputs are the same")


def _of_decisions(
    changes: Changes, what: str, state: State, runs: tuple[str, str]
) -> Iterator[Finding]:
    notes: tuple[str, ...] = ()
    if not changes.is_certain:
        what, notes, state = f"listed as {what}", (_MAY_BE_IN_BOTH,), "doubtful"
    came = sum(row.was is None for row in changes.rows)
    counts: tuple[tuple[int, str, State], ...] = (
        (came, runs[1], state),
        (len(changes.rows) - came, runs[0], "plain"),
    )
    for count, run, each in counts:
        if count:
            text = f"{format_count(count, 'distinct request')} {what} only in {run}"
            yield Finding("whatif", each, text, notes)


def _of_acls(changes: dict[str, Changes]) -> Iterator[Finding]:
    if USE in changes:
        moves = Counter(
            f"{row.was or 'absent'} to {row.now or 'absent'}" for row in changes[USE].rows
        )
        counts = (f"{number:,} from {move}" for move, number in moves.items())
        yield Finding("usage", "plain", f"ACLs: {', '.join(counts)}")
    if SUGGESTIONS in changes:
        rows = changes[SUGGESTIONS].rows
        came, went = sum(row.was is None for row in rows), sum(row.now is None for row in rows)
        text = f"Suggestions: {came:,} new, {went:,} gone, {len(rows) - came - went:,} changed"
        yield Finding("usage", "plain", text)


def _of_load(comparison: Comparison) -> Iterator[Finding]:
    if THRESHOLDS in comparison.changes:
        for row in comparison.changes[THRESHOLDS].rows:
            text = f"Threshold {row.item[0]}: {row.was or 'absent'}, then {row.now or 'absent'}"
            yield Finding("load", "bad" if row.now == "failed" else "plain", cut(text))
    for row in comparison.figures:
        match row.item[0], row.was, row.now:
            case "valid", True, True:
                pass
            case "valid", _, _:
                text = "A run is invalid or sent nothing: its figures say nothing about the target"
                yield Finding("load", "doubtful", text)
            case "latency: corrected: p99 ms", float(was), float(now):
                before, after = format_significant(was, "ms"), format_significant(now, "ms")
                text = f"Corrected p99: {before}, then {after} ({format_change(was, now)})"
                yield Finding("load", "plain", text, (_NOISE,))
