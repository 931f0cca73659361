import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.protocol.decisions.stream import encode_answer
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.replay.load.lanes.lane import BlockedTime
from authorizerd.replay.load.lanes.tally import Histogram
from tests.ops.replay.load.lanes.virtual_target import MS, S, VirtualTarget, frames_each, run_lane

STALL = ((2 * S, 2 * S + S // 2),)


def p99_ms(rows: Histogram) -> float:
    found = rows.percentile_ns(99)
    assert found is not None
    return found / MS


def test_stall_of_the_target_does_not_move_the_schedule() -> None:
    target = VirtualTarget(stalls=STALL)
    frames = frames_each(1000, 5000)
    result = run_lane(target, frames, depth=1000)
    assert target.came == [(frame.due_us * 1000, frame.number) for frame in frames]
    assert (result.answered, result.late, result.dropped, result.ended) == (5000, 0, 0, None)
    assert result.send_lag.max_ns == 0
    assert result.corrected == result.service


def test_frame_held_up_by_the_depth_counts_from_when_it_was_due() -> None:
    target = VirtualTarget(stalls=STALL)
    frames = frames_each(1000, 5000)
    result = run_lane(target, frames, depth=8)
    on_time = [(frame.due_us * 1000, frame.number) for frame in frames]
    assert target.came[:2000] == on_time[:2000]
    assert target.came[2600:] == on_time[2600:]
    assert [number for _, number in target.came] == list(range(5000))
    assert p99_ms(result.corrected) > 400
    assert p99_ms(result.service) < 1
    assert 450 < result.late < 600
    assert (result.answered, result.dropped) == (5000, 0)
    # The target caused the delay, not the generator.
    assert result.send_lag.max_ns == 0


def test_stall_of_the_generator_is_send_lag() -> None:
    result = run_lane(VirtualTarget(pauses=((2 * S, S // 2),)), frames_each(1000, 5000), depth=1000)
    assert p99_ms(result.send_lag) > 400
    assert p99_ms(result.corrected) > 400
    assert result.late == 0


def test_slow_generator_has_send_lag() -> None:
    pauses = tuple((0, 3 * MS) for _ in range(500))
    result = run_lane(VirtualTarget(pauses=pauses), frames_each(1000, 500), depth=2)
    assert p99_ms(result.send_lag) > 900


def test_full_socket_makes_frames_late_without_send_lag() -> None:
    target = VirtualTarget(room=10)
    frames = frames_each(1000, 200)
    result = run_lane(target, frames, depth=1000)
    assert [number for _, number in target.came] == list(range(200))
    assert (result.answered, result.ended) == (200, None)
    assert result.late > 150
    assert result.send_lag.max_ns < 2 * MS


def test_dropped_frame_counts_its_wait() -> None:
    target = VirtualTarget(stalls=((S, 4 * S),))
    result = run_lane(target, frames_each(1000, 5000), depth=8, drop_after_ns=S)
    assert result.sent + result.dropped == 5000
    assert 1900 < result.dropped < 2100
    assert result.answered == result.sent
    assert result.corrected.samples == 5000
    assert result.service.samples == result.sent
    # Every dropped frame had waited at least for the limit, which p99 shows.
    assert p99_ms(result.corrected) >= 1000


def test_lost_target_ends_the_lane() -> None:
    target = VirtualTarget(dies_at=2 * S + MS // 2, service_ns=4 * MS)
    result = run_lane(target, frames_each(5000, 1000))
    assert result.ended == "the target closed the connection"
    assert result.finished_ns == 2 * S + MS // 2
    assert result.sent == result.answered + result.unanswered
    assert (result.unanswered, result.sent) == (1, 401)
    assert result.corrected.samples == result.sent


@pytest.mark.parametrize("is_open", [True, False])
def test_outage_is_in_the_latency_of_its_questions(is_open: bool) -> None:
    target = VirtualTarget(dies_at=S + MS // 2, returns_at=2 * S, service_ns=4 * MS)
    frames = frames_each(1000 if is_open else 0, 1000)
    result = run_lane(target, frames, reconnect_s=5.0, is_open=is_open)
    assert (result.answered, result.sent, result.unanswered, result.dropped) == (1000, 1000, 0, 0)
    assert (result.ended, result.reconnects) == (None, 1)
    (outage,) = result.outages
    assert (outage.begin_s, outage.reason) == (1.0005, "the target closed the connection")
    assert 1 < outage.seconds == result.longest_outage_s < 1.3
    assert 0 < outage.lost == result.lost <= 8
    asked = [number for _, number in target.came]
    assert len(asked) == 1000 + result.lost
    again = asked[-1] - 999 + next(at for at, number in enumerate(asked) if number in asked[:at])
    assert asked == [*range(again), *range(again - result.lost, 1000)], "asked again, in order"
    assert result.corrected.max_ns > S
    assert result.service.max_ns < S
    # The delay is the target's, and not one of the generator.
    assert result.send_lag.max_ns < MS
    assert target.attempts < 20


def test_each_outage_has_the_whole_limit() -> None:
    target = VirtualTarget(dies_at=S, returns_at=S + S // 2, dies_again_at=4 * S)
    result = run_lane(target, frames_each(1000, 5000), reconnect_s=2.0)
    assert (result.answered, result.reconnects, result.ended) == (5000, 2, None)


@pytest.mark.parametrize("is_open", [True, False])
def test_frame_whose_send_fails_is_asked_once(*, is_open: bool) -> None:
    target = VirtualTarget(send_fails_at=S, returns_at=0, service_ns=4 * MS)
    frames = frames_each(1000 if is_open else 0, 3000)
    result = run_lane(target, frames, reconnect_s=5.0, is_open=is_open)
    assert (result.sent, result.answered, result.reconnects) == (3000, 3000, 1)
    assert len(target.came) == 3000 + result.lost - 1, "the failed send has reached nobody"


def test_frame_that_was_sent_in_part_is_sent_again() -> None:
    back = S + S // 2
    target = VirtualTarget(dies_at=S, returns_at=back, dies_again_at=back + 20 * MS, room=10)
    result = run_lane(target, frames_each(1000, 1500), reconnect_s=5.0)
    assert (result.answered, result.reconnects, result.lost) == (1500, 2, 2)


def test_target_that_never_returns_ends_the_lane() -> None:
    target = VirtualTarget(dies_at=S + MS // 2, service_ns=4 * MS)
    result = run_lane(target, frames_each(1000, 5000), reconnect_s=2.0)
    assert result.ended == (
        "the target closed the connection; Connection refused, and no answer within 2 s"
    )
    assert 3 * S <= result.finished_ns < 3 * S + 300 * MS
    assert result.sent == result.answered + result.unanswered
    assert (result.reconnects, result.outages) == (0, [])


def test_target_that_connects_but_never_answers_ends_the_lane() -> None:
    """Otherwise, a question that ends the target would be asked again for ever."""
    target = VirtualTarget(stalls=((S, 10_000 * S),), returns_at=0)
    result = run_lane(target, frames_each(100_000, 20), reconnect_s=40.0, depth=100)
    assert {outage.reason for outage in result.outages} == {"no answer for 30 s"}
    assert result.longest_outage_s > 30
    assert result.lost == 10 * 2
    assert result.ended == "no answer for 30 s, and no answer within 40 s"
    assert (result.answered, result.unanswered) == (10, 10)


def test_closed_loop_keeps_the_depth_full() -> None:
    result = run_lane(VirtualTarget(), frames_each(0, 1000, batch=3), is_open=False, depth=4)
    assert (result.answered, result.late) == (3000, 0)
    assert result.finished_ns == 1000 * MS // 10
    assert result.corrected == result.service
    assert result.service.percentile_ns(50) == 4 * MS // 10


def test_closed_loop_stops_at_its_end() -> None:
    result = run_lane(VirtualTarget(), frames_each(0, 1000), is_open=False, end_ns=50 * MS)
    assert 500 <= result.sent <= 510
    assert result.answered == result.sent


def test_lane_ends_when_nothing_is_in_flight() -> None:
    target = VirtualTarget(service_ns=5 * MS)
    result = run_lane(target, frames_each(0, 10), is_open=False, depth=1, end_ns=5 * MS)
    assert (result.answered, result.finished_ns) == (1, 5 * MS)
    target = VirtualTarget(stalls=((0, 3 * S),))
    result = run_lane(target, frames_each(0, 2), depth=1, drop_after_ns=S)
    assert (result.answered, result.dropped, result.finished_ns) == (1, 1, 3 * S)


def test_latencies_exclude_the_warm_up() -> None:
    target = VirtualTarget(stalls=((0, S),))
    result = run_lane(target, frames_each(1000, 3000), depth=2000, warm_up_ns=S + S // 2)
    assert (result.answered, result.warm_up) == (3000, 1500)
    assert result.corrected.samples == 1500
    assert p99_ms(result.corrected) < 1
    assert list(result.timeline) == [1, 2]
    assert [second.offered for second in result.timeline.values()] == [500, 1000]


def test_error_counts_towards_the_latencies_but_not_as_served() -> None:
    """A target that takes a second to refuse would otherwise look fast."""
    refusals = {
        number: encode_answer(number, ErrorCode.THROTTLING_QUOTA_EXCEEDED, -1, b"")
        for number in range(1000, 2000)
    }
    target = VirtualTarget(stalls=((S, 2 * S),), answers=refusals)
    result = run_lane(target, frames_each(1000, 3000), depth=4000)
    assert (result.answered, sum(result.errors.values())) == (2000, 1000)
    assert result.corrected.samples == result.service.samples == 3000
    assert p99_ms(result.corrected) > 900
    assert p99_ms(result.service) > 900
    assert [second.latency.samples for second in result.timeline.values()] == [1000, 1000, 1000]
    assert sum(second.served for second in result.timeline.values()) == 2000


def test_timeline_shows_a_stall_in_its_second() -> None:
    target = VirtualTarget(stalls=((S, 2 * S),))
    timeline = run_lane(target, frames_each(1000, 3000), depth=4000).timeline
    assert [second.offered for second in timeline.values()] == [1000, 1000, 1000]
    assert [second.latency.max_ns // (100 * MS) for second in timeline.values()] == [0, 10, 1]
    assert timeline[1].served < 10
    assert sum(second.served for second in timeline.values()) == 3000


def test_answer_to_another_frame_ends_the_lane() -> None:
    target = VirtualTarget(answers={3: encode_answer(4, 0, 7, b"\1")})
    result = run_lane(target, frames_each(1000, 10))
    assert result.ended == "expected an answer to frame 3, found an answer to frame 4"
    assert (result.answered, result.unanswered) == (3, 1)


@pytest.mark.parametrize(("answer", "batch", "ended"), [
    (encode_answer(3, 0, 7, b"\1"), 2, "expected 2 decisions, found 1"),
    (b"\x7f\xff\xff\xff", 1, "not a frame"),
])  # fmt: skip
def test_invalid_answer_ends_the_lane(answer: bytes, batch: int, ended: str) -> None:
    result = run_lane(VirtualTarget(answers={3: answer}), frames_each(1000, 10, batch=batch))
    assert ended in (result.ended or "")


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=10),
    st.lists(st.integers(0, 300), max_size=10),
)
def test_blocked_time_since_a_time_is_exact(gaps: list[tuple[int, int]], dues: list[int]) -> None:
    blocked, moments, now = BlockedTime(), set[int](), 0
    for gap, length in gaps:
        now += gap
        blocked.add(now, now + length)
        moments |= set(range(now, now + length))
        now += length
    for due in sorted(dues):
        assert blocked.since(due) == len([moment for moment in moments if moment >= due])
