from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.load.plan.pacing import Pacing


def test_recorded_times_are_divided_by_the_speed() -> None:
    pacing = Pacing(events=3, period_ms=60.0, speed=2.0)
    assert [pacing.due_us(0, 0), pacing.due_us(2, 40)] == [0, 20_000]
    assert [pacing.due_us(3, 0), pacing.due_us(8, 40)] == [30_000, 80_000]


def test_rate_spaces_questions_evenly() -> None:
    pacing = Pacing(events=10, period_ms=100.0, rate=1000.0)
    assert [pacing.due_us(number, 77) for number in (0, 1, 2000)] == [0, 1000, 2_000_000]


@given(st.sampled_from([{"rate": 30.0}, {"speed": 3.0}, {}]), st.floats(0.1, 60))
def test_rounds_cover_the_duration(pace: dict[str, float], seconds: float) -> None:
    pacing = Pacing(events=10, period_ms=100.0, **pace)
    rounds = pacing.rounds_for(seconds)
    assert rounds >= 1
    assert pacing.due_us(rounds * pacing.events, 0) >= seconds * 1e6 - 1
    assert pacing.due_us((rounds - 1) * pacing.events, 0) <= seconds * 1e6 + 1
