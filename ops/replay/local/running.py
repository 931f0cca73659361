"""Read the audit logs of a command, and write its results.

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
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.local.inputs import find_logs
from authorizerd.replay.local.traffic import Traffic, read_traffic
from authorizerd.replay.messages import MESSAGE
from authorizerd.replay.plans import IngestPlan


def read_logs(logs: IngestPlan, *, since_ms: int = -sys.maxsize) -> Traffic:
    """Return the traffic in the logs, without events before ``since_ms``. Blocks.

    Raises:
        NeedsSparkError: it is too much for one process.
        TrafficError: a log cannot be read.
    """
    return read_traffic(
        [str(path) for path in find_logs(logs.inputs)],
        line_format=msgspec.convert(logs.format, LineFormat),
        time_zone=logs.time_zone,
        bad_ratio_max=logs.bad_ratio_max,
        since_ms=since_ms,
    )


def read_accepted(logs: IngestPlan) -> Traffic:
    """Return the traffic in the logs, and print the line of an ingest. Blocks.

    Raises:
        NeedsSparkError: it is too much for one process.
        TrafficError: a log cannot be read, or too many lines were set aside.
    """
    traffic = read_logs(logs)
    print_lines([summary_line(traffic.ingested)])
    for path in traffic.damaged:
        print(f"{MESSAGE}{path}: the archive is damaged", file=sys.stderr, flush=True)
    if not traffic.ingested.accepted:
        raise TrafficError(why_not_accepted(traffic.ingested, logs.bad_ratio_max))
    return traffic


def print_lines(lines: Iterable[str]) -> None:
    """Print each line at once."""
    for line in lines:
        print(line, flush=True)


def remove_earlier(*earlier: Path) -> None:
    """Remove files and directories of an earlier run, if they exist.

    Raises:
        TrafficError: one cannot be removed.
    """
    try:
        for path in earlier:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error


def write_result(path: Path, text: str) -> None:
    """Write a file, so that no reader sees a part of it, and create its directories.

    Raises:
        TrafficError: it cannot be written.
    """
    aside = path.with_name(f"_{path.name}.being-written")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise TrafficError(f"--out: {error.filename}: {error.strerror}") from error
