"""Read packed files as streams of bytes, on any file system of Spark.

**Invariant:** a task holds a few rows of a packed file, never the whole file. The rows give its
exact bytes; if some are missing, the file counts as damaged.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import groupby
from typing import Any, Final

import pyarrow
import pyarrow.compute as compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.parse import archives
from authorizerd.replay.ingest.parse.archives import BinaryFile
from authorizerd.replay.spark.paths import escape_glob

ROW_BYTES_MAX: Final = 16 * 1024 * 1024
"""Maximum length of a row; Hadoop drops a longer one. Packed bytes contain a line feed about every
256 bytes."""
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
    pieces = (piece for batch in batches for piece in _pieces(batch))
    for (file, size), of_file in groupby(pieces, lambda piece: piece[:2]):
        unpacked = _PackedFile((data for _, _, data in of_file), size)
        yield file, io.BufferedReader(unpacked, archives.PIECE_BYTES)


def _suffix_of(uri: str) -> str:
    return next(suffix for suffix in archives.SUFFIXES if uri.lower().endswith(suffix))


def _rows(spark: SparkSession, suffix: str, uris: tuple[str, ...]) -> DataFrame:
    # This codec leaves the bytes as they are, and files with a codec are not split.
    reading = spark.read.option(
        "io.compression.codecs", "org.apache.hadoop.io.compress.PassthroughCodec"
    ).option("mapreduce.input.linerecordreader.line.maxlength", ROW_BYTES_MAX)
    for key in _PASSED_THROUGH:
        reading = reading.option(key, suffix)
    rows = reading.text([escape_glob(uri) for uri in uris], lineSep="\n")
    return rows.select(
        sql.col("value").cast("binary").alias("packed"),
        sql.col("_metadata.file_path").alias("file"),
        sql.col("_metadata.file_size").alias("size"),
    )


def _pieces(batch: pyarrow.RecordBatch) -> Iterator[tuple[str, int, bytes]]:
    """Yield URI, size and bytes of each run of rows of one file."""
    if not len(batch):
        return
    runs = compute.run_end_encode(batch["file"])
    ends = runs.run_ends.to_pylist()
    starts = [0, *ends[:-1]]
    for file, start, end in zip(runs.values.to_pylist(), starts, ends, strict=True):
        data = b"\n".join(batch["packed"].slice(start, end - start).to_pylist())
        # The last row of a file may lack its line feed: the size tells.
        yield file, batch["size"][start].as_py(), data + b"\n"


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
