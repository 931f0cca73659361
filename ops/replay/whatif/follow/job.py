"""The job of ``replay whatif --follow``: count a topic's records until a time limit or a signal.

**Invariant:** the report describes exactly the records that were counted. If a job ends between
the two, the next one writes a report, whether or not there are more records.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.report import why_not_accepted
from authorizerd.replay.messages import STOP_FILE
from authorizerd.replay.plans import FollowPlan
from authorizerd.replay.whatif.evaluation import print_summary
from authorizerd.replay.whatif.follow.batches import (
    count_records,
    open_watch,
    read_figures,
    write_reports,
)
from authorizerd.replay.whatif.report import WhatIf, find_new_denials

_POLL_S: Final = 0.5


def run(spark: SparkSession, plan: FollowPlan) -> int:
    """Write ``whatif.json`` and ``ingest.json`` after each batch, until the time is up.

    Return the exit code of ``print_summary``.

    Raises:
        JobError: ``out`` contains other files, the topic cannot be read, there are too many
            distinct requests, or too many records were set aside.
        OSError: a file cannot be read or written.
    """
    is_stopped = _receive_stops()
    open_watch(spark, plan)
    code = print_summary(plan.whatif, _follow(spark, plan, is_stopped))
    ingested = read_figures(spark, plan)
    if not ingested.accepted:
        raise JobError(why_not_accepted(ingested, plan.ingest.bad_ratio_max))
    return code


def _follow(spark: SparkSession, plan: FollowPlan, is_stopped: Callable[[], bool]) -> WhatIf:
    """Count and report until the time is up, or a signal arrives; return the last report."""
    known: set[tuple[str, ...]] = set()
    report: WhatIf | None = None
    ends_at = math.inf if plan.duration_s is None else time.monotonic() + plan.duration_s
    while True:
        due_at = time.monotonic() + plan.interval_s
        # At the end of the watch, count the records that came since the last interval.
        is_last = time.monotonic() >= ends_at
        # The ACLs of a watch that continues may be others.
        if count_records(spark, plan) or report is None:
            report = write_reports(spark, plan)
        for line in find_new_denials(report, known):
            print(line, flush=True)
        while not is_last and time.monotonic() < min(due_at, ends_at) and not is_stopped():
            time.sleep(_POLL_S)
        if is_last or is_stopped():
            return report


def _receive_stops() -> Callable[[], bool]:
    """Return a function that returns True once the job is asked to end."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    # spark-submit does not pass signals on to Python, so the command creates a file.
    file = os.environ.get(STOP_FILE)
    return lambda: stopped.is_set() or (file is not None and Path(file).exists())
