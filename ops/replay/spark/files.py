"""Small text files, read and written wherever Spark does: a disk, HDFS, an object store.

**Invariant:** a file is there whole or not at all, as far as the file system can rename.
"""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

TEXT_BYTES_MAX: Final = 256 * 1024 * 1024


def read_text(spark: SparkSession, uri: str) -> str:
    """Return the UTF-8 text of the file at ``uri``.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be read, or is larger than ``TEXT_BYTES_MAX``.
        UnicodeDecodeError: it is not UTF-8.
    """
    path, system = _located(spark, uri)
    try:
        if not system.exists(path):
            raise FileNotFoundError(f"{uri} is not there")
        size = system.getFileStatus(path).getLen()
        if size > TEXT_BYTES_MAX:
            raise OSError(f"{uri}: {size} bytes; at most {TEXT_BYTES_MAX} are read")
        stream = system.open(path)
        try:
            data: bytes = _java(spark).org.apache.commons.io.IOUtils.toByteArray(stream)
        finally:
            stream.close()
    except Py4JJavaError as error:
        raise OSError(_said(uri, error)) from error
    return bytes(data).decode()


def write_text(spark: SparkSession, uri: str, text: str) -> None:
    """Write a file in place of the one that may be there, making its directories.

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
        system.delete(path, False)
        if not system.rename(aside, path):
            raise OSError(f"{uri}: cannot be put in place of what is there")
    except Py4JJavaError as error:
        raise OSError(_said(uri, error)) from error


def is_occupied(spark: SparkSession, uri: str) -> bool:
    """Return whether ``uri`` is a file, or a directory that holds something.

    Raises:
        OSError: it cannot be looked at.
    """
    path, system = _located(spark, uri)
    try:
        return bool(system.exists(path) and len(system.listStatus(path)))
    except Py4JJavaError as error:
        raise OSError(_said(uri, error)) from error


def remove_file(spark: SparkSession, uri: str) -> None:
    """Remove a file; none there is as good.

    Raises:
        OSError: it cannot be removed.
    """
    path, system = _located(spark, uri)
    try:
        system.delete(path, False)
    except Py4JJavaError as error:
        raise OSError(_said(uri, error)) from error


def qualified(spark: SparkSession, uri: str) -> str:
    """Return ``uri`` in full, as the file system that it names lists its files.

    Raises:
        OSError: there is no such file system.
    """
    path, system = _located(spark, uri)
    return str(system.makeQualified(path).toString())


def _located(spark: SparkSession, uri: str) -> tuple[Any, Any]:
    """Return Hadoop's path and its file system; their types are Java's."""
    try:
        path = _java(spark).org.apache.hadoop.fs.Path(uri)
        return path, path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    except Py4JJavaError as error:
        raise OSError(_said(uri, error)) from error


def _java(spark: SparkSession) -> Any:  # noqa: ANN401 - py4j makes its attributes when asked
    return spark.sparkContext._jvm


def _said(uri: str, error: Py4JJavaError) -> str:
    first_line = str(error.java_exception.getMessage()).partition("\n")[0]
    return f"{uri}: {first_line}"
