"""Say where a path of a job is, and pass it to Spark unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession


def escape_glob(uri: str) -> str:
    """Return a glob that matches only ``uri``; Spark reads every path as a glob."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", uri)


def local_path(spark: SparkSession, uri: str) -> Path | None:
    """Return the path of ``uri`` on this machine, or None if only Spark can reach it.

    A path is on this machine if it has no scheme, or ``file:``, and the master is local.
    """
    if not str(spark.conf.get("spark.master")).startswith("local"):
        return None
    if uri.startswith("file:"):
        return Path(unquote(urlsplit(uri).path))
    return None if "://" in uri else Path(uri)
