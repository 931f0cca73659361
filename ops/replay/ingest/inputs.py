"""Find the files that an ingest reads.

**Invariant:** an input that matches no file, or a file that cannot be read, raises an error that
names it. Of an events table, only the live runs are read.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import msgspec
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from authorizerd.replay.ingest.commit import Input
from authorizerd.replay.ingest.parse import archives
from authorizerd.replay.ingest.table import open_table
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.failures import one_line
from authorizerd.replay.spark.paths import escape_glob, local_path

_TABLE_FILE: Final = re.compile(
    r"(?s)(.*?)/(?:ingest\.json(?:/[^/]*)?|commits/[0-9]{8}\.json(?:/[^/]*)?"
    r"|events/run=[^/]+/day=[^/]+/[^/]+\.parquet|set_aside/[^/]+\.parquet)"
)
"""A file of a table. Events and lines set aside without a commit are those of a run that died."""

_EVENTS_FILE: Final = re.compile(r"(?s)(.*)/events/(?:run=[^/]+/)?day=[^/]+/[^/]+\.parquet")
_PLACE: Final = re.compile(r"(?s)([^:/]+:(?://([^:/]*)[^/]*)?)?(.*)")


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """URIs of files, in order, grouped by the way in which they are read."""

    plain: tuple[str, ...]
    packed: tuple[str, ...]
    parquet: tuple[str, ...]


def find_inputs(spark: SparkSession, inputs: Iterable[str]) -> tuple[Input, ...]:
    """Return the files that paths, directories, globs and URIs match, each once.

    Raises:
        JobError: an input matches no file, or a file that cannot be read.
    """
    found: dict[str, Input] = {}  # a dict: in order, and each file once
    for text in inputs:
        try:
            files = _drop_dead_runs(spark, sorted(_list(spark, text), key=lambda file: file.uri))
        except OSError as error:
            raise JobError(f"{error.filename or text}: {error.strerror or error}") from error
        if not files:
            raise JobError(f"{text}: no files found (names that begin with _ or . are skipped)")
        found |= {file.uri: file for file in files}
    return tuple(found.values())


def sort_inputs(files: Iterable[Input]) -> Inputs:
    """Return the files by the way in which they are read.

    Raises:
        JobError: a file is an archive of an unsupported kind.
    """
    kinds: dict[str, list[str]] = {"plain": [], "packed": [], "parquet": []}
    for file in files:
        kinds[_kind(file.uri)].append(file.uri)
    return Inputs(**{kind: tuple(uris) for kind, uris in kinds.items()})


def check_apart(files: Iterable[Input], out: str) -> None:
    """Check that no input is in the output directory.

    Raises:
        JobError: an input is below ``out``.
    """
    out_host, folder = _place(out)
    for file in files:
        host, path = _place(file.uri)
        # A path without a scheme may be on any host.
        if path.startswith(f"{folder.rstrip('/')}/") and (host == out_host or out_host is None):
            raise JobError(f"{file.uri}: is inside --out {out}: expected files outside of it")


def check_sources(files: Iterable[Input], topics: Iterable[str]) -> None:
    """Check that a table is read alone, or with Parquet of other tools.

    Its events name the logs and topics from which they are. So those of another source of the same
    name would become one content with them, which is no copy of either.

    Raises:
        JobError: there is another table, a log or a topic beside a table.
    """
    tables: dict[str, None] = {}  # a dict: in order
    others = list(topics)
    for file in files:
        found = _EVENTS_FILE.fullmatch(file.uri)
        if found is not None:
            tables[found[1]] = None
        elif _kind(file.uri) != "parquet":
            others.append(file.uri)
    if not tables:
        return
    table, *more = tables
    others = more + others
    if others:
        raise JobError(
            f"--input: {table}: expected no other source beside a table, found {others[0]}: its "
            "lines may be in the table, and would count twice. Ingest one after the other"
        )


def _place(uri: str) -> tuple[str | None, str]:
    """Return the host, None without a scheme, and the path of a URI.

    Scheme and port do not count: s3 and s3a name the same place, and the port is optional.
    """
    found = _PLACE.fullmatch(uri)
    assert found is not None, "every text is a path"
    return (found[2] or "") if found[1] else None, found[3]


def _kind(uri: str) -> str:
    name = uri.lower()
    if name.endswith(archives.UNSUPPORTED_SUFFIXES):
        raise JobError(f"{uri}: this archive format is not supported: unpack the file first")
    if name.endswith(".parquet"):
        return "parquet"
    return "packed" if name.endswith(archives.SUFFIXES) else "plain"


def _list(spark: SparkSession, text: str) -> Iterator[Input]:
    """Yield the files that ``text`` names, and those below directories, except hidden ones."""
    path = local_path(spark, text)
    if path is not None and path.exists():
        # A name of .. looks hidden, and Hadoop removes it without following links.
        return _list_below(path.resolve() if ".." in path.parts else path.absolute())
    # A name may contain the characters of a glob, so first look for a file of that exact name.
    return iter(_list_on_spark(spark, escape_glob(text)) or _list_on_spark(spark, text))


def _list_below(path: Path, above: frozenset[Path] = frozenset()) -> Iterator[Input]:
    if path.name.startswith(("_", ".")) or path.name.endswith("._COPYING_"):
        return  # as Spark skips it
    if path.is_dir():
        folder = path.resolve()
        # The files of a link to a directory above are listed anyway.
        for below in path.iterdir() if folder not in above else ():
            yield from _list_below(below, above | {folder})
    else:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            # The size of a pipe is 0, so nothing would be read.
            raise JobError(f"{path}: expected a regular file: copy its content to a file first")
        try:
            str(path).encode()
        except UnicodeEncodeError as error:
            raise JobError(f"{str(path)!a}: expected a name in UTF-8: rename the file") from error
        modified_ms = status.st_mtime_ns // 1_000_000
        yield Input(uri=f"file:{path}", bytes=status.st_size, modified_ms=modified_ms)


def _list_on_spark(spark: SparkSession, glob: str) -> list[Input]:
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        # Spark does not read the content of a file that is only listed.
        modified_ms = sql.unix_millis("modificationTime").alias("modified_ms")
        listed = files.load(glob)
        rows = listed.select("path", "length", modified_ms).collect()
        # Spark gives no rows for empty files.
        empty = [] if rows else [unquote(uri) for uri in listed.inputFiles()]
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return []
        raise JobError(f"{glob}: {one_line(error)}") from error
    return [
        *(Input(uri=row.path, bytes=row.length, modified_ms=row.modified_ms) for row in rows),
        *(Input(uri=uri.replace("file:///", "file:/", 1), bytes=0, modified_ms=0) for uri in empty),
    ]


def _drop_dead_runs(spark: SparkSession, files: list[Input]) -> list[Input]:
    """Return the files without those below a table, except the events of its live runs."""
    found = (_TABLE_FILE.fullmatch(file.uri) for file in files)
    for root in sorted({match[1] for match in found if match}):
        # A set_aside of another program has no events beside it.
        if not any(
            file.uri.startswith((f"{root}/events/", f"{root}/ingest.json")) for file in files
        ):
            continue
        globs = open_table(spark, root, option="--input").commit.events_globs
        live = tuple(f"{root}/{glob.partition('*')[0]}" for glob in globs)
        files = [
            file
            for file in files
            if file.uri.startswith(live) or not file.uri.startswith(f"{root}/")
        ]
    return files
