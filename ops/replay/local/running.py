"""Run a command on audit logs in this process: read them, and write the results.

**Invariant:** the files that both engines write are equal, byte for byte. A summary exists only
next to the results that it describes: it is removed first, and written last.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.report import summary_line, why_not_accepted
from authorizerd.replay.judging.index import build_index
from authorizerd.replay.local.comparing import compare, report_comparison
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.inputs import find_logs
from authorizerd.replay.local.traffic import Traffic, read_traffic
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE, MESSAGE
from authorizerd.replay.plans import IngestPlan, WhatIfPlan
from authorizerd.replay.text import encode_json
from authorizerd.replay.whatif.report import summary_lines


def run_whatif(logs: IngestPlan, plan: WhatIfPlan) -> int:
    """Write ``whatif.json``; return 3 if anything is newly denied, else 0. Blocks.

    Raises:
        NeedsSparkError: the logs are too much for one process.
        TrafficError: they cannot be read or are not accepted, or a result cannot be written.
    """
    out = Path(plan.out)
    # Spark also writes the directory "changes"; one of an earlier run would contradict this result.
    _remove(out / "whatif.json", out / "changes")
    traffic = read_accepted(logs)
    baseline = None if plan.baseline is None else build_index(plan.baseline)
    comparison = compare(traffic.tuples, baseline, build_index(plan.candidate))
    report = report_comparison(traffic, plan.baseline, plan.candidate, comparison)
    _write(out / "whatif.json", encode_json(report))
    _print(summary_lines(report))
    return EXIT_DENIED if report.newly_denied.tuples else EXIT_DONE


def read_accepted(logs: IngestPlan) -> Traffic:
    """Return the traffic in the logs, and print the line of an ingest. Blocks.

    Raises:
        NeedsSparkError: it is too much for one process.
        TrafficError: a log cannot be read, or too many lines were set aside.
    """
    traffic = read_traffic(
        [str(path) for path in find_logs(logs.inputs)],
        line_format=msgspec.convert(logs.format, LineFormat),
        time_zone=logs.time_zone,
        bad_ratio_max=logs.bad_ratio_max,
    )
    _print([summary_line(traffic.ingested)])
    for path in traffic.damaged:
        print(f"{MESSAGE}{path}: the archive is damaged", file=sys.stderr, flush=True)
    if not traffic.ingested.accepted:
        raise TrafficError(why_not_accepted(traffic.ingested, logs.bad_ratio_max))
    return traffic


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def _remove(*earlier: Path) -> None:
    try:
        for path in earlier:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    """Write a file, so that no reader sees a part of it, and create its directories."""
    aside = path.with_name(f"_{path.name}.being-written")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error
