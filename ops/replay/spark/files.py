"""Read and write small text files: with Python on the driver's machine, else with Spark.

Spark writes a text as a directory with one part file, and reads both such a directory and a file.

**Invariant:** on the driver's machine, no reader sees a partly written file. Elsewhere, Spark shows
a part file only when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from authorizerd.replay.spark.failures import SPARK_ERRORS, one_line
from authorizerd.replay.spark.paths import escape_glob, local_path

TEXT_BYTES_MAX: Final = 256 * 1024 * 1024

PATH_NOT_FOUND: Final = "PATH_NOT_FOUND"
"""Spark's name of the error for a path or a glob that matches nothing."""


def read_text(spark: SparkSession, uri: str) -> str:
    """Return the UTF-8 text of the file at ``uri``.

    Raises:
        FileNotFoundError: the file does not exist.
        OSError: it cannot be read, or is larger than ``TEXT_BYTES_MAX``.
        UnicodeDecodeError: it is not UTF-8.
    """
    path = local_path(spark, uri)
    if path is not None and not path.is_dir():
        if not path.exists():
            raise FileNotFoundError(f"{uri} does not exist")
        _check_size(uri, path.stat().st_size)
        return path.read_text(encoding="utf-8")
    with _naming(uri):
        sizes = [row.length for row in list_files(spark, escape_glob(uri)).collect()]
    if not sizes:
        raise FileNotFoundError(f"{uri} does not exist")
    _check_size(uri, sum(sizes))
    with _naming(uri):
        files = spark.read.format("binaryFile").load(escape_glob(uri)).orderBy("path")
        parts = files.select("path", "content").collect()
    return b"".join(row.content for row in parts).decode()


def write_text(spark: SparkSession, uri: str, text: str) -> None:
    """Write or replace a text that ends with a newline, and create its directories.

    Raises:
        OSError: it cannot be written.
    """
    path = local_path(spark, uri)
    if path is None:
        with _naming(uri):
            row = spark.createDataFrame([(text.removesuffix("\n"),)], "value string")
            row.coalesce(1).write.mode("overwrite").text(uri)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Named by the process, because two ingests may write the totals of a table at once.
    aside = path.with_name(f"_{path.name}.{os.getpid()}.being-written")
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, path)


def remove_file(spark: SparkSession, uri: str) -> None:
    """Remove a text if it exists. Where only Spark can reach it, an empty one remains.

    Raises:
        OSError: it cannot be removed.
    """
    path = local_path(spark, uri)
    if path is not None:
        path.unlink(missing_ok=True)
    elif is_occupied(spark, uri):
        with _naming(uri):
            nothing = spark.createDataFrame([], "value string")
            nothing.coalesce(1).write.mode("overwrite").text(uri)


def is_occupied(spark: SparkSession, uri: str) -> bool:
    """Return True if ``uri`` is a file, or a directory that is not empty.

    Where only Spark can reach it, empty files and names that begin with ``_`` or ``.`` do not
    count.

    Raises:
        OSError: its file system cannot be read.
    """
    path = local_path(spark, uri)
    if path is not None:
        return path.exists() and (not path.is_dir() or any(path.iterdir()))
    with _naming(uri):
        return not list_files(spark, escape_glob(uri)).isEmpty()


def list_files(spark: SparkSession, glob: str) -> DataFrame:
    """Return ``path``, ``length`` and ``modificationTime`` of the files at ``glob`` and below.

    Their content is not read. Empty files and names that begin with ``_`` or ``.`` are left out. If
    nothing matches, there are no rows.

    Raises:
        PySparkException, Py4JError: the file system cannot be read.
    """
    reading = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        files = reading.load(glob).where("length > 0")
        found = files.select("path", "length", "modificationTime")
        _ = found.schema  # Spark Connect looks for files only when it has to
        return found
    except AnalysisException as error:
        if error.getCondition() != PATH_NOT_FOUND:
            raise
        nothing = "path string, length long, modificationTime timestamp"
        return spark.createDataFrame([], nothing)


def _check_size(uri: str, size: int) -> None:
    if size > TEXT_BYTES_MAX:
        raise OSError(f"{uri}: {size} bytes exceed the limit of {TEXT_BYTES_MAX}")


@contextmanager
def _naming(uri: str) -> Iterator[None]:
    """Turn errors of Spark into OSErrors that name ``uri``."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise OSError(f"{uri}: {one_line(error)}") from error
