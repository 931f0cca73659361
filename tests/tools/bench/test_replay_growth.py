"""The measurement of replay's growth, without Spark."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tools.bench.plot import draw_panels
from tools.bench.processes import ProcessError, sampling
from tools.bench.replay_growth import (
    IngestReport,
    Point,
    make_lines,
    make_panels,
    sum_task_metrics,
    tree_bytes,
)
from tools.bench.replay_jobs import JobTime
from tools.bench.replay_whatif import ProcessTime, time_process

MEBIBYTE = 1024 * 1024
POINT = Point(
    5 * MEBIBYTE,
    IngestReport(
        lines=1_000_000,
        session=JobTime(1.0, 1.0),
        ingest=JobTime(4.0, 8.0),
        peak_bytes=100 * MEBIBYTE,
        shuffle_bytes=3 * MEBIBYTE,
        spilled_bytes=0,
        table_bytes=2 * MEBIBYTE,
    ),
    ProcessTime(1.5, 1.0, 200 * MEBIBYTE),
)


def test_shuffled_and_spilled_bytes_of_all_tasks_are_summed(tmp_path: Path) -> None:
    def ended(shuffled: int, spilled: int) -> dict[str, object]:
        written = {"Shuffle Bytes Written": shuffled}
        metrics = {"Shuffle Write Metrics": written, "Disk Bytes Spilled": spilled}
        return {"Event": "SparkListenerTaskEnd", "Task Metrics": metrics}

    history = tmp_path / "local-1"
    events = [{"Event": "SparkListenerJobStart"}, ended(5, 0), ended(7, 9)]
    history.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert sum_task_metrics(history) == (12, 9)


def test_table_and_plot_show_every_size() -> None:
    figures = {line.what.partition(": ")[2]: line.ours for line in make_lines(POINT)}
    assert figures["ingest, cold"] == 250_000
    assert figures["ingest, CPU for a line"] == 8
    assert figures["ingest, peak memory"] == 100
    assert figures["what-if, memory"] == 200
    larger = msgspec.structs.replace(POINT, ours=msgspec.structs.replace(POINT.ours, lines=10**8))
    svg = draw_panels(make_panels([POINT, larger]))
    assert svg.count('class="dot curve-1"') == 8
    assert "peak memory, MiB" in svg


def test_memory_of_child_processes_is_sampled(tmp_path: Path) -> None:
    program = "b = bytearray(200 << 20); b[::4096] = bytes([1]) * len(b[::4096]); import time; "
    with sampling(partial(tree_bytes, os.getpid())) as samples:
        time_process([sys.executable, "-c", f"{program} time.sleep(2)"], tmp_path / "log")
    assert max(samples) - samples[0] > 150 * MEBIBYTE


def test_time_of_a_process_has_its_memory_and_a_failure_its_output(tmp_path: Path) -> None:
    large = time_process([sys.executable, "-c", "b = b'x' * (100 << 20)"], tmp_path / "log")
    assert large.resident_bytes > 100 * MEBIBYTE
    time_process([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log", (0, 3))
    with pytest.raises(ProcessError, match="exit code 1: no such table"):
        time_process([sys.executable, "-c", "raise SystemExit('no such table')"], tmp_path / "log")
