"""Sessions that only have settings, for code that asks whether Spark is needed at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_on(master: str) -> SparkSession:
    return cast("SparkSession", SimpleNamespace(conf={"spark.master": master}))


LOCAL = session_on("local[1]")
