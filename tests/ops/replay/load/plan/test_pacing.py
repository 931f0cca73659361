from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.plan.pacing import Pacing, parse_profile

RATES = st.just(0.0) | st.floats(0.001, 1e5)
SECONDS = st.floats(0.01, 1e3)


def paced(profile: str, rate: float | None = None, events: int = 10) -> Pacing:
    return Pacing(events=events, period_ms=100.0, segments=parse_profile(profile, rate))


def test_recorded_times_are_divided_by_the_speed() -> None:
    pacing = Pacing(events=3, period_ms=60.0, speed=2.0)
    assert [pacing.due_us(0, 0), pacing.due_us(2, 40)] == [0, 20_000]
    assert [pacing.due_us(3, 0), pacing.due_us(8, 40)] == [30_000, 80_000]


def test_rate_spaces_questions_evenly() -> None:
    pacing = paced("constant", 1000)
    assert [pacing.due_us(number, 77) for number in (0, 1, 2000)] == [0, 1000, 2_000_000]


def test_ramp_has_its_mean_rate() -> None:
    """From 0 to 100 per second in 10 s: 500 questions, the first half of them in 7.07 s."""
    pacing = paced("ramp:0:100:10")
    due = [pacing.due_us(number, 0) for number in (0, 250, 500, 600)]
    assert due == [0, 7_071_068, 10_000_000, 11_000_000]


def test_ramp_down_to_zero_ends() -> None:
    pacing = paced("ramp:100:0:10")
    assert pacing.due_us(499, 0) is not None
    assert pacing.due_us(500, 0) is None


def test_last_step_continues() -> None:
    pacing = paced("step:10:1,0:2,20:1")
    due = [pacing.due_us(number, 0) for number in (0, 9, 10, 30, 50)]
    assert due == [0, 900_000, 3_000_000, 4_000_000, 5_000_000]


@given(RATES, RATES, SECONDS, st.integers(0, 10**6))
def test_due_times_never_decrease(start: float, end: float, seconds: float, number: int) -> None:
    assume(start + end > 0)
    pacing = paced(f"ramp:{start}:{end}:{seconds}")
    this, following = pacing.due_us(number, 0), pacing.due_us(number + 1, 0)
    assert following is None or (this is not None and 0 <= this <= following)


@given(st.sampled_from(["constant", "ramp:1:50:3", "step:5:1,9:4"]), st.floats(0.1, 60))
def test_rounds_cover_the_duration(profile: str, seconds: float) -> None:
    pacing = paced(profile, 30.0 if profile == "constant" else None)
    rounds = pacing.rounds_for(seconds)
    after = pacing.due_us(rounds * pacing.events, 0)
    assert after is not None
    assert after >= seconds * 1e6 - 1
    if rounds > 1:
        before = pacing.due_us((rounds - 1) * pacing.events, 0)
        assert before is not None
        assert before <= seconds * 1e6 + 1


@pytest.mark.parametrize(("profile", "rate", "complaint"), [
    ("linear", None, "expected constant, ramp"),
    ("constant:5", None, "expected constant, ramp"),
    ("ramp:1:2", None, "expected 3 numbers, found '1:2'"),
    ("ramp:1:x:3", None, "expected numbers, found"),
    ("ramp:0:0:3", None, "expected a rate above 0"),
    ("ramp:-1:5:3", None, "expected rates of 0, or"),
    ("ramp:nan:5:3", None, "expected rates of 0, or"),
    ("ramp:1:inf:3", None, "expected rates of 0, or"),
    ("ramp:1:2:0", None, "expected times above 0"),
    ("step:", None, "expected numbers, found"),
    ("step:1:2,3", None, "expected 2 numbers, found '3'"),
    ("constant", 1e-9, "expected rates of 0, or"),
    ("step:0:5,0:6", None, "expected a rate above 0"),
    ("ramp:1:2:3", 5.0, "remove --rate"),
])  # fmt: skip
def test_malformed_profile_is_named(profile: str, rate: float | None, complaint: str) -> None:
    with pytest.raises(LoadError, match="profile") as raised:
        parse_profile(profile, rate)
    assert complaint in str(raised.value)
