"""Read, write and remove whole texts, wherever they are; see ``storage``."""

from __future__ import annotations

from pyspark.sql import SparkSession

from authorizerd.replay.spark.storage import open_storage


def read_text(spark: SparkSession, uri: str) -> str:
    """Return the UTF-8 text of the file at ``uri``.

    Raises:
        FileNotFoundError: the file does not exist, or was not written completely.
        OSError: it cannot be read, or is larger than ``TEXT_BYTES_MAX``.
        UnicodeDecodeError: it is not UTF-8.
    """
    return open_storage(spark, uri).read(uri).decode()


def write_text(spark: SparkSession, uri: str, text: str) -> None:
    """Write or replace a text that ends with a newline, and create its directories.

    Raises:
        OSError: it cannot be written.
    """
    open_storage(spark, uri).replace(uri, text.encode())


def remove(spark: SparkSession, uri: str) -> None:
    """Remove a file, or a directory with everything in it, if it exists.

    Raises:
        OSError: it cannot be removed.
    """
    open_storage(spark, uri).remove(uri)


def is_occupied(spark: SparkSession, uri: str) -> bool:
    """Return True if ``uri`` is a file, or a directory that is not empty.

    Raises:
        OSError: its file system cannot be read.
    """
    return open_storage(spark, uri).is_occupied(uri)
