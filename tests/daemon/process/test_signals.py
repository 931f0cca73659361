"""Reloads by SIGHUP, and the forced end. (tests/end_to_end/test_reload.py sends real signals.)"""

import logging
import signal
import threading
from typing import cast

import pytest
import trio
import trio.testing

from authorizerd.daemon.process.forced_end import ForcedEnd
from authorizerd.daemon.process.signals import SignalHandler
from authorizerd.daemon.settings import ReloadStatistics, Settings
from authorizerd.daemon.telemetry.systemd import ServiceManager
from authorizerd.daemon.workers.pool import WorkerPool


class Reloaded:
    """Settings that refuse their first reload, and workers that count how often they are asked."""

    def __init__(self) -> None:
        self.reloads = ReloadStatistics()
        self.asked = 0

    async def reload(self) -> None:
        self.reloads.failing = int(not (self.reloads.succeeded or self.reloads.failed))
        self.reloads.failed += self.reloads.failing
        self.reloads.succeeded += 1 - self.reloads.failing

    async def applied_everywhere(self) -> None:
        self.asked += 1


async def test_refused_reload_is_not_reported_as_done(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    reloaded = Reloaded()
    handler = SignalHandler(
        cast(Settings, reloaded), ServiceManager({}), cast(WorkerPool, reloaded)
    )
    sender, signals = trio.open_memory_channel[int](0)
    nursery.start_soon(handler.run, signals)
    for asked in (0, 1):
        await sender.send(signal.SIGHUP)
        await trio.testing.wait_all_tasks_blocked()
        assert reloaded.asked == asked
        assert caplog.text.count("every worker has the settings in force") == asked
    await sender.send(signal.SIGTERM)


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
