from __future__ import annotations

import signal
import threading

from authorizerd.daemon.process.forced_end import ForcedEnd


def test_end_in_time_stops_both_timers() -> None:
    before = set(threading.enumerate())
    forced_end = ForcedEnd()
    forced_end.begin(1000)
    (clock,) = set(threading.enumerate()) - before
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    forced_end.close()
    clock.join(10)
    assert not clock.is_alive()
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
