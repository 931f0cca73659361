"""Print the running stages and their progress every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from authorizerd.replay.messages import PROGRESS
from authorizerd.replay.spark.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo

SECONDS_BETWEEN: Final = 3.0


@contextmanager
def printing_progress(
    spark: SparkSession, seconds_between: float = SECONDS_BETWEEN
) -> Iterator[None]:
    """Print the progress while the block runs."""
    if is_remote(spark):
        handler = _print_remote_progress(seconds_between)
        spark.registerProgressHandler(handler)
        try:
            yield
        finally:
            spark.removeProgressHandler(handler)
        return
    done = threading.Event()
    printer = threading.Thread(
        target=_print_progress, args=(spark.sparkContext, done, seconds_between), daemon=True
    )
    printer.start()
    try:
        yield
    finally:
        done.set()
        printer.join()


def _print_remote_progress(seconds_between: float) -> ProgressHandler:
    """Return a function that prints what Spark Connect reports, at most once per interval."""
    due = time.monotonic() + seconds_between

    def print_progress(stages: Iterable[StageInfo] | None, *_: object, **__: object) -> None:
        nonlocal due
        texts = [
            f"stage {stage.stage_id}: {stage.num_completed_tasks} of {stage.num_tasks} tasks"
            for stage in stages or ()
            if not stage.done
        ]
        if texts and time.monotonic() >= due:
            due = time.monotonic() + seconds_between
            print(f"{PROGRESS}{'; '.join(texts)}", flush=True)

    # A plain function is enough; only PySpark's type annotation requires its class.
    return cast("ProgressHandler", print_progress)


def _print_progress(context: SparkContext, done: threading.Event, seconds_between: float) -> None:
    before = ""
    while not done.wait(seconds_between):
        try:
            now = stages_text(context)
        except Py4JError:
            return  # Spark has ended, which the job's own thread reports
        if now and now != before:
            print(f"{PROGRESS}{now}", flush=True)
        before = now


def stages_text(context: SparkContext) -> str:
    """Return the progress of the running stages; empty if none is running."""
    tracker = context.statusTracker()
    texts = []
    for number in sorted(tracker.getActiveStageIds()):
        stage = tracker.getStageInfo(number)
        if stage is not None:
            waiting = "" if stage.numActiveTasks or stage.numCompletedTasks else ", none started"
            texts.append(
                f"stage {number}: {stage.numCompletedTasks} of {stage.numTasks} tasks{waiting}"
            )
    return "; ".join(texts)
