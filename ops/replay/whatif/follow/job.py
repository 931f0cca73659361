"""The job of ``replay whatif --follow``: process a topic's batches until a time limit or a signal.

**Invariant:** the report describes exactly the records that were counted. Spark counts a batch as
done once its reports are written, so it repeats a batch that ended before.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.report import why_not_accepted
from authorizerd.replay.messages import STOP_FILE
from authorizerd.replay.plans import FollowPlan
from authorizerd.replay.spark.driver_output import trace
from authorizerd.replay.spark.files import read_text
from authorizerd.replay.spark.topics import explain, stream_records
from authorizerd.replay.whatif.evaluation import print_summary
from authorizerd.replay.whatif.follow.announcing import Announcer
from authorizerd.replay.whatif.follow.batches import open_watch, read_figures, take_batch
from authorizerd.replay.whatif.report import WhatIf, decode_whatif

RECORDS_A_SECOND_MAX: Final = 100_000

_POLL_S: Final = 1
_BATCH_SECONDS_MAX: Final = 600


def run(spark: SparkSession, plan: FollowPlan) -> int:
    """Write ``whatif.json`` and ``ingest.json`` after each batch, until the time is up.

    Return the exit code of ``print_summary``.

    Raises:
        JobError: ``out`` contains other files, the topic cannot be read, there are too many
            distinct requests, or too many records were set aside.
        OSError: a file cannot be read or written.
    """
    open_watch(spark, plan)
    _follow(spark, plan)
    report = _read_report(spark, plan)
    code = print_summary(plan.whatif, report)
    ingested = read_figures(spark, plan)
    if not ingested.accepted:
        raise JobError(why_not_accepted(ingested, plan.ingest.bad_ratio_max))
    return code


def _follow(spark: SparkSession, plan: FollowPlan) -> None:
    """Run the batches until the time is up, or a signal arrives."""
    records = stream_records(
        spark,
        plan.topic,
        from_beginning=plan.from_beginning,
        records_max=RECORDS_A_SECOND_MAX * plan.interval_s,
    )
    writer = records.writeStream.foreachBatch(partial(take_batch, plan))
    writer = writer.option("checkpointLocation", f"{plan.whatif.events}/checkpoint")
    announcer = Announcer()
    is_stopped = _receive_stops()
    ends_at = math.inf if plan.duration_s is None else time.monotonic() + plan.duration_s
    try:
        query = writer.trigger(processingTime=f"{plan.interval_s} seconds").start()
        announced = None
        while time.monotonic() < ends_at and not is_stopped():
            if query.awaitTermination(_POLL_S):
                break
            progress: Any = query.lastProgress
            if progress and progress["batchId"] != announced:
                announced = progress["batchId"]
                announcer.announce(_read_report(spark, plan))
        _wait_until_idle(query)
        query.stop()
        if not is_stopped():
            # Count the records up to the end of the watch, which need not be the end of an
            # interval.
            writer.trigger(availableNow=True).start().awaitTermination()
    except StreamingQueryException as error:
        trace(str(error))
        raise JobError(f"{plan.topic.uri}: {explain(error)}") from error
    announcer.announce(_read_report(spark, plan))


def _receive_stops() -> Callable[[], bool]:
    """Return a function that returns True once the job is asked to end."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    # spark-submit does not pass signals on to Python, so the command creates a file.
    file = os.environ.get(STOP_FILE)
    return lambda: stopped.is_set() or (file is not None and Path(file).exists())


def _wait_until_idle(query: StreamingQuery) -> None:
    """Wait until no batch is running, at most ``_BATCH_SECONDS_MAX``."""
    ends_at = time.monotonic() + _BATCH_SECONDS_MAX
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < ends_at:
        time.sleep(_POLL_S)


def _read_report(spark: SparkSession, plan: FollowPlan) -> WhatIf:
    try:
        return decode_whatif(read_text(spark, f"{plan.out}/whatif.json"))
    except FileNotFoundError as error:
        raise JobError(f"{plan.topic.uri}: the watch ended before its first report") from error
