"""The comparison of two runs, and the findings about it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.errors import ReportError
from authorizerd.replay.ingest.report import Ingested
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.load.thresholds import Verdict
from authorizerd.replay.report.differences import (
    ALLOWED,
    DENIED,
    SUGGESTIONS,
    THRESHOLDS,
    USE,
    Comparison,
    Difference,
    assess_difference,
    compare,
)
from authorizerd.replay.report.results import ResultFile, Results
from authorizerd.replay.usage.report import NamedAcl, UnusedAcl, UsageReport
from authorizerd.replay.whatif.report import NOTHING_CHANGED, Changed, WhatIf
from tests.ops.replay.report.examples import changed, ingested, load, usage, whatif

replace = msgspec.structs.replace
FILE = ResultFile(path="x.json", bytes=1, sha256="0")


KINDS: dict[type, str] = {
    Ingested: "ingest",
    WhatIf: "whatif",
    UsageReport: "usage",
    LoadReport: "load",
}


def results(*some: Any) -> Results:  # noqa: ANN401 - results of any kinds
    decoded = {KINDS[type(each)]: each for each in some}
    return Results(files=dict.fromkeys(decoded, FILE), texts={}, **decoded)


def differ(was: Any, now: Any) -> Difference:  # noqa: ANN401 - a result, or several
    sides = [each if isinstance(each, tuple) else (each,) for each in (was, now)]
    return compare(results(*sides[0]), results(*sides[1]), ("thursday", "friday"))


def find(was: Any, now: Any) -> list[tuple[str, str, str]]:  # noqa: ANN401 - a result, or several
    return [(each.about, each.state, each.text) for each in assess_difference(differ(was, now))]


def compare_one(was: Any, now: Any) -> Comparison:  # noqa: ANN401 - two results of one kind
    (comparison,) = differ(was, now).results.values()
    return comparison


def deny(*names: str, events: int = 12, left_out: int = 0) -> Changed:
    details = [replace(changed(name).details[0], events=events) for name in names]
    return Changed(
        events=events * len(names), tuples=len(names) + left_out, details=details,
        details_left_out=left_out,
    )  # fmt: skip


def judge(denied: Changed, allowed: Changed = NOTHING_CHANGED) -> WhatIf:
    return whatif(newly_denied=denied, newly_allowed=allowed)


def acl(name: str) -> NamedAcl:
    return replace(usage(name).used[0].acl, principal=name)


def use(*, used: str = "", unused: str = "", young: str = "", remove: str = "") -> UsageReport:
    """Return a usage of ACLs that one letter each names."""
    some = usage()
    return replace(
        some,
        used=tuple(replace(some.used[0], acl=acl(name)) for name in used),
        unused=tuple(UnusedAcl(acl=acl(name), added_at=None) for name in unused),
        not_judged={"added_within": tuple(UnusedAcl(acl=acl(n), added_at=None) for n in young)},
        suggestions=replace(
            some.suggestions, removals=tuple(map(acl, remove)), narrowings=(), left_out=()
        ),
    )


def measure(p99_ms: float, **fields: Any) -> LoadReport:  # noqa: ANN401 - fields of a load
    run = load()
    assert run.latency is not None
    corrected = replace(run.latency.corrected, p99_ms=p99_ms)
    return replace(run, latency=replace(run.latency, corrected=corrected), **fields)


ALL = (ingested(), whatif(), usage(), load())
LATER = "only in friday"
BOTH = "Newly denied in both, for other numbers of events"


def test_equal_results_have_no_difference() -> None:
    for kind, comparison in differ(ALL, ALL).results.items():
        assert comparison.is_equal, kind
        assert not comparison.changes
        rows = [*comparison.inputs, *comparison.figures]
        assert not any(row.differs for row in rows)
        names = {part for row in rows for part in str(row.item[0]).split(": ")}
        assert not names & {"buckets", "timeline", "details", "first mismatches", "by principal"}
    inputs, *others = find(ALL, ALL)
    assert inputs == ("inputs", "good", "The inputs are the same")
    assert {each[1:] for each in others} == {("good", "No difference: the results are equal")}
    assert len(others) == len(KINDS)


@pytest.mark.parametrize(("was", "now", "lists", "found"), [
    (judge(deny("a", "b")), judge(deny("b", "c"), deny("d")),
     {DENIED: [("c", None, 12), ("a", 12, None)], ALLOWED: [("d", None, 12)]},
     [("whatif", "bad", f"1 distinct request newly denied {LATER}"),
      ("whatif", "plain", "1 distinct request newly denied only in thursday"),
      ("whatif", "doubtful", f"1 distinct request newly allowed {LATER}")]),
    (judge(deny("a", events=3)), judge(deny("a", events=5)), {BOTH: [("a", 3, 5)]}, []),
    # ACLs that were used come first.
    (use(used="abc", unused="de", remove="e"), use(used="bd", unused="ef", young="c", remove="f"),
     {USE: [("c", "used", "not judged"), ("a", "used", None), ("d", "unused", "used"),
            ("f", None, "unused")],
      SUGGESTIONS: [("f", None, "remove"), ("e", "remove", None)]},
     [("usage", "plain", "ACLs: 1 from used to not judged, 1 from used to absent, "
       "1 from unused to used, 1 from absent to unused"),
      ("usage", "plain", "Suggestions: 1 new, 1 gone, 0 changed")]),
    (measure(1.0), measure(1.25, thresholds=[Verdict("p99<5ms", 6.0, False)]),
     {THRESHOLDS: [("p99<5ms", "held", "failed")]},
     [("load", "bad", "Threshold p99<5ms: held, then failed"),
      ("load", "plain", "Corrected p99: 1.00 ms, then 1.25 ms (+25.0 %)")]),
    (measure(1.0), measure(1.0, valid=False), {},
     [("load", "doubtful",
       "A run is invalid or sent nothing: its figures say nothing about the target"),
      ("load", "plain", "Corrected p99: 1.00 ms, then 1.00 ms (none)")]),
])  # fmt: skip
def test_lists_are_compared_item_by_item(
    was: Any,  # noqa: ANN401 - a result of any kind
    now: Any,  # noqa: ANN401 - likewise
    lists: dict[str, list[tuple[object, ...]]],
    found: list[tuple[str, str, str]],
) -> None:
    changes = compare_one(was, now).changes
    assert {
        title: [(row.item[0], row.was, row.now) for row in each.rows]
        for title, each in changes.items()
    } == lists
    assert list(changes) == list(lists)
    assert find(was, now)[1:-1] == found
    if DENIED in lists:
        assert [row.rule for row in changes[DENIED].rows] == ["c", "a"]


@pytest.mark.parametrize(("was_left_out", "now_left_out"), [(5, 0), (0, 5)])
def test_cut_list_makes_what_it_lacks_uncertain(was_left_out: int, now_left_out: int) -> None:
    was, now = judge(deny("a", left_out=was_left_out)), judge(deny("b", left_out=now_left_out))
    difference = differ(was, now)
    assert not difference.results["whatif"].changes[DENIED].is_certain
    _, came, went, *_ = assess_difference(difference)
    assert (came.state, went.state) == ("doubtful", "plain")
    for each in (came, went):
        assert "may be in both runs" in each.notes[0]
        assert "1 distinct request listed as newly denied only in" in each.text


@given(st.text("abcd", max_size=4), st.text("abcd", max_size=4))
def test_each_acl_has_one_change_or_none(before: str, after: str) -> None:
    was, now = (use(used="".join(sorted(set(each)))) for each in (before, after))
    changes = compare_one(was, now).changes
    listed = {row.item[0] for row in changes[USE].rows} if USE in changes else set()
    assert listed == set(before) ^ set(after)


@pytest.mark.parametrize(("was", "now", "expected"), [
    (whatif(), whatif("b"), "candidate: source"),
    (whatif(), replace(whatif(), tuples=8), "tuples"),
    (usage(), replace(usage(), assumed_in_force=True), "assumed in force"),
    (load(), replace(load(), plan=replace(load().plan, hash="x")), "plan: hash"),
    (ingested("a"), ingested("b"), "time zone"),
])  # fmt: skip
def test_different_inputs_are_named_first(was: Any, now: Any, expected: str) -> None:  # noqa: ANN401 - results of any kind
    first, *_ = assess_difference(differ(was, now))
    assert (first.about, first.state, first.text) == ("inputs", "plain", "The inputs differ")
    assert expected in first.notes[0]


def test_figures_are_compared_but_not_the_name_and_time_of_a_run() -> None:
    comparison = compare_one(load(), replace(load(), run_id="other", started_at=None))
    assert not comparison.is_equal
    assert not any(row.differs for row in (*comparison.inputs, *comparison.figures))
    rows = compare_one(load(), replace(load(), errors={"timeout": 2})).figures
    listed = {row.item[0]: (row.was, row.now) for row in rows if row.differs}
    assert listed == {"errors: error daemon:8183": (1, None), "errors: timeout": (None, 2)}


def test_result_of_one_run_only_is_named() -> None:
    text = "Only friday has this result, so it is not compared"
    assert find(ingested(), (ingested(), usage()))[-1] == ("usage", "doubtful", text)
    with pytest.raises(ReportError, match="thursday has ingest and friday has usage"):
        differ(ingested(), usage())
