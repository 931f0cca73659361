"""Tasks in processes."""

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.context import SpawnProcess

import pytest

from authorizerd.replay import processes
from authorizerd.replay.errors import TrafficError
from authorizerd.replay.processes import do_tasks

WAIT = 0
"""A task that never ends; other tasks are signals that the process receives."""


def work(task: int) -> int:
    if task == WAIT:
        threading.Event().wait()
    os.kill(os.getpid(), task)
    return task


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CORES", 2)


def test_signals_of_the_terminal_reach_only_the_command() -> None:
    tasks = [signal.SIGINT, signal.SIGHUP, signal.SIGINT]
    assert list(do_tasks(work, tasks)) == tasks
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & set(tasks)


def test_processes_end_at_once_when_the_command_stops() -> None:
    results = do_tasks(work, [signal.SIGINT, WAIT, WAIT])
    assert next(results) == signal.SIGINT
    results.close()  # type: ignore[attr-defined]  # as KeyboardInterrupt does
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("tasks", [[signal.SIGKILL, WAIT], [WAIT, signal.SIGKILL]])
def test_lost_process_is_named_and_ends_the_others(
    tasks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor wakes before it knows of a process, if starting one takes long."""
    start = SpawnProcess.start

    def start_slowly(process: SpawnProcess) -> None:
        start(process)
        time.sleep(0.2)

    monkeypatch.setattr(SpawnProcess, "start", start_slowly)
    with pytest.raises(TrafficError, match="a process that reads recorded traffic has ended"):
        list(do_tasks(work, tasks))
    assert multiprocessing.active_children() == []
