"""Replay on generated audit logs: ingest and what-if with and without Spark, and load.

The sides of ``replay_sides`` take turns: each ingests the logs, and then applies fewer ACLs.

**Invariant:** a figure counts only if all sides find as many lines, distinct requests and events
that would be denied, and a what-if of the recorded ACLs changes no decision.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec
import pyarrow
from msgspec.structs import replace

from authorizerd.replay.ingest.parse.columns import EventReader
from authorizerd.replay.load.report import LoadReport
from authorizerd.replay.local.tallies import Summand, Tallies
from authorizerd.replay.whatif.report import decode_whatif
from tests.end_to_end.spark_cluster import running_cluster
from tools.bench.audit_logs import (
    TRAFFIC,
    Traffic,
    audit_lines,
    kind_traffic,
    write_audit_log,
    write_audit_logs,
)
from tools.bench.figures import MIB, MeasurementError, Peer, Row, row_of_rounds, rows
from tools.bench.replay_sides import (
    CORES,
    Counts,
    JobTime,
    Side,
    make_sides,
    read_result,
    sum_task_metrics,
    time_job,
    whatif_words,
    write_acls,
)
from tools.bench.run import Run, write_checkpoint
from tools.bench.sets import kind, number_acls
from tools.daemon_process import AUTHORIZERD, PATIENT, ready_daemon
from tools.processes import cpu_seconds, sampling, tree_bytes

GROWTH: Final = (1_000_000, 5_000_000, 20_000_000)
RATES: Final = (0, 1_000, 10_000, 40_000)
"""Questions per second of the loads; 0 is a closed loop."""
_LINES: Final = 5_000_000
_LINES_EACH: Final = 1_000_000
_PACKED_EACH: Final = 500_000
_ROUNDS: Final = 2
_FORM_ROUNDS: Final = 3
_CLOSED_ROUNDS: Final = 10
_TIME: Final = "2026-11-21T16:26:26.914Z"
_FIELD: Final = "event.original"
_MEMORY: Final = "3g"


Answers = Counter[bool]
"""The numbers of allowed and denied events."""


def _distinct(run: Run, traffic: Traffic) -> int:
    """Return the number of requests that lines are drawn from."""
    return run.pick(traffic.distinct, 500)


def measure_replay(run: Run) -> Iterator[Row]:
    """Measure JSON lines, the sides on each kind of traffic, and ``replay load`` on a daemon."""
    yield from _measure_wrapped_lines(run.pick(50_000, 1000), _distinct(run, kind_traffic()))
    for make_traffic in TRAFFIC.values():
        yield from _measure_sides(run, make_traffic())
    yield from _measure_load(run)


def _measure_sides(run: Run, traffic: Traffic) -> Iterator[Row]:
    place, lines = run.new_place("replay"), run.pick(_LINES, 5000)
    each = run.pick(_LINES_EACH, 2500)
    logs = write_audit_logs(
        place / "logs", traffic.name, lines, each, CORES, _distinct(run, traffic)
    )
    write_acls(place / "acls.tsv", traffic.candidate)
    write_checkpoint(place / "acls", number_acls(traffic.candidate))
    write_checkpoint(place / "recorded", number_acls(traffic.acls))
    with ExitStack() as stack:
        cluster = None
        if not run.is_quick:
            cluster = stack.enter_context(running_cluster(run.new_place("spark"), memory=_MEMORY))
        sides = make_sides(place, cluster)
        for _ in range(run.pick(_ROUNDS, 1)):
            counts = {
                side.name: side.run(place / f"{side.name}.log") for side in chain(*sides.values())
            }
            found = check_agreement(counts, lines)
    _check_recorded_acls(place)
    for way, (ours, peer) in sides.items():
        what = f"{lines:,} lines of {traffic.name}, {found.tuples:,} distinct requests, {way}"
        yield from _side_rows(what, lines, ours, peer)
        if way != "without Spark":
            # A side runs both commands in each round.
            first, *_ = sorted((place / "history").iterdir(), key=lambda each: each.stat().st_mtime)
            shuffled, spilled = sum_task_metrics(first)
            yield from rows(
                what,
                ("ingest, shuffled", "MiB", shuffled / MIB),
                ("ingest, spilled to disk", "MiB", spilled / MIB),
            )
    for log in logs:
        log.unlink()


def check_agreement(counts: dict[str, Counts], lines: int) -> Counts:
    """Return what all sides found; each must have found all ``lines``, and equally much."""
    first, *others = counts.values()
    if first.lines != lines or not first.newly_denied or others != [first] * len(others):
        raise MeasurementError(f"expected equal counts of {lines} lines, found {counts}")
    return first


def _check_recorded_acls(place: Path) -> None:
    out = place / "same"
    words = whatif_words(place / "local/table", place / "recorded", out)
    time_job([AUTHORIZERD, "replay", "whatif", *words], place / "same.log")
    report = decode_whatif(read_result(out / "whatif.json"))
    if report.newly_denied.events or report.newly_allowed.events:
        raise MeasurementError(f"the recorded ACLs change events: see {out}")


def _side_rows(what: str, lines: int, ours: Side, peer: Side) -> Iterator[Row]:
    def row(metric: str, unit: str, pick: Callable[[Side], list[float]], more: bool = False) -> Row:
        figures = pick(ours), peer.name, pick(peer)
        return row_of_rounds(what, metric, unit, *figures, more_is_better=more)

    def rates(side: Side) -> list[float]:
        return [lines / each.seconds / CORES for each in side.ingests]

    yield row("ingest, for a core", "lines/s", rates, more=True)
    yield row("ingest, CPU for a line", "µs", lambda side: _cpu(side.ingests, lines / 1e6))
    yield row("what-if", "s", lambda side: [each.seconds for each in side.whatifs])
    yield row("what-if, CPU", "s", lambda side: _cpu(side.whatifs, 1.0))


def _cpu(times: Sequence[JobTime], divisor: float) -> list[float]:
    return [each.cpu / divisor for each in times]


def _measure_wrapped_lines(lines: int, distinct: int) -> Iterator[Row]:
    """Yield the lines in JSON that each engine reads per CPU-second, compared with plain lines.

    A figure counts only if all formats contain the same events. The formats are measured in turn.
    """
    plain = [*chain.from_iterable(audit_lines("kind", lines, distinct))]
    docker = ({"log": f"{line}\n", "stream": "stdout", "time": _TIME} for line in plain)
    named = ({"@timestamp": _TIME, "event": {"original": line}} for line in plain)
    forms: dict[str, tuple[str | None, list[bytes]]] = {
        "plain lines": (None, [line.encode() for line in plain]),
        "Docker's": (None, [*map(msgspec.json.encode, docker)]),
        f"--line-field {_FIELD}": (_FIELD, [*map(msgspec.json.encode, named)]),
    }
    for engine, read in (("in this process", _tally), ("in a task of Spark", _read_columns)):
        seconds: dict[str, list[float]] = {form: [] for form in forms}
        for _ in range(_FORM_ROUNDS):
            counts = []
            for form, (field, encoded) in forms.items():
                begun = time.process_time()
                counts.append(read(encoded, field))
                seconds[form].append(time.process_time() - begun)
            if counts[0].total() != lines or counts != counts[:1] * len(counts):
                raise MeasurementError(f"{engine}: expected equal events, found {counts}")
        peer, *others = ((form, lines / min(times)) for form, times in seconds.items())
        what = f"{lines:,} lines in JSON, {engine}"
        for form, rate in others:
            row = Row(what=what, metric=form, unit="lines/s", ours=rate, peer=Peer(*peer))
            yield replace(row, more_is_better=True)


def _tally(lines: Sequence[bytes], field: str | None) -> Answers:
    tallies = Tallies(UTC, field=field)
    tallies.add(lines)
    counts = Answers()
    for counted, tally in tallies:
        if isinstance(counted, Summand):
            counts[counted.allowed] += tally.lines
    return counts


def _read_columns(lines: Sequence[bytes], field: str | None) -> Answers:
    events = EventReader(UTC, "auto", field).read(pyarrow.array(lines, pyarrow.binary()))
    return Counter(allowed for allowed in events["allowed"].to_pylist() if allowed is not None)


def _measure_load(run: Run) -> Iterator[Row]:
    place, traffic = run.new_place("replay-load"), kind_traffic()
    log, table = place / "audit.log", place / "table"
    write_audit_log(log, traffic.name, run.pick(200_000, 20_000), _distinct(run, traffic))
    command: list[str | Path] = [AUTHORIZERD, "replay"]
    time_job([*command, "ingest", "--input", log, "--out", table], place / "ingest.log")
    # Without this, a pause of the whole machine counts as overload.
    with ready_daemon(place, run.log_of(kind()), PATIENT) as daemon:
        for rate in run.pick(RATES, (0, 1000)):
            out, before = place / f"load-{rate}", cpu_seconds(daemon.process_id)
            pace = ["--mode", "open", "--rate", str(rate), "--loop", "0"]
            if not rate:
                pace = ["--mode", "closed", "--loop", str(_CLOSED_ROUNDS)]
            words: list[str | Path] = [
                "--events", table, "--out", out, "--target", daemon.decision_stream, *pace,
                "--lanes", str(CORES), "--batch", "64", "--depth", "8",
                "--warmup", run.pick("1", "0"), "--duration", "4", "--max-send-lag", "1000",
            ]  # fmt: skip
            times = time_job([*command, "load", *words], place / "load.log")
            used = cpu_seconds(daemon.process_id) - before
            report = msgspec.json.decode(read_result(out / "load.json"), type=LoadReport)
            what = f"replay load, {CORES} lanes, {f'{rate:,} per second' if rate else 'closed'}"
            yield from _load_rows(what, report, used, times.cpu - used)


def _load_rows(what: str, report: LoadReport, used: float, own: float) -> Iterator[Row]:
    if report.mismatches or report.errors or report.unanswered:
        raise MeasurementError(
            f"{report.mismatches} answers differ, {report.unanswered} never came: {report.errors}"
        )
    if report.latency is None:
        raise MeasurementError(f"nothing was measured: {report.invalid_reasons}")
    corrected, lag = report.latency.corrected.p99_ms, report.latency.send_lag.p99_ms
    for metric, unit, ours in (
        ("decisions", "/s", report.served_per_s),
        ("p99, corrected", "ms", corrected),
        *([] if "closed" in what else [("send lag, p99", "ms", lag)]),
        ("the daemon's CPU for a decision", "µs", used / report.sent * 1e6),
        ("the command's CPU for a decision, planning included", "µs", own / report.sent * 1e6),
    ):
        if ours is None:
            raise MeasurementError(f"{what}: {metric} was not measured")
        yield Row(what=what, metric=metric, unit=unit, ours=ours)


def measure_growth(run: Run) -> Iterator[Row]:
    """Measure packed logs of growing size without Spark: 20 million lines are 7 GB of text."""
    sizes, place, traffic = (
        run.pick(GROWTH, (5000,)),
        run.new_place("replay-growth"),
        kind_traffic(),
    )
    each = run.pick(_PACKED_EACH, 2500)
    command: list[str | Path] = [AUTHORIZERD, "replay"]
    logs = write_audit_logs(
        place / "logs", traffic.name, max(sizes), each, CORES, _distinct(run, traffic), ".log.zst"
    )
    write_checkpoint(place / "acls", number_acls(traffic.candidate))
    table, out = place / "table", place / "whatif"
    for size in sizes:
        read = logs[: -(-size // each)]
        words: list[str | Path] = ["--input", *read, "--out", table, "--overwrite"]
        with sampling(partial(tree_bytes, os.getpid())) as peaks:
            ingest = time_job([*command, "ingest", *words], place / "ingest.log")
        whatif = time_job(
            [*command, "whatif", *whatif_words(table, place / "acls", out)], place / "whatif.log"
        )
        report = decode_whatif(read_result(out / "whatif.json"))
        if report.events != size or not report.newly_denied.events:
            raise MeasurementError(f"of {size} lines {report.events} became events")
        yield from rows(
            f"{size:,} packed lines, {CORES} cores",
            ("ingest", "lines/s", size / ingest.seconds),
            ("ingest, CPU for a line", "µs", ingest.cpu / size * 1e6),
            ("ingest, peak memory", "MiB", max(peaks) / MIB),
            ("table", "MiB", sum(file.stat().st_size for file in table.rglob("*.parquet")) / MIB),
            ("packed logs", "MiB", sum(log.stat().st_size for log in read) / MIB),
            ("what-if", "s", whatif.seconds),
            ("what-if, memory", "MiB", whatif.resident_bytes / MIB),
        )
    for log in logs:
        log.unlink()
