"""Say where a path of a job is, and pass it to Spark unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from authorizerd.replay.spark.session import is_local, is_remote

_LOCAL: Final = re.compile(r"(?s)file:(?://[^/]*)?(.*)")
"""The path is as it is: Hadoop does not decode ``%20``, and ``?`` and ``#`` belong to it, too."""


def escape_glob(uri: str) -> str:
    """Return a glob that matches only ``uri``; Spark reads every path as a glob."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", uri)


def local_path(spark: SparkSession, uri: str) -> Path | None:
    """Return the path of ``uri`` on the driver's machine, or None if only Spark can reach it.

    ``file:`` is the driver's machine, and so is a path without a scheme if the master is local.
    With Spark Connect, both are the server's machine.
    """
    if is_remote(spark):
        return None
    found = _LOCAL.fullmatch(uri)
    if found is not None:
        return Path(found[1])
    return Path(uri) if is_local(spark) and "://" not in uri else None
