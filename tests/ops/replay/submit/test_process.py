from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from authorizerd.replay.messages import STOP_FILE
from authorizerd.replay.submit.process import StoppedError, run_submission

EXIT_CODE = 3
WATCH = f"""
import os, signal, sys, time
os.kill(os.getppid(), signal.SIGTERM)
while not os.path.exists(os.environ[{STOP_FILE!r}]):
    time.sleep(0.01)
"""
"""A job that has its command terminated, and waits until it is asked to end."""


def run(script: str, folder: Path) -> int:
    environment = {**os.environ, STOP_FILE: str(folder / "stop")}
    line = [sys.executable, "-c", script]
    return run_submission(line, environment, folder / "spark.log", verbose=False)[0]


def test_first_signal_lets_a_watch_end_by_itself(tmp_path: Path) -> None:
    assert run(f"{WATCH}\nsys.exit({EXIT_CODE})", tmp_path) == EXIT_CODE


def test_second_signal_ends_a_watch(tmp_path: Path) -> None:
    again = "os.kill(os.getppid(), signal.SIGINT)\ntime.sleep(600)"
    with pytest.raises(StoppedError) as stopped:
        run(f"{WATCH}\n{again}", tmp_path)
    assert stopped.value.number == signal.SIGINT


def test_signal_that_interrupts_no_wait_is_noticed(tmp_path: Path) -> None:
    """Another thread gets the signal, which is then like one that came just before the wait."""
    started, stop = tmp_path / "started", tmp_path / "stop"
    job = f"""
import os, pathlib, sys, time
pathlib.Path({str(started)!r}).touch()
ends = time.monotonic() + 60
while not os.path.exists({str(stop)!r}) and time.monotonic() < ends:
    time.sleep(0.01)
sys.exit({EXIT_CODE} if time.monotonic() < ends else 0)
"""

    def interrupt() -> None:
        while not started.exists():
            time.sleep(0.01)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    interrupter = threading.Thread(target=interrupt, daemon=True)
    interrupter.start()
    assert run(job, tmp_path) == EXIT_CODE
