"""``replay load`` on a live daemon: the rate and the punctuality of two Spark tasks.

    python -m tools.bench.replay_load LOG DIRECTORY TARGET PROCESS_ID

**Invariant:** every answer equals the recorded one, or the run fails. Daemon and Spark share the
machine's cores, so the table also has the CPU-seconds of each.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.replay.ingest import job as ingest
from authorizerd.replay.load import job as load
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.plans import IngestPlan, LoadPlan
from tools.bench import audit_logs
from tools.bench.daemon_process import PATIENT, ready_daemon
from tools.bench.figures import Line
from tools.bench.processes import Command, ProcessError, capture_json, cpu_seconds
from tools.bench.replay_jobs import CORES, JobTime, local_session, time_job

LINES: Final = 200_000
RATES: Final = (1_000, 10_000, 40_000)
"""Questions per second of the open loads."""

_WARM_UP_SECONDS: Final = 1.0
_SECONDS: Final = 4.0
_CLOSED_ROUNDS: Final = 10
_BATCH: Final = 64
_DEPTH: Final = 8
_SEND_LAG_MS: Final = 1000.0
_TIMEOUT_SECONDS: Final = 600.0


class LoadFigures(msgspec.Struct, frozen=True):
    """One load; ``rate`` is None for the closed loop. Times are p99."""

    rate: int | None
    served_per_s: float
    corrected_ms: float
    send_lag_ms: float
    sent: int
    daemon_cpu: float
    spark: JobTime


def measure_load(log_dir: Path, directory: Path) -> list[Line]:
    """Return the lines of a daemon with the set ``kind``, whose log is ``log_dir``.

    Raises:
        ProcessError: an answer differs from the recorded one, or a job failed.
    """
    place = directory / "replay-load"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    log = place / "audit.log"
    audit_logs.write_audit_log(log, LINES)
    # Without this, a pause of the whole machine counts as overload.
    with ready_daemon(place, log_dir, PATIENT) as daemon:
        command: Command = [
            sys.executable, "-m", "tools.bench.replay_load",
            log, place, daemon.decision_stream, str(daemon.process_id),
        ]  # fmt: skip
        found = capture_json(command, list[LoadFigures], timeout_seconds=_TIMEOUT_SECONDS)
    return [line for figures in found for line in _lines(figures)]


def _lines(figures: LoadFigures) -> list[Line]:
    pace = "closed" if figures.rate is None else f"{figures.rate:,} a second"
    where = f"replay load, {CORES} tasks, {pace}"
    lines = [
        Line(
            what=f"{where}: decisions",
            unit="/s",
            ours=figures.served_per_s,
            more_is_better=True,
        ),
        Line(what=f"{where}: p99, corrected", unit="ms", ours=figures.corrected_ms),
    ]
    if figures.rate is not None:
        lines.append(Line(what=f"{where}: send lag, p99", unit="ms", ours=figures.send_lag_ms))
    return [
        *lines,
        Line(
            what=f"{where}: the daemon's CPU for a decision",
            unit="µs",
            ours=figures.daemon_cpu / figures.sent * 1e6,
        ),
        Line(
            what=f"{where}: Spark's CPU for a decision, planning included",
            unit="µs",
            ours=figures.spark.cpu / figures.sent * 1e6,
        ),
    ]


def drive(log: Path, directory: Path, target: str, process_id: int) -> Sequence[LoadFigures]:
    """Ingest ``log``, then send its questions to ``target``: closed loop, then each rate.

    Raises:
        ProcessError: an answer differs from the recorded one.
    """
    spark = local_session(directory)
    try:
        events = str(directory / "events")
        # Only to redirect the output: the ingest is not measured here.
        with time_job([]):
            if ingest.run(spark, IngestPlan(inputs=(str(log),), out=events, overwrite=True)):
                raise ProcessError(f"the ingest of {log} was not accepted")
        found = []
        for rate in (None, *RATES):
            out = directory / f"load-{rate}"
            plan = LoadPlan(
                events=events,
                out=str(out),
                target=target,
                run_id=f"bench-{rate}",
                mode="closed" if rate is None else "open",
                rate=rate,
                lanes=CORES,
                batch=_BATCH,
                depth=_DEPTH,
                loop=_CLOSED_ROUNDS if rate is None else 0,
                warm_up_s=_WARM_UP_SECONDS,
                duration_s=_SECONDS,
                max_send_lag_ms=_SEND_LAG_MS,
                overwrite=True,
            )
            before, times = cpu_seconds(process_id), list[JobTime]()
            with time_job(times):
                load.run(spark, plan)
            used = cpu_seconds(process_id) - before
            report = msgspec.json.decode((out / "load.json").read_bytes(), type=LoadReport)
            found.append(_figures(report, rate, used, times[0]))
    finally:
        spark.stop()
    return found


def _figures(report: LoadReport, rate: int | None, cpu: float, spark: JobTime) -> LoadFigures:
    if report.mismatches or report.errors or report.unanswered:
        raise ProcessError(
            f"{report.mismatches} answers differ, {report.unanswered} never came: {report.errors}"
        )
    if report.latency is None or report.served_per_s is None:
        raise ProcessError(f"nothing was measured: {report.invalid_reasons}")
    return LoadFigures(
        rate=rate,
        served_per_s=report.served_per_s,
        corrected_ms=report.latency.corrected.p99_ms or 0.0,
        send_lag_ms=report.latency.send_lag.p99_ms or 0.0,
        sent=report.sent,
        daemon_cpu=cpu,
        spark=spark,
    )


if __name__ == "__main__":
    figures = drive(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    sys.stdout.buffer.write(msgspec.json.encode(figures) + b"\n")
