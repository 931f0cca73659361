"""The comparison of two runs, and the findings about it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.load.thresholds import Verdict
from authorizerd.replay.report.difference_findings import assess_difference
from authorizerd.replay.report.differences import (
    ALLOWED,
    DENIED,
    SUGGESTIONS,
    USE,
    Changes,
    Difference,
    compare,
)
from authorizerd.replay.report.errors import ReportError
from authorizerd.replay.report.results import ResultFile, Results
from authorizerd.replay.usage.report import NamedAcl, UnusedAcl, UsageReport
from authorizerd.replay.whatif.report import NOTHING_CHANGED, Changed, WhatIf
from tests.ops.replay.report.examples import changed, ingested, load, usage, whatif

replace = msgspec.structs.replace
FILE = ResultFile(path="x.json", bytes=1, sha256="0")


def results(**decoded: Any) -> Results:  # noqa: ANN401 - one result of each kind
    return Results(files=dict.fromkeys(decoded, FILE), texts={}, **decoded)


def differ(was: Results, now: Results) -> Difference:
    return compare(was, now, ("thursday", "friday"))


def find(was: Results, now: Results) -> list[tuple[str, str, str]]:
    return [(each.about, each.state, each.text) for each in assess_difference(differ(was, now))]


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


def moves(changes: Changes) -> list[tuple[str | None, object, object]]:
    return [(row.item[0], row.was, row.now) for row in changes.rows]


ALL = results(ingest=ingested(), whatif=whatif(), usage=usage(), load=load())


def test_equal_results_have_no_difference() -> None:
    for kind, comparison in differ(ALL, ALL).results.items():
        assert comparison.is_equal, kind
        assert not comparison.changes
        assert not any(row.differs for row in (*comparison.inputs, *comparison.figures))
    inputs, *others = find(ALL, ALL)
    assert inputs == ("inputs", "good", "The inputs are the same")
    assert {text for _, _, text in others} == {"No difference: the results are equal"}
    assert {state for _, state, _ in others} == {"good"}


def test_requests_denied_in_one_run_only_are_listed_with_their_rules() -> None:
    was, now = judge(deny("a", "b")), judge(deny("b", "c"), deny("d"))
    changes = differ(results(whatif=was), results(whatif=now)).results["whatif"].changes
    assert moves(changes[DENIED]) == [("c", None, 12), ("a", 12, None)]
    assert [row.rule for row in changes[DENIED].rows] == ["c", "a"]
    assert moves(changes[ALLOWED]) == [("d", None, 12)]
    assert list(changes) == [DENIED, ALLOWED]
    assert find(results(whatif=was), results(whatif=now))[1:4] == [
        ("whatif", "bad", "1 distinct request newly denied only in friday"),
        ("whatif", "plain", "1 distinct request newly denied only in thursday"),
        ("whatif", "doubtful", "1 distinct request newly allowed only in friday"),
    ]


def test_requests_of_both_runs_are_listed_apart_if_their_events_differ() -> None:
    was, now = judge(deny("a", events=3)), judge(deny("a", events=5))
    changes = differ(results(whatif=was), results(whatif=now)).results["whatif"].changes
    ((title, both),) = changes.items()
    assert (title, moves(both)) == (
        "Newly denied in both, for other numbers of events",
        [("a", 3, 5)],
    )


@pytest.mark.parametrize("cut", ["was", "now"])
def test_cut_list_makes_what_it_lacks_uncertain(cut: str) -> None:
    was = judge(deny("a", left_out=5 if cut == "was" else 0))
    now = judge(deny("b", left_out=5 if cut == "now" else 0))
    difference = differ(results(whatif=was), results(whatif=now))
    assert not difference.results["whatif"].changes[DENIED].is_certain
    _, came, went, *_ = assess_difference(difference)
    assert (came.state, went.state) == ("doubtful", "plain")
    assert all("may be in both runs" in each.notes[0] for each in (came, went))
    assert all(
        "1 distinct request listed as newly denied only in" in each.text for each in (came, went)
    )


def test_use_lists_acls_from_used_to_unused_first() -> None:
    was = use(used="abc", unused="de", remove="e")
    now = use(used="bd", unused="ef", young="c", remove="f")
    changes = differ(results(usage=was), results(usage=now)).results["usage"].changes
    assert moves(changes[USE]) == [
        ("c", "used", "not judged"), ("a", "used", None), ("d", "unused", "used"),
        ("f", None, "unused"),
    ]  # fmt: skip
    assert moves(changes[SUGGESTIONS]) == [("f", None, "remove"), ("e", "remove", None)]
    texts = [text for _, _, text in find(results(usage=was), results(usage=now))]
    assert "1 from unused to used" in texts[1]
    assert texts[2] == "Suggestions: 1 new, 1 gone, 0 changed"


@given(st.text("abcd", max_size=4), st.text("abcd", max_size=4))
def test_each_acl_has_one_change_or_none(before: str, after: str) -> None:
    was, now = (use(used="".join(sorted(set(each)))) for each in (before, after))
    changes = differ(results(usage=was), results(usage=now)).results["usage"].changes
    listed = {row.item[0] for row in changes[USE].rows} if USE in changes else set()
    assert listed == set(before) ^ set(after)


@pytest.mark.parametrize(("kind", "was", "now", "expected"), [
    ("whatif", whatif(), whatif("b"), "candidate: source"),
    ("whatif", whatif(), replace(whatif(), tuples=8), "tuples"),
    ("usage", usage(), replace(usage(), assumed_in_force=True), "assumed in force"),
    ("load", load(), replace(load(), plan=replace(load().plan, hash="x")), "plan: hash"),
    ("ingest", ingested("a"), ingested("b"), "time zone"),
])  # fmt: skip
def test_different_inputs_are_named_first(kind: str, was: Any, now: Any, expected: str) -> None:  # noqa: ANN401 - results of any kind
    first, *_ = assess_difference(differ(results(**{kind: was}), results(**{kind: now})))
    assert (first.about, first.state, first.text) == ("inputs", "plain", "The inputs differ")
    assert expected in first.notes[0]


def test_name_and_time_of_a_run_are_not_compared() -> None:
    now = replace(load(), run_id="other", started_at=None)
    comparison = differ(results(load=load()), results(load=now)).results["load"]
    assert not comparison.is_equal
    assert not any(row.differs for row in (*comparison.inputs, *comparison.figures))


def test_figure_of_one_run_only_is_listed() -> None:
    was, now = load(), replace(load(), errors={"timeout": 2})
    rows = differ(results(load=was), results(load=now)).results["load"].figures
    listed = {row.item[0]: (row.was, row.now) for row in rows if row.differs}
    assert listed == {"errors: error daemon:8183": (1, None), "errors: timeout": (None, 2)}


def measure(p99_ms: float, **fields: Any) -> LoadReport:  # noqa: ANN401 - fields of a load
    run = load()
    assert run.latency is not None
    corrected = replace(run.latency.corrected, p99_ms=p99_ms)
    return replace(run, latency=replace(run.latency, corrected=corrected), **fields)


def test_load_compares_p99_and_thresholds() -> None:
    was = results(load=measure(1.0))
    now = results(load=measure(1.25, thresholds=[Verdict("p99<5ms", 6.0, False)]))
    assert find(was, now)[1:3] == [
        ("load", "bad", "Threshold p99<5ms: held, then failed"),
        ("load", "plain", "Corrected p99: 1.00 ms, then 1.25 ms (+25.0 %)"),
    ]


def test_invalid_load_is_doubtful() -> None:
    found = find(results(load=load()), results(load=measure(1.0, valid=False)))
    assert any(state == "doubtful" and "invalid" in text for _, state, text in found)


def test_result_of_one_run_only_is_named() -> None:
    only = results(ingest=ingested(), usage=usage())
    assert find(results(ingest=ingested()), only)[-1] == (
        "usage",
        "doubtful",
        "Only friday has this result, so it is not compared",
    )


def test_runs_without_a_common_kind_are_rejected() -> None:
    with pytest.raises(ReportError, match="thursday has ingest and friday has usage"):
        differ(results(ingest=ingested()), results(usage=usage()))
