"""Compare the results of two runs: their inputs, their figures, and their lists.

**Invariant:** every number and text of two results is compared, except those that name or time a
run. An item that only one of two lists has is certain only if both lists are complete. A finding is
"good" only if two results, or all of their inputs, are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import astuple, replace

from authorizerd.replay.errors import ReportError
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.report.findings import Finding, State
from authorizerd.replay.report.results import ResultFile, Results
from authorizerd.replay.report.wording import cut, format_change, format_significant
from authorizerd.replay.text import format_count
from authorizerd.replay.usage.report import UsageReport
from authorizerd.replay.whatif.report import Changed, WhatIf

KINDS: Final = ("whatif", "load", "usage", "ingest")
"""The kinds of result in the order of the page."""
DENIED: Final = "Newly denied in one run only"
ALLOWED: Final = "Newly allowed in one run only"
USE: Final = "ACLs whose use differs"
SUGGESTIONS: Final = "Suggestions that differ"
THRESHOLDS: Final = "Thresholds that differ"

Value: TypeAlias = str | int | float | None
Item: TypeAlias = tuple[str | None, ...]

_REQUEST: Final = ("Principal", "Host", "Operation", "Type", "Resource")
_ACL: Final = ("Principal", "Host", "Operation", "Permission", "Type", "Resource", "Pattern")
_INPUTS: Final = {
    "ingest": {"lines", "first_at", "last_at", "time_zone", "inputs", "logs"},
    "whatif": {
        *("events", "allowed_events", "tuples", "first_at", "last_at"),
        *("judged_allowed_events", "window_begins_at", "logs", "gaps", "candidate", "baseline"),
    },
    "usage": {"acls", "window", "assumed_in_force", "logs"},
    "load": {"target", "surface", "mode", "dry_run", "settings", "plan"},
}
"""The fields that describe a result's inputs; the other fields are its figures."""
_NOT_COMPARED: Final = {
    *("run_id", "started_at", "start_skew_ms", "first_offset", "last_offset"),
    *("buckets", "timeline", "first_mismatches", "thresholds"),
    *("by_principal", "by_resource", "by_operation", "details"),
}
"""The name and the times of a run, and lists that are compared item by item, or drawn."""

_MAY_BE_IN_BOTH: Final = (
    "The lists contain only the most frequent changes, so some of these may be in both runs."
)
_NOISE: Final = "Even identical runs differ. Repeat both before you draw conclusions."


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values of both results; None for a result that lacks it.

    ``item`` is what the value is about: the name of a figure, or the fields of an item of a list.
    """

    item: Item
    was: Value
    now: Value
    rule: str | None = None

    @property
    def differs(self) -> bool:
        return self.was != self.now


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The items that differ between two lists; ``columns`` are the headings of an item.

    Unless ``is_certain``, a list was truncated, and an item that it lacks may have been cut off.
    """

    columns: tuple[str, ...]
    rows: list[Change]
    is_certain: bool = True


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two results of one kind; the keys of ``changes`` are titles of lists that differ."""

    is_equal: bool
    inputs: list[Change]
    figures: list[Change]
    changes: dict[str, Changes]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two runs; ``files`` is keyed by its kinds of result."""

    name: str
    files: dict[str, ResultFile]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """All that differs between two runs; the keys of ``results`` are the kinds that both have."""

    was: Run
    now: Run
    results: dict[str, Comparison]


def compare(was: Results, now: Results, names: tuple[str, str]) -> Difference:
    """Return the comparison of all kinds of result that both runs have.

    Raises:
        ReportError: they have no kind in common.
    """
    runs = [Run(name=n, files=each.files) for n, each in zip(names, (was, now), strict=True)]
    kinds = [kind for kind in KINDS if kind in was.files and kind in now.files]
    if not kinds:
        found = " and ".join(f"{run.name} has {', '.join(run.files)}" for run in runs)
        raise ReportError(f"expected a kind of result that both runs have, but {found}")
    return Difference(
        was=runs[0],
        now=runs[1],
        results={kind: _compare(kind, getattr(was, kind), getattr(now, kind)) for kind in kinds},
    )


def _compare(kind: str, was: Any, now: Any) -> Comparison:  # noqa: ANN401 - two results of one kind
    before, after = (dict(_flatten(msgspec.to_builtins(each))) for each in (was, now))
    rows: dict[bool, list[Change]] = {True: [], False: []}
    for path in after | before:
        name = ": ".join(path).replace("_", " ")
        change = Change(item=(name,), was=before.get(path), now=after.get(path))
        if not change.was is change.now is None:
            rows[path[0] in _INPUTS[kind]].append(change)
    changes = {title: each for title, each in _compare_lists(was, now) if each.rows}
    return Comparison(is_equal=was == now, inputs=rows[True], figures=rows[False], changes=changes)


def _flatten(
    value: Any,  # noqa: ANN401 - any part of a JSON document
    path: tuple[str, ...] = (),
) -> Iterator[tuple[tuple[str, ...], Value]]:
    """Yield the path and the value of each number and text; of a list, the number of items."""
    match value:
        case dict():
            for key, item in value.items():
                if key not in _NOT_COMPARED:
                    yield from _flatten(item, (*path, key))
        case [str(), *_] | (str(), *_):
            yield path, ", ".join(map(str, value))
        case list() | tuple():
            yield path, len(value)
        case _:
            yield path, value


def _compare_lists(was: object, now: object) -> Iterator[tuple[str, Changes]]:
    match was, now:
        case WhatIf(), WhatIf():
            yield from _compare_decisions("denied", DENIED, was.newly_denied, now.newly_denied)
            yield from _compare_decisions("allowed", ALLOWED, was.newly_allowed, now.newly_allowed)
        case UsageReport(), UsageReport():
            rows = _compare_items(*map(_list_uses, (was, now)))
            # ACLs that are no longer used come first.
            rows.sort(key=lambda row: row.was != "used")
            yield USE, Changes(columns=_ACL, rows=rows)
            rows = _compare_items(*map(_list_suggestions, (was, now)))
            yield SUGGESTIONS, Changes(columns=_ACL, rows=rows)
        case LoadReport(), LoadReport():
            verdicts: list[dict[Item, Value]] = [
                {(each.threshold,): "held" if each.passed else "failed" for each in load.thresholds}
                for load in (was, now)
            ]
            yield THRESHOLDS, Changes(columns=("Threshold",), rows=_compare_items(*verdicts))


def _compare_decisions(
    which: str, title: str, was: Changed, now: Changed
) -> Iterator[tuple[str, Changes]]:
    details = [{astuple(each)[:5]: each for each in side.details} for side in (was, now)]
    events = ({item: each.events for item, each in side.items()} for side in details)
    both: dict[bool, list[Change]] = {False: [], True: []}
    for row in _compare_items(*events):
        rule = (details[1].get(row.item) or details[0][row.item]).candidate_rule
        both[None not in (row.was, row.now)].append(replace(row, rule=rule))
    is_certain = not (was.details_left_out or now.details_left_out)
    yield title, Changes(columns=_REQUEST, rows=both[False], is_certain=is_certain)
    title = f"Newly {which} in both, for other numbers of events"
    yield title, Changes(columns=_REQUEST, rows=both[True])


def _list_uses(usage: UsageReport) -> dict[Item, Value]:
    young = (acl for acls in usage.not_judged.values() for acl in acls)
    uses: dict[Item, Value] = {astuple(each.acl): "used" for each in usage.used}
    uses |= {astuple(each.acl): "unused" for each in usage.unused}
    return uses | {astuple(each.acl): "not judged" for each in young}


def _list_suggestions(usage: UsageReport) -> dict[Item, Value]:
    listed: dict[Item, Value] = {astuple(acl): "remove" for acl in usage.suggestions.removals}
    for narrowing in usage.suggestions.narrowings:
        names = (f"{acl.pattern_type.lower()} {acl.resource_name}" for acl in narrowing.narrower)
        listed[astuple(narrowing.acl)] = f"narrow to {', '.join(names)}"
    kept = usage.suggestions.left_out
    return listed | {astuple(each.acl): f"keep: {each.reason}" for each in kept}


def _compare_items(was: Mapping[Item, Value], now: Mapping[Item, Value]) -> list[Change]:
    """Return the items with different values: those in ``now`` in its order, then the others."""
    rows = (Change(item=item, was=was.get(item), now=now.get(item)) for item in {**now, **was})
    return [row for row in rows if row.differs]


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
