"""The table and the plot of the sizes, and which of them are measured."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tools.bench import scale
from tools.bench.closed_loop import LoadReport
from tools.bench.event_loop import LoopReport, Spans
from tools.bench.figures import Absent
from tools.bench.kafka_peer import CallTimes, KafkaPeer
from tools.bench.kafka_peer import Start as KafkaStart
from tools.bench.loading import LoadReport as MemoryReport
from tools.bench.plot import draw_panels
from tools.bench.scale import LONGEST_STEP, Extent, Point, make_lines, make_panels, measure_scale
from tools.bench.scale_daemon import (
    DESCRIBE,
    WHAT_CAN,
    WHAT_CAN_GREATEST,
    WHO_CAN,
    CallsReport,
    DaemonReport,
    Start,
)
from tools.bench.scale_process import InMemory
from tools.bench.steady_load import SteadyReport

MIB = 1024 * 1024
ASKED = SteadyReport(1000, {50: 0.5, 90: 0.8, 99: 2.0}, 9.0, 0.1)
SPANS = Spans(100, 3.0, 2.0, 1.5, 1.0)
STARTED = Start(
    seconds=8.0,
    cpu_seconds=7.0,
    resident_bytes=300 * MIB,
    pss_bytes=290 * MIB,
    peak_bytes=400 * MIB,
    workers_resident_bytes=[200 * MIB, 210 * MIB],
    workers_pss_bytes=[190 * MIB, 195 * MIB],
)
TIMES = CallTimes(0.5, 2.0, 90.0)
POINT = Point(
    1_000_000,
    (0.5, 2.5),
    InMemory(MemoryReport(1_000_000, 6.0, 290.0), 5.5, TIMES, TIMES, ""),
    DaemonReport(
        from_log=STARTED,
        checkpoint_seconds=4.0,
        during_checkpoint=None,
        decisions=ASKED,
        updates=LoadReport(1000, 500.0, 980, {50: 1.0, 90: 2.0, 99: 4.0}, 9.0),
        searches=dict.fromkeys(
            (WHO_CAN, WHAT_CAN, WHAT_CAN_GREATEST, DESCRIBE), CallsReport(100, 30.0, 90, 60.0)
        ),
        stop_seconds=0.7,
        from_checkpoint=STARTED,
        with_workers=STARTED,
        workers_decisions=ASKED,
        loop=LoopReport(SPANS, SPANS, "some task", 1.0, 1.0),
    ),
    KafkaStart(9.0, 12.0, 1_000_000, 600 * MIB, CallTimes(30.0, 60.0, 99.0), TIMES, ""),
)


def test_table_has_the_figures_beside_those_of_the_peer() -> None:
    lines = {line.what.partition(" ACLs: ")[2]: line for line in make_lines(POINT)}
    start, decision = lines["start from a checkpoint"], lines["decision in memory, p50"]
    assert (start.ours, start.peer and start.peer.value) == (8.0, 9.0)
    assert decision.ratio == 60
    assert lines["memory of each worker, PSS"].ours == 195
    assert lines["who can, p90 of 100"].ours == 60
    assert lines["load average at the end"].ours == 2.5
    assert lines[LONGEST_STEP].limit == 2
    assert not any("during a checkpoint" in what for what in lines)


def test_figure_that_not_every_size_has_is_left_out_of_the_others() -> None:
    """A small checkpoint is written too quickly to ask during it, and a large heap may not fit."""
    daemon = msgspec.structs.replace(POINT.daemon, during_checkpoint=ASKED)
    larger = Point(5_000_000, (1.0, 1.0), POINT.in_memory, daemon, "no memory")
    panels = {panel.title: panel for panel in make_panels([POINT, larger])}
    during = panels["decisions during a checkpoint, ms"].series
    assert [list(series.points) for series in during] == [[(5_000_000, 0.5)], [(5_000_000, 2.0)]]
    ours, theirs = panels["start from a checkpoint, s"].series
    assert list(ours.points) == [(1_000_000, 8.0), (5_000_000, 8.0)]
    assert list(theirs.points) == [(1_000_000, 9.0)]
    assert "decision, p99, µs" in draw_panels([*panels.values()])


def test_continued_run_measures_the_sizes_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []

    def measure(peer: KafkaPeer, place: Path, acls: int, extent: Extent) -> Point:
        measured.append(acls)
        return msgspec.structs.replace(POINT, acls=acls)

    monkeypatch.setattr(scale, "_measure", measure)
    peer = KafkaPeer(Absent("none"))

    def run(*acls: int, continues: bool) -> list[int]:
        extent = Extent(acls=acls, seconds=1.0, calls=1, rounds=1)
        points = measure_scale(peer, tmp_path / "scale", extent, continues=continues)
        return [point.acls for point in points]

    assert run(100, continues=True) == [100]
    assert run(100, 200, continues=True) == [100, 200]
    assert measured == [100, 200]
    assert run(100, continues=False) == [100]
    assert measured == [100, 200, 100]
