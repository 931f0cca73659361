"""Print the running stages and their progress every few seconds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from authorizerd.replay.messages import PROGRESS

SECONDS_BETWEEN: Final = 3.0


@contextmanager
def printing_progress(
    spark: SparkSession, seconds_between: float = SECONDS_BETWEEN
) -> Iterator[None]:
    """Print the progress while the block runs."""
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
