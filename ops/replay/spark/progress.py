"""A line each few seconds while Spark works: which stages run, and how far they are."""

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
def telling_progress(
    spark: SparkSession, seconds_between: float = SECONDS_BETWEEN
) -> Iterator[None]:
    """Tell of progress for as long as the block runs."""
    done = threading.Event()
    teller = threading.Thread(
        target=_tell, args=(spark.sparkContext, done, seconds_between), daemon=True
    )
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(context: SparkContext, done: threading.Event, seconds_between: float) -> None:
    before = ""
    while not done.wait(seconds_between):
        try:
            now = stages_text(context)
        except Py4JError:
            return  # Spark has gone, and the job's own thread says so
        if now and now != before:
            print(f"{PROGRESS}{now}", flush=True)
        before = now


def stages_text(context: SparkContext) -> str:
    """Return how far the stages are that run now; empty if none does."""
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
