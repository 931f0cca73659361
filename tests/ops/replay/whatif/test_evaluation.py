"""The changes that a candidate makes, and the report of them."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple, replace

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import Acl
from authorizerd.acl.releases import Release
from authorizerd.replay.acl_set import AclSet, digest_of
from authorizerd.replay.ingest.report import Log, count_lines
from authorizerd.replay.judging.asking import unasked_reason
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import Count, JudgedBy
from authorizerd.replay.plans import WhatIfPlan
from authorizerd.replay.recorded.rows import LocalRows
from authorizerd.replay.recorded.tuples import Part, RecordedTuple, merge_tuples
from authorizerd.replay.text import encode_json, format_time
from authorizerd.replay.whatif.evaluation import (
    Change,
    count_excluded,
    find_changes,
    make_detail,
    print_summary,
    sum_changes,
    write_report,
)
from authorizerd.replay.whatif.report import (
    NOTHING_CHANGED,
    SHOWN_MAX,
    Changed,
    Detail,
    PrincipalCount,
    WhatIf,
    summary_lines,
)
from tests.ops.replay.acl_sets import acl_set_of, allowed_by_scan
from tests.ops.replay.recorded.strategies import tuples
from tests.support.sizes import size
from tests.support.strategies import acls

READ_A = Acl(2, "t", 3, "User:a", "*", 3, 3)
READ_B = Acl(2, "t", 3, "User:b", "*", 3, 3)
HOUR_MS = 3_600_000


def tuple_of(principal: str, allowed: int, denied: int) -> RecordedTuple:
    """Return a tuple that reads ``t``, with the numbers of its allowed and denied events."""
    key = (principal, "h", "READ", "TOPIC", "t", "LITERAL")
    (one,) = merge_tuples(
        Part(*key, is_allowed, f"Rule{hour}", events, hour * HOUR_MS, (hour + 1) * HOUR_MS)
        for is_allowed, events, hour in ((True, allowed, 0), (False, denied, 12))
        if events
    )
    return one


def changes_of(
    some: list[RecordedTuple], candidate: AclSet, baseline: AclSet | None = None
) -> list[Change]:
    before = None if baseline is None else AclIndex.of(baseline)
    return list(find_changes(some, AclIndex.of(candidate), before))


def test_request_that_any_release_newly_denies_is_newly_denied() -> None:
    """By 4.3, the range matches nothing; by 4.4, it is what allows ``User:a``."""
    (one,) = [tuple_of("User:a", 5, 0)._replace(host="10.9.3.4")]
    by_range = acl_set_of([replace(READ_A, host="10.9.0.0/16")])
    (doubtful,) = changes_of([one], by_range)
    assert (doubtful.change, doubtful.events, doubtful.candidate_rule) == (
        "newly_denied",
        5,
        "DefaultDeny",
    )
    assert changes_of([tuple_of("User:a", 0, 5)._replace(host="10.9.3.4")], by_range) == []
    denying = acl_set_of([READ_A, replace(READ_A, host="10.9.0.0/16", permission_type=2)])
    assert [each.change for each in changes_of([one], denying)] == ["newly_denied"]
    (lost,) = changes_of([one], acl_set_of([READ_B]), by_range)
    assert (lost.change, lost.events, str(lost.baseline_rule)[:11]) == (
        "newly_denied",
        5,
        "MatchingAcl",
    )
    assert changes_of([one], by_range, by_range) == []
    (certain,) = changes_of([one], replace(by_range, releases=(Release.KAFKA_4_3,)))
    assert certain.change == "newly_denied"


@settings(max_examples=size(10, 300))
@given(
    st.lists(acls(unknown_codes=True), max_size=8, unique=True),
    st.none() | st.lists(acls(unknown_codes=True), max_size=8, unique=True),
    st.lists(tuples, max_size=12, unique_by=lambda each: each[:6]),
    st.booleans(),
)
def test_changes_equal_a_scan(
    after: list[Acl], before: list[Acl] | None, some: list[RecordedTuple], allow_everyone: bool
) -> None:
    candidate, baseline = (
        acl_set_of(each or [], super_users=("User:root",), allow_everyone=allow_everyone)
        for each in (after, before)
    )
    expected, rules = [], []
    for one in some:
        if unasked_reason(one) is not None:
            continue
        is_allowed = allowed_by_scan(candidate, one)
        figures = one.denied if is_allowed else one.allowed
        if before is not None:
            is_changed = allowed_by_scan(baseline, one) is not is_allowed
            figures = one.all_events if is_changed else None
        if figures is not None:
            kind = "newly_allowed" if is_allowed else "newly_denied"
            expected.append((kind, *one[:5], *figures[:3]))
            rules.append(figures.rule)
    changes = changes_of(some, candidate, None if before is None else baseline)
    assert [(*one[:6], *one[8:]) for one in changes] == expected
    assert before is not None or [one.baseline_rule for one in changes] == rules


@given(st.lists(tuples, max_size=12, unique_by=lambda each: each[:6]))
def test_tuples_that_no_acl_can_decide_are_counted_by_reason(some: list[RecordedTuple]) -> None:
    expected: dict[str, Count] = {}
    for one in some:
        reason = unasked_reason(one)
        if reason is not None:
            so_far = expected.get(reason.value, Count())
            expected[reason.value] = Count(
                events=so_far.events + one.allowed_events + one.denied_events,
                tuples=so_far.tuples + 1,
            )
    excluded, counted = count_excluded(LocalRows(some), AuthorizerSettings(frozenset(["User:a"])))
    assert counted == expected
    assert list(counted) == sorted(expected)
    others = (one for one in some if unasked_reason(one) or one.principal == "User:a")
    assert excluded == sum(one.allowed_events for one in others)


NAMES = st.sampled_from("abc")
CHANGES = st.lists(
    st.builds(
        Change, st.just("newly_denied"), NAMES, st.none() | NAMES, NAMES, NAMES, NAMES, st.none(),
        st.just("DefaultDeny"), st.integers(1, 3), st.just(1), st.just(2),
    ),
    unique_by=lambda one: one[:6],
)  # fmt: skip


@given(CHANGES)
def test_lists_have_the_most_frequent_and_count_the_others(changes: list[Change]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("authorizerd.replay.whatif.evaluation.LISTED_MAX", 2)
        denied, allowed = sum_changes(LocalRows(changes))
    assert allowed == NOTHING_CHANGED
    assert (denied.events, denied.tuples) == (sum(one.events for one in changes), len(changes))
    for listed, left_out, fields in (
        (denied.by_principal, denied.by_principal_left_out, slice(1, 2)),
        (denied.by_resource, denied.by_resource_left_out, slice(4, 6)),
        (denied.by_operation, None, slice(3, 4)),
    ):
        events, tuples = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
        for one in changes:
            row: tuple[Any, ...] = one
            events[row[fields]] += one.events
            tuples[row[fields]] += 1
        ranked = sorted(events, key=lambda name: (-events[name], -tuples[name], name))
        assert [astuple(one) for one in listed] == [
            (*name, events[name], tuples[name]) for name in ranked[:2]
        ]
        assert left_out in (None, max(0, len(ranked) - 2))
    ranked_rows = sorted(changes, key=lambda one: (-one.events, one[1], one.host or "", one[3:]))
    assert list(denied.details) == list(map(make_detail, ranked_rows[:2]))
    assert denied.details_left_out == max(0, len(changes) - 2)


ACLS = AclSet(
    source="log", acls=(), digest=digest_of([]), offset=7, stamped_ms=1_795_278_666_718,
    super_users=("User:root",), allow_everyone_if_no_acl_found=False,
)  # fmt: skip
REPORT = WhatIf(
    events=9, allowed_events=4, tuples=3, first_at="2026-11-21T01:00:00.000Z",
    last_at="2026-11-21T02:00:00.000Z", not_evaluated={}, candidate=JudgedBy.of(ACLS),
    baseline=None, newly_denied=Changed(), newly_allowed=Changed(),
)  # fmt: skip


def text(report: WhatIf) -> str:
    return "\n".join(summary_lines(report))


def test_summary_says_that_nothing_changes() -> None:
    assert text(REPORT).splitlines() == [
        "9 events of 3 tuples, from 2026-11-21T01:00:00.000Z to 2026-11-21T02:00:00.000Z, "
        "judged by 0 ACLs (log)",
        "compared with the recorded decisions",
        "newly denied: nothing",
        "newly allowed: nothing",
    ]


PLAN = WhatIfPlan(events="events", out="out", candidate=ACLS)


@pytest.mark.parametrize(("differing", "code"), [(0, 0), (1, 0), (2, 3)])
def test_record_that_the_baseline_contradicts_is_exit_code_3(differing: int, code: int) -> None:
    counts = [Count(events=events, tuples=1) for events in (20 - differing, differing)]
    report = replace(REPORT, as_recorded=counts[0], not_as_recorded=counts[1])
    assert print_summary(PLAN, report) == code
    assert ("this proves nothing: the ACLs decide 2 of 20" in text(report)) is (code == 3)


_LAST_MS = 1_795_226_400_000  # of REPORT.last_at
_LOGS = {"a": Log(last_at=REPORT.last_at), "b\n": Log(last_at=REPORT.first_at),
         "c": Log(last_at="2026-11-01T00:00:00.000Z", is_read=False)}  # fmt: skip


@pytest.mark.parametrize(("recorded", "wanted", "code", "reason"), [
    ({}, {}, 0, ""),
    ({"allowed_events": 0}, {}, 5, "no allowed request (Kafka logs them at DEBUG"),
    ({"allowed_events": 0}, {"allowed_min": 0}, 0, ""),
    ({"events": 0, "allowed_events": 0, "last_at": None}, {}, 5, "no request was recorded"),
    ({"events": 0, "allowed_events": 0, "last_at": None}, {"allowed_min": 0, "newest_after_ms": 1},
     5, "there is none, and --newest-within asks for a later one"),
    ({"allowed_events": 0, "window_begins_at": "T"}, {}, 5, "no allowed request since T (Kafka"),
    ({"judged_allowed_events": 0, "window_begins_at": "T"}, {}, 5,
     "all allowed requests since T are of super users, or cannot be judged"),
    ({}, {"allowed_min": 7}, 0, ""),
    ({}, {"allowed_min": 8}, 5, "7 allowed events, and --min-allowed 8"),
    ({"judged_allowed_events": 6}, {"allowed_min": 7}, 5, "6 allowed events, and --min-allowed 7"),
    ({}, {"newest_after_ms": _LAST_MS}, 0, ""),
    ({}, {"newest_after_ms": _LAST_MS + 1}, 5, "--newest-within asks for a later one"),
    ({"logs": _LOGS}, {"newest_after_ms": _LAST_MS}, 5,
     "b\\n: no event since 2026-11-21T01:00:00.000Z, and --newest-within"),
    ({"logs": _LOGS}, {"newest_after_ms": _LAST_MS - HOUR_MS}, 0, ""),
    ({"newly_denied": Changed(events=1, tuples=1), "allowed_events": 0}, {}, 3, "no allowed"),
    ({"gaps": ("a\n: damaged",)}, {"allowed_min": 0}, 5, "this proves nothing: a\\n: damaged"),
])  # fmt: skip
def test_a_record_that_proves_nothing_is_exit_code_5(
    recorded: dict[str, Any], wanted: dict[str, Any], code: int, reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    report = replace(REPORT, **({"allowed_events": 7} | recorded))
    assert print_summary(replace(PLAN, **wanted), report) == code
    said = capsys.readouterr().out
    assert ("this proves nothing" in said) is bool(reason)
    assert reason in said


class MemoryEngine:
    """Events in memory: their principals, answers and times."""

    def __init__(self, events: list[tuple[str, bool, int]]) -> None:
        self._events = events
        allowed, times = [each for _, each, _ in events].count(True), [at for *_, at in events]
        self.ingested = count_lines(
            levels=Counter({"DEBUG": len(events)}), reasons=Counter(), blank_lines=0,
            allowed=allowed, first_ms=min(times, default=None), last_ms=max(times, default=None),
            time_zone="UTC", inputs=(), tuples=len({principal for principal, *_ in events}),
        )  # fmt: skip

    def tuples(self, since_ms: int | None = None, /) -> LocalRows[RecordedTuple]:
        parts = (
            Part(principal, "h", "READ", "TOPIC", "t", "LITERAL", allowed, None, 1, at, at)
            for principal, allowed, at in self._events
            if since_ms is None or at >= since_ms
        )
        return LocalRows(merge_tuples(parts))

    def store(self, tuples: Any, find: Any, *_: object) -> LocalRows[Any]:  # noqa: ANN401
        return LocalRows(list(find(tuples)))

    def write_text(self, name: str, text: str, /) -> None:
        assert (name, text[:1]) == ("whatif.json", "{")


AT = st.integers(0, 5).map(lambda day: day * 24 * HOUR_MS)


@settings(max_examples=size(100, 3000))
@given(
    st.lists(st.tuples(st.sampled_from(["User:a", "User:b", "User:*", "User:root"]),
                       st.booleans(), AT), max_size=5),
    st.lists(st.sampled_from([READ_A, READ_B]), unique=True),
    st.none() | st.lists(st.sampled_from([READ_A, READ_B]), unique=True),
    st.none() | st.floats(0.1, 6), st.none() | AT, st.integers(0, 3), st.none() | AT,
)  # fmt: skip
def test_only_enough_evidence_of_the_window_is_success(
    events: list[tuple[str, bool, int]], after: list[Acl], before: list[Acl] | None,
    lookback_days: float | None, since_ms: int | None, allowed_min: int,
    newest_after_ms: int | None,
) -> None:  # fmt: skip
    """Compare the figures and the exit code with a scan of single events."""
    candidate, baseline = (
        acl_set_of(each or [], super_users=("User:root",)) for each in (after, before)
    )
    plan = WhatIfPlan(
        events="", out="", candidate=candidate, baseline=None if before is None else baseline,
        lookback_days=lookback_days, since_ms=None if lookback_days else since_ms,
        allowed_min=allowed_min, newest_after_ms=newest_after_ms,
    )  # fmt: skip
    engine = MemoryEngine(events)
    report = write_report(plan, engine)
    last_ms = max((at for *_, at in events), default=None)
    begins_ms = plan.since_ms
    if lookback_days and last_ms is not None:
        begins_ms = last_ms - round(lookback_days * 24 * HOUR_MS)
    window = [each for each in events if begins_ms is None or each[2] >= begins_ms]
    assert (report.events, report.tuples) == (len(window), len({each[0] for each in window}))
    assert report.allowed_events == sum(allowed for _, allowed, _ in window)
    assert report.window_begins_at == (None if begins_ms is None else format_time(begins_ms))
    times = [format_time(at) for *_, at in window]
    assert (report.first_at, report.last_at) == (min(times, default=None), max(times, default=None))
    judged = [each for each in window if each[0] in ("User:a", "User:b")]
    keeps, kept = ({acl.principal for acl in acls or ()} for acls in (after, before))
    lost = [
        each
        for each in judged
        if each[0] not in keeps and (each[1] if before is None else each[0] in kept)
    ]
    differing = [each for each in judged if before is not None and each[1] != (each[0] in kept)]
    assert report.newly_denied.events == len(lost)
    is_lacking = sum(allowed for _, allowed, _ in judged) < allowed_min or (
        newest_after_ms is not None and newest_after_ms > max((at for *_, at in window), default=-1)
    )
    is_bad = lost or len(differing) > 0.05 * len(judged)
    assert print_summary(plan, report) == (3 if is_bad else 5 if is_lacking else 0)


def test_summary_names_the_window_and_logs_that_stopped() -> None:
    lines = text(replace(REPORT, window_begins_at="T", logs=_LOGS)).splitlines()
    assert lines[1:3] == [
        "window: since T; earlier events do not count",
        "warning: c: no event since 2026-11-01T00:00:00.000Z, and the newest ingest did not "
        "read it",
    ]
    assert not any("warning" in line for line in lines[3:])


def test_summary_says_which_settings_are_unknown() -> None:
    unknown = replace(ACLS, super_users=None, allow_everyone_if_no_acl_found=None)
    lines = text(replace(REPORT, candidate=JudgedBy.of(unknown))).splitlines()
    assert lines[2:4] == [
        "super.users is unknown, so super users are judged by the ACLs alone",
        "allow.everyone.if.no.acl.found is unknown, and taken to be false",
    ]
    assert not JudgedBy.of(unknown).decides_as(JudgedBy.of(ACLS))


def test_summary_without_events_names_no_times() -> None:
    first, *_ = text(replace(REPORT, events=0, tuples=0, first_at=None, last_at=None)).splitlines()
    assert first.startswith("0 events of 0 tuples, judged by ")


def test_summary_lists_the_most_frequent_changes() -> None:
    detail = Detail(
        principal="User:\x1b[2J", host=None, operation="READ", resource_type="TOPIC",
        resource_name="t\n", events=5, first_at="", last_at="", baseline_rule=None,
        candidate_rule="DefaultDeny",
    )  # fmt: skip
    principals = [PrincipalCount(principal=f"User:{n}", events=5, tuples=1) for n in range(1000)]
    denied = Changed(
        events=6000, tuples=1200, by_principal=principals, by_principal_left_out=200,
        details=[detail] * 1000, details_left_out=200,
    )  # fmt: skip
    shown = text(
        replace(REPORT, newly_denied=denied, not_evaluated={"x": Count(events=2, tuples=1)})
    )
    assert "newly denied: 6,000 events of 1,200 tuples" in shown
    assert "  and 1,190 other principals" in shown
    assert "not evaluated, x: 2 events of 1 tuple" in shown
    assert (
        "  User:\\x1b[2J READ TOPIC t\\n from an unknown host, 5 events: DefaultDeny "
        "(before: unknown)"
    ) in shown
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == 2 + 1 + 1 + SHOWN_MAX + 1 + 1 + SHOWN_MAX + 1


def test_summary_names_identical_acls() -> None:
    same = replace(REPORT, baseline=JudgedBy.of(replace(ACLS, source="other", offset=None)))
    assert "identical ACLs: nothing changes" in text(same)
    for other in (
        replace(ACLS, super_users=()),
        replace(ACLS, allow_everyone_if_no_acl_found=True),
        replace(ACLS, digest="sha256:other"),
    ):
        assert "identical" not in text(replace(REPORT, baseline=JudgedBy.of(other)))


def test_report_names_the_acls_by_digest_and_moment() -> None:
    told = json.loads(encode_json(REPORT))
    assert told["candidate"] == {
        "source": "log", "digest": digest_of([]), "offset": 7,
        "stamped_at": "2026-11-21T16:31:06.718Z", "acls": 0, "super_users": ["User:root"],
        "allow_everyone_if_no_acl_found": False,
    }  # fmt: skip
    assert told["baseline"] is None
    assert (told["newly_denied"]["events"], told["newly_denied"]["details"]) == (0, [])
