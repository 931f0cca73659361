"""Read, write and list files: with Python on the driver's machine, else with Spark.

Spark writes a text as a directory with one part file, and reads both such a directory and a file.

**Invariant:** on the driver's machine, no reader sees a partly written file. Elsewhere, Spark shows
a part file only when it is complete.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.spark.failures import SPARK_ERRORS, one_line
from authorizerd.replay.spark.session import is_local, is_remote
from authorizerd.replay.text import write_file

TEXT_BYTES_MAX: Final = 256 * 1024 * 1024

PATH_NOT_FOUND: Final = "PATH_NOT_FOUND"
"""Spark's name of the error for a path or a glob that matches nothing."""

_LOCAL: Final = re.compile(r"(?s)file:(?://[^/]*)?(.*)")
"""The path is not encoded: Hadoop does not decode ``%20``, and ``?`` and ``#`` are part of it."""


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


def read_text(spark: SparkSession, uri: str) -> str:
    """Return the UTF-8 text of the file at ``uri``: of several writers on Spark, the first one's.

    Raises:
        FileNotFoundError: the file does not exist.
        OSError: it cannot be read, or is larger than ``TEXT_BYTES_MAX``.
        UnicodeDecodeError: it is not UTF-8.
    """
    path = local_path(spark, uri)
    if path is None or path.is_dir():
        parts = list_files(spark, escape_glob(uri))
        if not parts:
            raise FileNotFoundError(f"{uri} does not exist")
        first = min(parts, key=lambda part: (part.modified_ms, part.path))
        _check_size(uri, first.length)
        with _naming(uri):
            (row,) = spark.read.format("binaryFile").load(escape_glob(first.path)).collect()
        return bytes(row.content).decode()
    if not path.exists():
        raise FileNotFoundError(f"{uri} does not exist")
    _check_size(uri, path.stat().st_size)
    return path.read_text(encoding="utf-8")


def write_text(spark: SparkSession, uri: str, text: str) -> None:
    """Write or replace a text that ends with a newline, and create its directories.

    Raises:
        OSError: it cannot be written.
    """
    path = local_path(spark, uri)
    if path is None:
        _write_on_spark(spark, uri, [(text.removesuffix("\n"),)])
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text)


def remove_file(spark: SparkSession, uri: str) -> None:
    """Remove a text if it exists. If only Spark can reach it, an empty one remains.

    Raises:
        OSError: it cannot be removed.
    """
    path = local_path(spark, uri)
    if path is not None:
        path.unlink(missing_ok=True)
    elif is_occupied(spark, uri):
        _write_on_spark(spark, uri, [])


def remove_parquet(spark: SparkSession, uri: str) -> None:
    """Remove a directory of Parquet files. If only Spark can reach it, an empty one remains.

    Raises:
        OSError: its file system cannot be read or written.
    """
    path = local_path(spark, uri)
    if path is not None:
        shutil.rmtree(path, ignore_errors=True)
    elif is_occupied(spark, uri):
        with _naming(uri):
            # Partitioned, so that Spark writes no file for an empty set of rows.
            nothing = spark.createDataFrame([], "value string, day date").write.partitionBy("day")
            nothing.option("partitionOverwriteMode", "static").mode("overwrite").parquet(uri)


def is_occupied(spark: SparkSession, uri: str) -> bool:
    """Return True if ``uri`` is a file, or a directory that is not empty.

    If only Spark can reach it, empty files and names that begin with ``_`` or ``.`` do not count.

    Raises:
        OSError: its file system cannot be read.
    """
    path = local_path(spark, uri)
    if path is not None:
        return path.exists() and (not path.is_dir() or any(path.iterdir()))
    return bool(list_files(spark, escape_glob(uri)))


def list_files(spark: SparkSession, glob: str) -> list[Row]:
    """Return ``path``, ``length`` and ``modified_ms`` of the files at ``glob`` and below.

    Empty files and names that begin with ``_`` or ``.`` are left out.

    Raises:
        OSError: the file system cannot be read.
    """
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    modified_ms = sql.unix_millis("modificationTime").alias("modified_ms")
    with _naming(glob):
        try:
            # Spark does not read the content of a file that is only listed.
            found = files.load(glob).where("length > 0")
            return found.select("path", "length", modified_ms).collect()
        except AnalysisException as error:
            if error.getCondition() == PATH_NOT_FOUND:
                return []
            raise


def _write_on_spark(spark: SparkSession, uri: str, rows: list[tuple[str]]) -> None:
    with _naming(uri):
        text = spark.createDataFrame(rows, "value string").coalesce(1)
        text.write.mode("overwrite").text(uri)


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
