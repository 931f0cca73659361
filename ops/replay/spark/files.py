"""Read and write small text files on any file system of Spark: disks, HDFS, object stores.

**Invariant:** no reader sees a partly written file, if the file system's rename is atomic.
"""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

TEXT_BYTES_MAX: Final = 256 * 1024 * 1024


def read_text(spark: SparkSession, uri: str) -> str:
    """Return the UTF-8 text of the file at ``uri``.

    Raises:
        FileNotFoundError: the file does not exist.
        OSError: it cannot be read, or is larger than ``TEXT_BYTES_MAX``.
        UnicodeDecodeError: it is not UTF-8.
    """
    path, system = _located(spark, uri)
    try:
        if not system.exists(path):
            raise FileNotFoundError(f"{uri} does not exist")
        size = system.getFileStatus(path).getLen()
        if size > TEXT_BYTES_MAX:
            raise OSError(f"{uri}: {size} bytes exceed the limit of {TEXT_BYTES_MAX}")
        stream = system.open(path)
        try:
            data: bytes = _java(spark).org.apache.commons.io.IOUtils.toByteArray(stream)
        finally:
            stream.close()
    except Py4JJavaError as error:
        raise OSError(_said(uri, error)) from error
    return bytes(data).decode()


def write_text(spark: SparkSession, uri: str, text: str) -> None:
    """Write or replace a file, and create its directories.

    Raises:
        OSError: it cannot be written.
    """
    path, system = _located(spark, uri)
    aside = _java(spark).org.apache.hadoop.fs.Path(
        path.getParent(), f"_{path.getName()}.being-written"
    )
    try:
        stream = system.create(aside, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        # Not atomic: Hadoop's rename does not replace a file on every file system.
        system.delete(path, False)
        if not system.rename(aside, path):
            raise OSError(f"{uri}: the old file cannot be replaced")
    except Py4JJavaError as error:
        raise OSError(_said(uri, error)) from error


def is_occupied(spark: SparkSession, uri: str) -> bool:
    """Return True if ``uri`` is a file, or a directory that is not empty.

    Raises:
        OSError: its file system cannot be read.
    """
    path, system = _located(spark, uri)
    try:
        return bool(system.exists(path) and len(system.listStatus(path)))
    except Py4JJavaError as error:
        raise OSError(_said(uri, error)) from error


def remove_file(spark: SparkSession, uri: str) -> None:
    """Remove a file if it exists.

    Raises:
        OSError: it cannot be removed.
    """
    path, system = _located(spark, uri)
    try:
        system.delete(path, False)
    except Py4JJavaError as error:
        raise OSError(_said(uri, error)) from error


def qualified(spark: SparkSession, uri: str) -> str:
    """Return ``uri`` in the absolute form in which its file system lists files.

    Raises:
        OSError: the file system is unknown.
    """
    path, system = _located(spark, uri)
    return str(system.makeQualified(path).toString())


def _located(spark: SparkSession, uri: str) -> tuple[Any, Any]:
    """Return Hadoop's path and file system, which are Java objects."""
    try:
        path = _java(spark).org.apache.hadoop.fs.Path(uri)
        return path, path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    except Py4JJavaError as error:
        raise OSError(_said(uri, error)) from error


def _java(spark: SparkSession) -> Any:  # noqa: ANN401 - py4j resolves attributes at run time
    return spark.sparkContext._jvm


def _said(uri: str, error: Py4JJavaError) -> str:
    first_line = str(error.java_exception.getMessage()).partition("\n")[0]
    return f"{uri}: {first_line}"
