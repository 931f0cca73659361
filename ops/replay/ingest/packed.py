"""Read compressed files as streams of bytes, on any file system of Spark.

**Invariant:** a task holds a few rows of a compressed file, never the whole file. The rows
reproduce its exact bytes; if any are missing, the file counts as damaged.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.parse.logs import PIECE_BYTES, BinaryFile, find_suffix
from authorizerd.replay.spark.listing import escape_glob, file_of_row

ROW_BYTES_MAX: Final = 16 * 1024 * 1024
"""Hadoop drops longer rows. Compressed data contains a line feed about every 256 bytes."""
_PASSED_THROUGH: Final = (
    "io.compress.passthrough.extension",
    # The build of Hadoop that Spark contains renames the key.
    "org.apache.hadoop.shaded.io.compress.passthrough.extension",
)


def packed_rows(spark: SparkSession, uris: Iterable[str]) -> DataFrame:
    """Return rows of ``packed``, ``file`` and ``size``.

    ``packed`` contains the bytes of the file up to the next line feed. The rows of a file
    are in order, in one partition.
    """
    # Not Spark's binaryFile: its row is a whole file, in the memory of the JVM and of Python.
    by_suffix = groupby(sorted(uris, key=_suffix_of), _suffix_of)
    return reduce(
        DataFrame.unionByName, (_rows(spark, suffix, tuple(of)) for suffix, of in by_suffix)
    )


def packed_files(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[tuple[str, BinaryFile]]:
    """Yield the URI and the bytes of each file in batches of ``packed_rows``.

    A file is valid until the next one is requested. Reading it raises OSError if bytes are missing.
    """
    columns = (
        [batch[name].to_pylist() for name in ("file", "size", "packed")] for batch in batches
    )
    rows = chain.from_iterable(zip(*column, strict=True) for column in columns)
    for (file, size), of_file in groupby(rows, itemgetter(0, 1)):
        # The last row of a file may lack its line feed; the file's size shows this.
        unpacked = _PackedFile((packed + b"\n" for _, _, packed in of_file), size)
        yield file, io.BufferedReader(unpacked, PIECE_BYTES)


def _suffix_of(uri: str) -> str:
    return find_suffix(uri) or ""


def _rows(spark: SparkSession, suffix: str, uris: tuple[str, ...]) -> DataFrame:
    # This codec leaves the bytes unchanged, and Hadoop never splits a file that has a codec.
    reading = spark.read.option(
        "io.compression.codecs", "org.apache.hadoop.io.compress.PassthroughCodec"
    ).option("mapreduce.input.linerecordreader.line.maxlength", ROW_BYTES_MAX)
    for key in _PASSED_THROUGH:
        reading = reading.option(key, suffix)
    rows = reading.text([escape_glob(uri) for uri in uris], lineSep="\n")
    return rows.select(
        sql.col("value").cast("binary").alias("packed"),
        file_of_row(),
        sql.col("_metadata.file_size").alias("size"),
    )


class _PackedFile(io.RawIOBase):
    """The first ``size`` bytes of ``pieces``."""

    def __init__(self, pieces: Iterator[bytes], size: int) -> None:
        super().__init__()
        self._pieces = pieces
        self._left = size
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - as in the base class
        if self._left and not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                raise OSError(f"{self._left} bytes of the packed file are missing")
            self._piece = memoryview(piece)[: self._left]
        size = min(len(buffer), len(self._piece))
        buffer[:size] = self._piece[:size]
        self._piece = self._piece[size:]
        self._left -= size
        return size
