import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.decisions.stream import encode_answer
from authorizerd.replay.load.lanes.tally import LaneResult
from authorizerd.replay.load.plan.frames import LaneDigest
from authorizerd.replay.load.plan.pacing import Schedule
from authorizerd.replay.load.report import LoadReport, exit_code, planned_report, with_results
from authorizerd.replay.load.running import fault_lines, summary_lines
from authorizerd.replay.plans import LoadPlan
from authorizerd.replay.text import encode_json
from tests.ops.replay.load.lanes.virtual_target import MS, S, VirtualTarget, frames_each, run_lane

LANES = [
    LaneDigest(lane=lane, digest="", frames=2000, questions=2000, last_due_us=1_999_000)
    for lane in (1, 0)
]
PLAN = LoadPlan(events="in", out="out", target="h:1", run_id="run-1", mismatches_listed_max=2)
SCHEDULE = Schedule(events=4000, period_ms=2000)
PLANNED = planned_report(PLAN, SCHEDULE, [LaneResult(planned=lane) for lane in LANES])


def judged(*results: LaneResult, fail_on: str = "", warm_up_s: float = 0.0) -> LoadReport:
    plan = msgspec.structs.replace(PLAN, fail_on=fail_on, warm_up_s=warm_up_s)
    return with_results(PLANNED, results, plan)


def lane(number: int, target: VirtualTarget, *, warm_up_ns: int = 0) -> LaneResult:
    result = run_lane(target, frames_each(1000, 2000), warm_up_ns=warm_up_ns)
    planned = LaneDigest(lane=number, digest="")
    return msgspec.structs.replace(result, planned=planned, start_s=1_700_000_000.0)


def test_lanes_are_summed() -> None:
    report = judged(lane(0, VirtualTarget()), lane(1, VirtualTarget()), fail_on="p99<1ms,rate>=1")
    assert (report.sent, report.answered, report.not_sent) == (4000, 4000, 0)
    assert report.valid
    assert exit_code(report) == 0
    assert report.offered_per_s == pytest.approx(2000, rel=0.01)
    assert report.served_per_s == pytest.approx(2000, rel=0.01)
    assert [(each.offered, each.served) for each in report.timeline] == [(2000, 2000)] * 2
    assert report.latency is not None
    assert report.latency.corrected.samples == 4000
    assert report.latency.corrected.p99_ms == 0.1
    assert (report.first_offset, report.last_offset) == (7, 7)
    assert msgspec.json.decode(encode_json(report), type=LoadReport) == report


@pytest.mark.parametrize(("target", "fail_on", "code", "fault"), [
    (VirtualTarget(pauses=((S, S // 2),)), "p50<1s", 1,
     "not valid: the generator itself was late: p99 of the send lag is 4"),
    (VirtualTarget(stalls=((S, S + S // 2),)), "p99<100ms,dropped=0", 3,
     "threshold p99<100ms failed: measured 4"),
    (VirtualTarget(dies_at=S), "", 1,
     "target h:1 was lost at 2023-11-14T22:13:21.000Z: the target closed"),
])  # fmt: skip
def test_fault_of_one_lane_is_that_of_the_run(
    target: VirtualTarget, fail_on: str, code: int, fault: str
) -> None:
    report = judged(lane(0, VirtualTarget()), lane(1, target), fail_on=fail_on)
    assert (report.valid, exit_code(report)) == (code == 3, code)
    first, *others = fault_lines(report)
    assert first.startswith(fault)
    assert len(others) == (1 if report.death else 0), "the lane that ended makes the run invalid"
    assert report.not_sent == 4000 - report.sent
    if report.death is not None:
        assert (report.death.after_s, report.death.lane) == (1.0, 1)


def test_run_without_an_answer_is_not_valid() -> None:
    one = lane(0, VirtualTarget())
    errors = {"NOT_READY": one.answered}
    failed = msgspec.structs.replace(one, answered=0, errors=errors)
    assert exit_code(judged(one, failed)) == 0
    assert list(fault_lines(judged(failed, failed))) == ["not valid: no question was answered"]


def test_outages_are_listed_and_judged() -> None:
    broken = VirtualTarget(dies_at=S, returns_at=S + S // 2, service_ns=4 * MS)
    lanes = [
        run_lane(target, frames_each(1000, 2000), reconnect_s=5.0)
        for target in (VirtualTarget(), broken)
    ]
    report = judged(*lanes, fail_on="outage<100ms,outage<=1s,lost=0,dropped=0")
    assert report.valid
    assert [verdict.passed for verdict in report.thresholds] == [False, True, False, True]
    assert (report.reconnects, report.answered) == (1, 4000)
    (outage,) = report.outages
    assert outage.seconds == report.longest_outage_s == pytest.approx(0.6, abs=0.2)
    failed, lost = fault_lines(report)
    assert failed.startswith("threshold outage<100ms failed: measured ")
    assert failed.endswith(" ms")
    assert lost == f"threshold lost=0 failed: measured {report.lost}"
    reconnecting = msgspec.structs.replace(PLAN, reconnect_s=5.0).settings
    shown = summary_lines(msgspec.structs.replace(report, settings=reconnecting))
    assert any(line.startswith("reconnects 1, longest outage 0.") for line in shown)


def test_differing_answers_are_counted_and_listed() -> None:
    answers = {number: encode_answer(number, 0, 9, b"\0") for number in (3, 4, 5)}
    report = judged(lane(0, VirtualTarget(answers=answers)), fail_on="mismatch=0")
    assert (report.mismatches, report.answered) == (3, 2000)
    assert len(report.first_mismatches) == 2
    first = report.first_mismatches[0]
    assert first.question == ["User:a", None, 3, 2, "orders"]
    assert (first.recorded, first.answered, first.offset) == (True, False, 9)
    assert exit_code(report) == 3
    shown = [line for line in summary_lines(report) if line.startswith("mismatch: ")]
    request = "User:a READ TOPIC orders from an unknown host"
    assert shown == [f"mismatch: {request}: recorded allowed, answered denied"]


def test_answer_without_a_decision_is_an_error() -> None:
    answers = {
        3: encode_answer(3, 0, 9, b"\2"), 4: encode_answer(4, 0, 9, b"\3"),
        5: encode_answer(5, 801, -1, b""), 6: encode_answer(6, 7, -1, b""),
        7: encode_answer(7, -77, -1, b""),
    }  # fmt: skip
    report = judged(lane(0, VirtualTarget(answers=answers)), fail_on="errors=0")
    assert (report.mismatches, report.answered, report.not_ready) == (0, 1995, 2)
    assert report.errors == {
        "-77": 1, "7 REQUEST_TIMED_OUT": 1, "801 AUTHORIZER_NOT_READY": 1,
        "not a valid question": 1, "not ready": 1,
    }  # fmt: skip
    assert exit_code(report) == 3


@given(
    st.integers(0, 3 * S),
    st.integers(0, 3 * S),
    st.none() | st.integers(0, 3 * S),
    st.none() | st.integers(0, 4 * S),
    st.integers(1, 20),
)
def test_counts_add_up(
    stall: int, length: int, dies_at: int | None, returns_at: int | None, depth: int
) -> None:
    target = VirtualTarget(
        stalls=((stall, stall + length),), dies_at=dies_at, returns_at=returns_at
    )
    frames = frames_each(20_000, 100)
    result = run_lane(target, frames, depth=depth, drop_after_ns=S, reconnect_s=returns_at and 2.0)
    assert result.sent == result.answered + sum(result.errors.values()) + result.unanswered
    assert result.sent + result.dropped <= 100
    assert result.ended is not None or result.sent + result.dropped == 100
    assert result.corrected.samples == result.sent + result.dropped
    assert result.send_lag.samples == result.sent


def test_run_within_the_warm_up_has_no_figures() -> None:
    report = judged(
        lane(0, VirtualTarget(), warm_up_ns=10 * S), fail_on="p99<1s,rate>=1", warm_up_s=10
    )
    assert (report.offered_per_s, report.served_per_s) == (None, None)
    assert [verdict.passed for verdict in report.thresholds] == [False, False]
    assert exit_code(report) == 3
    assert list(summary_lines(report))
