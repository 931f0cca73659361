"""Describe the running jobs in Spark's UI, as ``ingest: write events``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from authorizerd.replay.spark.session import is_remote

_DESCRIPTION: Final = "spark.job.description"


@contextmanager
def describe(spark: SparkSession, text: str) -> Iterator[None]:
    """Add ``text`` to the description of the jobs that this thread starts in the block.

    Only an action starts jobs: a block that only makes a DataFrame describes nothing. With Spark
    Connect, which sets the descriptions itself, ``text`` is a tag of the operations.
    """
    if is_remote(spark):
        tag = text.replace(",", "")  # which Spark does not allow in tags
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"{before}: {text}" if before else text)
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type] # None removes it
