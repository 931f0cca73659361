"""Find the files that an ingest reads.

**Invariant:** an input that matches no file, or a file that cannot be read, raises an error that
names it.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from authorizerd.replay.ingest.commit import Input
from authorizerd.replay.ingest.local_files import find_files, needs_hadoop
from authorizerd.replay.ingest.parse.logs import find_suffix, refuse_file
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.files import escape_glob, list_files, local_path


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """URIs of files, in order, grouped by the way in which they are read."""

    plain: tuple[str, ...]
    packed: tuple[str, ...]


def find_inputs(spark: SparkSession, inputs: Iterable[str]) -> tuple[Input, ...]:
    """Return the files that paths, directories, globs and URIs match, each once.

    Raises:
        JobError: an input matches no file, or a file that cannot be read.
    """
    found: dict[str, Input] = {}  # a dict: in order, and each file once
    for text in inputs:
        try:
            files = sorted(_list(spark, text), key=lambda file: file.uri)
        except OSError as error:
            named = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            raise JobError(named) from error
        if not files:
            raise JobError(f"{text}: no files found (names that begin with _ or . are skipped)")
        found |= {file.uri: file for file in files}
    return tuple(found.values())


def sort_inputs(files: Iterable[Input]) -> Inputs:
    """Return the files by the way in which they are read.

    Raises:
        JobError: a file is not a log.
    """
    plain: list[str] = []
    packed: list[str] = []
    for file in files:
        refusal = refuse_file(file.uri)
        if refusal is not None:
            raise JobError(f"{file.uri}: {refusal}")
        (packed if find_suffix(file.uri) else plain).append(file.uri)
    return Inputs(plain=tuple(plain), packed=tuple(packed))


def _list(spark: SparkSession, text: str) -> Iterator[Input]:
    """Yield the files that ``text`` names, and those below directories, except hidden ones."""
    path = local_path(spark, text)
    if path is not None and not needs_hadoop(str(path)):
        yield from map(_describe, find_files(str(path)))
        return
    for file in list_files(spark, escape_glob(text)) or list_files(spark, text):
        yield Input(uri=file.path, bytes=file.length, modified_ms=file.modified_ms)


def _describe(path: Path) -> Input:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        # The size of a pipe is 0, so nothing would be read.
        raise JobError(f"{path}: expected a regular file: copy its content to a file first")
    uri = f"file:{path.absolute()}"
    try:
        uri.encode()
    except UnicodeEncodeError as error:
        raise JobError(f"{str(path)!a}: expected a name in UTF-8: rename the file") from error
    return Input(uri=uri, bytes=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)
