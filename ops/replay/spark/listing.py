"""Paths and URIs on Spark: which machine has them, and which files are below them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.plain_files import FILE_URI
from authorizerd.replay.spark.failures import SPARK_ERRORS, one_line
from authorizerd.replay.spark.session import is_local, is_remote

PATH_NOT_FOUND: Final = "PATH_NOT_FOUND"
"""Spark's name of the error for a path or a glob that matches nothing."""


def local_path(spark: SparkSession, uri: str) -> Path | None:
    """Return the path of ``uri`` on the driver's machine, or None if only Spark can reach it.

    ``file:`` is the driver's machine, and so is a path without a scheme if the master is local.
    With Spark Connect, both are the server's machine.
    """
    if is_remote(spark):
        return None
    found = FILE_URI.fullmatch(uri)
    if found is not None:
        return Path(found[1])
    return Path(uri) if is_local(spark) and "://" not in uri else None


def escape_glob(uri: str) -> str:
    """Return a glob that matches only ``uri``; Spark reads every path as a glob."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", uri)


def file_of_row() -> Column:
    """Return the URI of the file of each row; all versions of Spark, and other readers, agree."""
    return sql.regexp_replace("_metadata.file_path", "^file:/(?!/)", "file:///").alias("file")


def list_files(spark: SparkSession, glob: str) -> list[Row]:
    """Return ``path``, ``length`` and ``modified_ms`` of the files at ``glob`` and below.

    Empty files and names that begin with ``_`` or ``.`` are left out.

    Raises:
        OSError: the file system cannot be read.
    """
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    modified_ms = sql.unix_millis("modificationTime").alias("modified_ms")
    with naming(glob):
        try:
            # Spark does not read the content of a file that is only listed.
            found = files.load(glob).where("length > 0")
            return found.select("path", "length", modified_ms).collect()
        except AnalysisException as error:
            if error.getCondition() == PATH_NOT_FOUND:
                return []
            raise


@contextmanager
def naming(uri: str) -> Iterator[None]:
    """Turn errors of Spark into OSErrors that name ``uri``."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise OSError(f"{uri}: {one_line(error)}") from error
