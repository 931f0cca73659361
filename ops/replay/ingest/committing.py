"""Create the commits of a table, and remove what no commit needs.

**Invariant:** a commit appears complete, and if several writers use the same number, only one
succeeds. On the driver's machine, everything that a commit names is on disk before the commit
appears.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from authorizerd.replay.ingest.commit import (
    PARTS,
    Commit,
    decode_commit,
    encode_commit,
    list_commits,
    name_commit,
)
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.files import (
    TEXT_BYTES_MAX,
    local_path,
    read_text,
    remove_file,
    remove_parquet,
    write_text,
)
from authorizerd.replay.text import encode_json

COMMITS_KEPT: Final = 5
"""Readers that opened the table up to this many commits ago can keep reading it."""

_RUN: Final = re.compile(r"run=(([0-9]{8})-[0-9a-f]+)")
_NO_SYNC: Final = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""Errors of ``fsync`` on file systems that cannot sync a directory."""


def create_commit(spark: SparkSession, table: str, commit: Commit) -> None:
    """Make ``commit`` the content of the table.

    Raises:
        JobError: another ingest has created a commit of this number, or the table is too large.
        OSError: it cannot be written.
    """
    data = encode_commit(commit)
    if len(data) > TEXT_BYTES_MAX:
        raise JobError(
            f"--out: {table}: expected a commit of at most {TEXT_BYTES_MAX} bytes, found "
            f"{len(data)}: too many files were read: continue with another --out"
        )
    folder = local_path(spark, table)
    if folder is not None:
        is_created = _create_here(folder, commit, data)
    else:
        place = f"{table}/commits/{name_commit(commit.number)}"
        is_created = _create_on_spark(spark, place, data.decode())
    if not is_created:
        raise JobError(
            f"--out: {table}: another ingest added commit {commit.number} in the meantime, so this "
            "one changed nothing: run it again"
        )


def write_totals(spark: SparkSession, table: str, commit: Commit) -> None:
    """Write ``ingest.json`` if it differs from the totals of ``commit``.

    Raises:
        OSError: it cannot be written.
    """
    place, text = f"{table}/ingest.json", encode_json(commit.ingested)
    try:
        if read_text(spark, place) == text:
            return
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    write_text(spark, place, text)


def remove_unneeded(spark: SparkSession, table: str, commit: Commit, *, kept: int) -> None:
    """Remove all but the ``kept`` newest commits, and the runs that those do not name.

    Where only Spark can reach the table, remove the one commit that is now too old, and its tuples.
    """
    folder = local_path(spark, table)
    if folder is None:
        _remove_on_spark(spark, table, commit.number - kept)
        return
    numbers = list_commits(folder)
    paths = [folder / "commits" / name_commit(number) for number in numbers]
    for path in paths[kept:]:
        path.unlink(missing_ok=True)
    commits = [decode_commit(path.read_bytes()) for path in paths[:kept]]
    runs = {run.id for each in commits for run in each.runs}
    for part in PARTS:
        needed = {each.tuples_run for each in commits} if part == "tuples" else runs
        for path in (folder / part).glob("run=*"):
            run = _RUN.fullmatch(path.name)
            # A run with a higher number may still commit.
            if run is not None and int(run[2]) <= commit.number and run[1] not in needed:
                shutil.rmtree(path, ignore_errors=True)


def _create_here(table: Path, commit: Commit, data: bytes) -> bool:
    """Create the commit unless it exists; it appears with all its data."""
    commits = table / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    for run in {run.id for run in commit.runs[-1:]} | {commit.tuples_run}:  # those that may be new
        for folder in (table / part / f"run={run}" for part in PARTS):
            for parent, _, names in os.walk(folder):
                for name in (*names, ""):
                    _sync(Path(parent, name))
            if folder.exists():
                _sync(folder.parent)
    # The kernel releases the lock when the process ends, however it ends.
    with (commits / ".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process is creating a commit now
            return False
        path = commits / name_commit(commit.number)
        if path.exists():
            return False
        aside = commits / ".being-written"
        aside.write_bytes(data)
        _sync(aside)
        aside.replace(path)
    _sync(commits)
    _sync(table)
    return True


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def _create_on_spark(spark: SparkSession, place: str, text: str) -> bool:
    row = spark.createDataFrame([(text,)], "value string").coalesce(1)
    try:
        row.write.mode("error").text(place)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        return False
    # Spark checks before it writes, so two writers may both have passed the check.
    return read_text(spark, place).rstrip("\n") == text


def _remove_on_spark(spark: SparkSession, table: str, number: int) -> None:
    places = [f"{table}/commits/{name_commit(each)}" for each in (number, number + 1)]
    try:
        old, later = (decode_commit(read_text(spark, place).encode()) for place in places)
    except FileNotFoundError:
        return
    if old.tuples_run != later.tuples_run:
        remove_parquet(spark, f"{table}/tuples/run={old.tuples_run}")
    remove_file(spark, places[0])
