"""What other ACLs would change, on the page: by whom, by what, and every change that was listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from authorizerd.replay.report.bars import BARS_MAX, Bar, bars
from authorizerd.replay.report.heat_map import heat_map
from authorizerd.replay.report.markup import NOTHING, Markup, element, joined
from authorizerd.replay.report.tables import Column, Listing, facts, listing, plain_table
from authorizerd.replay.report.wording import (
    NONE,
    code,
    count,
    counted,
    name,
    rule,
    settings_text,
    time_text,
)
from authorizerd.replay.whatif.report import Changed, Detail, JudgedBy, RecordedBaseline, WhatIf

_DETAIL_COLUMNS: Final = (
    Column("Principal"),
    Column("Host", "short"),
    Column("Operation", "short"),
    Column("Type", "short"),
    Column("Resource"),
    Column("Events", "number"),
    Column("First (UTC)", "short"),
    Column("Last (UTC)", "short"),
    Column("After", "long"),
    Column("Before", "long"),
)
_ELSEWHERE: Final = "whatif.json, and changes/*.parquet beside it for all of them"


def whatif_section(whatif: WhatIf) -> Markup:
    return element(
        "section",
        element("h2", "What if: other ACLs"),
        facts(
            "What was evaluated",
            [
                ("Events", count(whatif.events)),
                ("Distinct requests", count(whatif.tuples)),
                ("First (UTC)", time_text(whatif.first_at)),
                ("Last (UTC)", time_text(whatif.last_at)),
            ],
        ),
        _compared(whatif.candidate, whatif.baseline),
        _not_evaluated(whatif),
        _changed("Newly denied", whatif.newly_denied),
        _changed("Newly allowed", whatif.newly_allowed),
        id="whatif",
    )


def _compared(candidate: JudgedBy, baseline: JudgedBy | RecordedBaseline) -> Markup:
    columns = [Column(""), Column("After: candidate"), Column("Before: baseline")]
    after = _described(candidate)
    if isinstance(baseline, JudgedBy):
        before = _described(baseline)
    else:
        recorded: str = name(f"{baseline.source} decisions")
        before = {title: recorded if title == "Source" else NONE for title in after}
    rows = ([title, said, before[title]] for title, said in after.items())
    return plain_table("The ACLs that are compared", columns, rows)


def _described(judged: JudgedBy) -> dict[str, str]:
    return {
        "Source": name(judged.source),
        "Digest": code(judged.digest),
        "Log offset": NONE if judged.offset is None else str(judged.offset),
        "Stamped (UTC)": time_text(judged.stamped_at),
        "ACLs": count(judged.acls),
        **settings_text(judged.super_users, judged.allow_everyone_if_no_acl_found),
    }


def _not_evaluated(whatif: WhatIf) -> Markup:
    columns = [
        Column("Not evaluated, since"),
        Column("Events", "number"),
        Column("Distinct requests", "number"),
    ]
    rows = [
        [name(reason), count(counts.events), count(counts.tuples)]
        for reason, counts in sorted(whatif.not_evaluated.items())
    ]
    return plain_table("What could not be evaluated", columns, rows) if rows else NOTHING


def _changed(title: str, changed: Changed) -> Markup:
    if not changed.tuples:
        return joined([element("h3", title), element("p", "Nothing.")])
    said = f"{counted(changed.events, 'event')} of {counted(changed.tuples, 'distinct request')}."
    return joined(
        [
            element("h3", title),
            element("p", said),
            element("div", *_ranked(title, changed), class_="side-by-side"),
            *_maps(title, changed),
            listing(
                Listing(
                    title=f"{title}: each change",
                    columns=_DETAIL_COLUMNS,
                    rows=map(_detail_row, changed.details),
                    total=len(changed.details) + changed.details_left_out,
                    elsewhere=_ELSEWHERE,
                )
            ),
        ]
    )


def _ranked(title: str, changed: Changed) -> Iterator[Markup]:
    by_principal = [
        (name(each.principal), each.events, each.tuples) for each in changed.by_principal
    ]
    by_resource = [
        (_resource(each.resource_type, each.resource_name), each.events, each.tuples)
        for each in changed.by_resource
    ]
    by_operation = [
        (name(each.operation), each.events, each.tuples) for each in changed.by_operation
    ]
    for noun, ranked, left_out in (
        ("Principal", by_principal, changed.by_principal_left_out),
        ("Resource", by_resource, changed.by_resource_left_out),
        ("Operation", by_operation, 0),
    ):
        more = len(ranked) + left_out - BARS_MAX
        yield bars(
            f"{title} by {noun.lower()}" + (f", and {count(more)} more" if more > 0 else ""),
            noun,
            ["Events", "Distinct"],
            [
                Bar(shown, events, numbers=[count(events), count(tuples)])
                for shown, events, tuples in ranked[:BARS_MAX]
            ],
        )


def _maps(title: str, changed: Changed) -> Iterator[Markup]:
    partial = (
        f"; of the {count(len(changed.details))} most frequent changes"
        if changed.details_left_out
        else ""
    )
    yield heat_map(
        f"{title}: events by principal and resource{partial}",
        _cells(changed.details, lambda each: f"{each.resource_type} {each.resource_name}"),
    )
    if len(changed.by_operation) > 1:
        yield heat_map(
            f"{title}: events by principal and operation{partial}",
            _cells(changed.details, lambda each: each.operation),
        )


def _cells(
    details: Iterable[Detail], column_of: Callable[[Detail], str]
) -> dict[tuple[str, str], int]:
    cells: dict[tuple[str, str], int] = {}
    for each in details:
        place = (each.principal, column_of(each))
        cells[place] = cells.get(place, 0) + each.events
    return cells


def _detail_row(each: Detail) -> list[str]:
    return [
        name(each.principal),
        name(each.host),
        name(each.operation),
        name(each.resource_type),
        name(each.resource_name),
        count(each.events),
        time_text(each.first_at),
        time_text(each.last_at),
        rule(each.candidate_rule),
        rule(each.baseline_rule),
    ]


def _resource(resource_type: str, resource_name: str) -> Markup:
    return joined([name(resource_type), " ", name(resource_name)])
