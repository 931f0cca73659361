"""Find the files that an ingest reads, and how each of them is packed.

**Invariant:** an input that matches no file, or a file that cannot be read, raises an error that
names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from authorizerd.replay.ingest.parse import archives
from authorizerd.replay.ingest.table import open_table
from authorizerd.replay.spark.errors import JobError

_PLACE: Final = re.compile(r"(?s)[^:/]+:(?://([^:/]*)[^/]*)?(/.*)")


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """URIs of files, in order, grouped by the way in which they are read."""

    plain: tuple[str, ...]
    packed: tuple[str, ...]
    parquet: tuple[str, ...]


def find_inputs(spark: SparkSession, inputs: tuple[str, ...]) -> Inputs:
    """Return the files that paths, directories, globs and URIs match.

    Raises:
        JobError: an input matches no file, or a file that cannot be read.
        OSError: the ``ingest.json`` of an earlier ingest cannot be read.
    """
    found: dict[str, str] = {}  # a dict: in order, and each file once
    for text in inputs:
        try:
            uris = sorted(_files(spark, text))
        except Py4JJavaError as error:
            reason = str(error.java_exception.getMessage()).partition("\n")[0]
            raise JobError(f"{text}: {reason}") from error
        if not uris:
            raise JobError(f"{text}: no files found (names that begin with _ or . are skipped)")
        found |= {uri: _kind(uri) for uri in uris}
    kinds = {
        kind: tuple(uri for uri, of_kind in found.items() if of_kind == kind)
        for kind in ("plain", "packed", "parquet")
    }
    return Inputs(**kinds)


def check_apart(spark: SparkSession, inputs: Inputs, out: str) -> None:
    """Check that no input is in the output directory.

    Raises:
        JobError: an input is below ``out``, whose files the ingest replaces.
    """
    out_host, folder = _place(_qualified(spark, out))
    for uri in (*inputs.plain, *inputs.packed, *inputs.parquet):
        host, path = _place(uri)
        if host == out_host and path.startswith(f"{folder.rstrip('/')}/"):
            raise JobError(f"{uri}: is inside --out {out}, whose files this ingest replaces")


def _place(uri: str) -> tuple[str, str]:
    """Return the host and path of a URI.

    Scheme and port do not count: s3 and s3a name the same place, and the port is optional.
    """
    found = _PLACE.fullmatch(uri)
    assert found is not None, "a file system returns absolute URIs"
    return found[1] or "", found[2]


def _qualified(spark: SparkSession, uri: str) -> str:
    """Return ``uri`` in the absolute form in which its file system lists files."""
    java: Any = spark.sparkContext._jvm
    path = java.org.apache.hadoop.fs.Path(uri)
    system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    return str(system.makeQualified(path).toString())


def _kind(uri: str) -> str:
    name = uri.lower()
    if name.endswith(archives.UNSUPPORTED_SUFFIXES):
        raise JobError(f"{uri}: this archive format is not supported: unpack the file first")
    if name.endswith(".parquet"):
        return "parquet"
    return "packed" if name.endswith(archives.SUFFIXES) else "plain"


def _files(spark: SparkSession, text: str) -> Iterator[str]:
    java: Any = spark.sparkContext._jvm
    path = java.org.apache.hadoop.fs.Path(text)
    system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    # A name may contain the characters of a glob, so first look for a file of that exact name.
    statuses = [system.getFileStatus(path)] if system.exists(path) else system.globStatus(path)
    for status in statuses or ():
        if status.isDirectory():
            yield from _files_below(spark, system, status.getPath())
        elif not _is_hidden(status.getPath()):
            yield status.getPath().toString()


def _files_below(spark: SparkSession, system: Any, folder: Any) -> Iterator[str]:  # noqa: ANN401 - Java's
    """Yield a directory's files, except hidden ones; if an ingest wrote it, only its events."""
    java: Any = spark.sparkContext._jvm
    if system.exists(java.org.apache.hadoop.fs.Path(folder, "ingest.json")):
        open_table(spark, folder.toString(), option="--input")
        folder = java.org.apache.hadoop.fs.Path(folder, "events")
    elif system.exists(java.org.apache.hadoop.fs.Path(folder, "set_aside/_SUCCESS")):
        raise JobError(f"{folder.toString()}: no ingest.json found: this ingest did not finish")
    for status in system.listStatus(folder):
        path = status.getPath()
        if _is_hidden(path):
            continue
        if status.isFile():
            yield path.toString()
        else:
            yield from _files_below(spark, system, path)


def _is_hidden(path: Any) -> bool:  # noqa: ANN401 - Java's
    """Return True if Spark would silently skip the file."""
    name: str = path.getName()
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")
