"""A thread that works for long leaves the interpreter to the event loop for half of the time."""

from __future__ import annotations

import pytest

from authorizerd.daemon.process.thread_switching import REST_S_MAX, WORK_S, Pace


@pytest.mark.parametrize("step_s", [WORK_S / 7, WORK_S, WORK_S * 5, REST_S_MAX * 3])
def test_thread_rests_as_long_as_it_works(step_s: float) -> None:
    """A step that took very long, as on a busy machine, does not delay the answer as much again."""
    now, rests = 0.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        rests.append(seconds)
        now += seconds

    pace = Pace(lambda: now, sleep)
    pace.rest_if_due()
    steps = 70
    for _ in range(steps):
        now += step_s
        pace.rest_if_due()
    assert sum(rests) == pytest.approx(min(steps * step_s, len(rests) * REST_S_MAX), rel=0.01)
    assert len(rests) <= steps * step_s / WORK_S + 1
