"""Measure the figures of ``docs/replay-load.md``: tasks on this machine, and the driver's part.

    python -m tools.bench.load_scale [--write] [--spark] [--seconds N]

The command prints the tables, and ``--write`` puts them into the page. ``--spark`` also measures
Spark's barrier, with tasks that do nothing else; without it, its last figures stay.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import pyarrow as pa
from msgspec.structs import astuple, replace

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.index.builder import build
from authorizerd.protocol.decisions.stream import encode_answer
from authorizerd.replay.load.lanes.driving import Arrival, agree_on_start
from authorizerd.replay.load.lanes.tally import LaneResult
from authorizerd.replay.load.plan.frames import LaneDigest, TimedQuestion, frames_of, write_frames
from authorizerd.replay.load.plan.pacing import US_PER_S
from authorizerd.replay.load.plan.questions import STREAM
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.load.results import planned_report, with_results
from authorizerd.replay.plans import LoadPlan
from tools.bench.checkpoint import write_checkpoint
from tools.bench.daemon_process import PATIENT, ready_daemon
from tools.bench.load_model import (
    FIGURES,
    LANES,
    PAGE,
    DriverFigures,
    Measured,
    TaskFigures,
    format_figures,
    replace_figures,
)
from tools.bench.load_tasks import TaskRun, run_tasks, trivial_target
from tools.bench.processes import ProcessError, cpu_seconds
from tools.bench.sets import kind

TASKS: Final = (1, 2, 4)
RATE: Final = 5000.0
"""Questions per second and task of the open loops, far below what a core can send."""
TIMELINE_SECONDS: Final = 60
BATCH: Final = 64

_CLOSED_QUESTIONS: Final = 1_000_000
"""Questions that a closed loop repeats."""
_FIXED_BYTES: Final = 4 + 8 + 8 + 1 / 8 + 4
"""Lane, number, elapsed time, answer and offset of a question in Arrow, without compression."""
_BARRIERS: Final = (10, 100)


def measure(directory: Path, seconds: float, *, with_spark: bool) -> Measured:
    """Measure everything, with files below ``directory``.

    Raises:
        ProcessError: a lane was refused, or an answer differs from the record.
    """
    asked = list(_questions())
    figures: list[TaskFigures] = []
    with ExitStack() as stack:
        log_dir = directory / "log"
        write_checkpoint(log_dir, kind().added())
        daemon = stack.enter_context(ready_daemon(directory / "daemon", log_dir, PATIENT))
        trivial, process_id = stack.enter_context(trivial_target())
        for name, address, server in (
            ("trivial", trivial, process_id),
            ("daemon", daemon.decision_stream, daemon.process_id),
        ):
            recorded = [(each, name == "trivial" or allowed) for each, allowed in asked]
            for rate in (None, RATE):
                file, digest = _write(directory, recorded, seconds, rate)
                for tasks in TASKS:
                    plan = _plan(address, seconds, rate)
                    before = cpu_seconds(server)
                    lanes = [(replace(digest, lane=lane), file) for lane in range(tasks)]
                    run = run_tasks(plan, lanes)
                    used = cpu_seconds(server) - before
                    figures.append(_figures(name, plan, run, used))
    result = msgspec.msgpack.encode(_lengthen(run.results[0]))
    now = time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime())
    return Measured(
        at=now,
        cores=len(os.sched_getaffinity(0)),
        batch=BATCH,
        question_bytes=file.stat().st_size / digest.questions,
        answer_bytes=len(encode_answer(digest.frames, 0, digest.frames, bytes(BATCH))) / BATCH,
        shuffle_bytes=_FIXED_BYTES + fmean(len(question) for question, _ in asked),
        tasks=figures,
        drivers=[_measure_driver_apart(lanes, result) for lanes in LANES],
        barrier_s=_measure_barriers(directory) if with_spark else {},
        barrier_at=now,
    )


def _questions() -> Iterator[tuple[bytes, bool]]:
    """Yield the encoded questions of the set ``kind``, and their decisions."""
    snapshot, settings = build(kind().added()), AuthorizerSettings()
    for asked in kind().questions():
        fields = astuple(asked)
        yield msgspec.msgpack.encode(fields), authorize(snapshot, settings, *fields)


def _write(
    directory: Path, recorded: Sequence[tuple[bytes, bool]], seconds: float, rate: float | None
) -> tuple[Path, LaneDigest]:
    """Write the frames of a lane: at the rate, or those that a closed loop repeats."""
    file = directory / "frames"
    count = _CLOSED_QUESTIONS if rate is None else int(seconds * rate)
    timed = (
        TimedQuestion(0 if rate is None else int(number * US_PER_S / rate), allowed, question)
        for number, (question, allowed) in enumerate(islice(cycle(recorded), count))
    )
    linger_us = US_PER_S if rate is None else 1000
    with file.open("wb") as written:
        return file, write_frames(0, frames_of(timed, STREAM, BATCH, linger_us), written)


def _plan(address: str, seconds: float, rate: float | None) -> LoadPlan:
    return LoadPlan(
        events="",
        out="",
        target=address,
        run_id="scale",
        mode="closed" if rate is None else "open",
        rate=rate,
        warm_up_s=0.0 if rate is None else seconds / 4,
        duration_s=seconds if rate is None else seconds * 3 / 4,
        start_margin_s=0.5,
    )


def _figures(target: str, plan: LoadPlan, run: TaskRun, target_seconds: float) -> TaskFigures:
    report = merge(plan, run.results)
    if report.mismatches or report.errors or report.unanswered or report.latency is None:
        raise ProcessError(f"{target}: {report.mismatches} answers differ: {report.errors}")
    return TaskFigures(
        target=target,
        tasks=len(run.results),
        rate=plan.rate,
        served_per_s=report.served_per_s or 0.0,
        p99_ms=report.latency.corrected.p99_ms or 0.0,
        send_lag_ms=report.latency.send_lag.p99_ms or 0.0,
        skew_ms=max(report.start_skew_ms) - min(report.start_skew_ms),
        task_us=sum(run.cpu_seconds) / report.sent * 1e6,
        target_us=target_seconds / report.sent * 1e6,
        cores=(sum(run.cpu_seconds) + target_seconds + run.idle_seconds) / run.seconds,
    )


def merge(plan: LoadPlan, results: Sequence[LaneResult]) -> LoadReport:
    """Return the report of a run, as the driver makes it."""
    planned = planned_report(plan, results, events=1, rounds=1, not_asked={})
    return with_results(planned, results, plan)


def _lengthen(result: LaneResult) -> LaneResult:
    """Return a real result with its seconds repeated to ``TIMELINE_SECONDS``."""
    seconds = islice(cycle(result.timeline.values()), TIMELINE_SECONDS)
    return replace(result, timeline=dict(enumerate(seconds)))


def measure_driver(lanes: int, result: bytes) -> DriverFigures:
    """Return the driver's figures for ``lanes`` copies of a lane's result.

    The results arrive as bytes, as from Spark. Memory is the growth of this process's maximum.
    """
    one = msgspec.msgpack.decode(result, type=LaneResult)
    arrivals = [
        msgspec.json.encode(Arrival(lane, time.time(), one.sent)).decode() for lane in range(lanes)
    ]
    message = json.dumps(arrivals)
    begun = time.perf_counter()
    read = [msgspec.json.decode(text, type=Arrival) for text in json.loads(message)]
    agree_on_start(read, 3.0)
    message_s = time.perf_counter() - begun
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    collected = [
        msgspec.msgpack.encode(replace(one, planned=replace(one.planned, lane=lane)))
        for lane in range(lanes)
    ]
    begun = time.perf_counter()
    results = [msgspec.msgpack.decode(each, type=LaneResult) for each in collected]
    report = merge(_plan("", TIMELINE_SECONDS, RATE), results)
    merge_s = time.perf_counter() - begun
    assert report.sent == lanes * one.sent, "every result is merged once"
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return DriverFigures(
        lanes=lanes,
        seconds=len(one.timeline),
        result_bytes=sum(map(len, collected)),
        merge_s=merge_s,
        memory_bytes=(after - before) * 1024,
        message_bytes=len(message),
        message_s=message_s,
    )


def _measure_driver_apart(lanes: int, result: bytes) -> DriverFigures:
    # A process of its own, because it reports the memory that this took.
    with ProcessPoolExecutor(1, get_context("spawn")) as apart:
        return apart.submit(measure_driver, lanes, result).result()


def _measure_barriers(directory: Path) -> dict[int, float]:
    """Return how long Spark's barrier holds the last task, by number of tasks."""
    from tools.bench.replay_jobs import session_on

    held = {}
    for tasks in _BARRIERS:
        spark = session_on(directory, f"local[{tasks}]")
        try:
            each = spark.range(0, tasks, 1, tasks)
            # The first round starts the Python workers.
            for _ in range(2):
                rows = each.mapInArrow(_hold, "arrived double, left double", barrier=True).collect()
        finally:
            spark.stop()
        held[tasks] = max(row.left for row in rows) - max(row.arrived for row in rows)
    return held


def _hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import BarrierTaskContext

    for _ in batches:
        pass
    context = BarrierTaskContext.get()
    arrived = time.time()
    context.allGather(msgspec.json.encode(Arrival(context.partitionId(), arrived, 1)).decode())
    yield pa.RecordBatch.from_pydict({"arrived": [arrived], "left": [time.time()]})


def main(words: Sequence[str] | None = None) -> None:
    """Measure, print the tables, and write the page with ``--write``."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.load_scale")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE} and {FIGURES}")
    parser.add_argument("--spark", action="store_true", help="measure Spark's barrier, too")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each run")
    parsed = parser.parse_args(words)
    with TemporaryDirectory(prefix="load-scale-") as folder:
        measured = measure(Path(folder), parsed.seconds, with_spark=parsed.spark)
    if not parsed.spark and FIGURES.exists():
        before = msgspec.json.decode(FIGURES.read_bytes(), type=Measured)
        measured = replace(measured, barrier_s=before.barrier_s, barrier_at=before.barrier_at)
    print(format_figures(measured))
    if parsed.write:
        figures = msgspec.json.format(msgspec.json.encode(measured), indent=2)
        FIGURES.write_bytes(figures + b"\n")
        PAGE.write_text(replace_figures(PAGE.read_text(), measured))


if __name__ == "__main__":
    main()
