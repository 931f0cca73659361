"""Create the commits of a table, and remove what no commit needs.

**Invariant:** a commit appears complete, and of several writers of one number, one succeeds. On the
driver's machine, what a commit names is on the disk before the commit appears.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Container
from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from authorizerd.replay.ingest.commit import (
    UNVERSIONED_RUN,
    Commit,
    decode_commit,
    encode_commit,
    name_commit,
)
from authorizerd.replay.ingest.commit_files import list_commits
from authorizerd.replay.ingest.runs import remove_directory
from authorizerd.replay.ingest.table import read_commit_text
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.files import read_text, remove_file, write_text
from authorizerd.replay.spark.paths import local_path
from authorizerd.replay.text import encode_json

COMMITS_KEPT: Final = 5
"""Readers that opened the table up to this many commits ago can go on reading it."""

_RUN: Final = re.compile(r"run=([0-9]{8})-[0-9a-f]+")
_PARTS: Final = ("events", "set_aside", "tuples")
_BEING_WRITTEN: Final = re.compile(r"\.([0-9]{8})\.json\.[0-9]+\.being-written")
_LOCK: Final = ".lock"
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""What ``link`` returns on a file system without hard links, such as exFAT and some of FUSE."""
_NO_SYNC: Final = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""What ``fsync`` returns if a file system cannot write a directory at once."""


def create_commit(spark: SparkSession, table: str, commit: Commit) -> None:
    """Make ``commit`` the content of the table.

    Raises:
        JobError: another ingest has created a commit of this number.
        OSError: it cannot be written.
    """
    place = f"{table}/commits/{name_commit(commit.number)}"
    folder = local_path(spark, table)
    is_created = (
        _create_on_spark(spark, place, commit) if folder is None else _create_here(folder, commit)
    )
    if not is_created:
        raise JobError(explain_conflict(table, commit.number))


def explain_conflict(table: str, number: int) -> str:
    """Return the text of the error that another ingest has created the commit ``number``."""
    return (
        f"--out: {table}: another ingest has added commit {number} meanwhile, and this one has "
        "changed nothing: run it again"
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
    """Remove all but the ``kept`` newest commits, and the runs that these do not name.

    Where only Spark can reach the table, remove the one commit that is now too old, and its tuples.
    """
    folder = local_path(spark, table)
    if folder is None:
        _remove_on_spark(spark, table, commit.number - kept)
        return
    numbers = list_commits(folder)
    for number in numbers[kept:]:
        (folder / "commits" / name_commit(number)).unlink(missing_ok=True)
    for path in (folder / "commits").iterdir():
        aside = _BEING_WRITTEN.fullmatch(path.name)
        if aside is not None and int(aside[1]) <= commit.number:  # of a process that was killed
            path.unlink(missing_ok=True)
    commits = [
        decode_commit((folder / "commits" / name_commit(number)).read_bytes())
        for number in numbers[:kept]
    ]
    runs = {run.id for each in commits for run in each.runs}
    for part in _PARTS:
        needed = {each.tuples_run for each in commits} if part == "tuples" else runs
        for path in (folder / part).iterdir() if (folder / part).is_dir() else ():
            if not _is_needed(path, commit.number, needed):
                _remove(path)


def _create_here(table: Path, commit: Commit) -> bool:
    """Create the commit unless it exists; it appears with all its data."""
    path = table / "commits" / name_commit(commit.number)
    path.parent.mkdir(parents=True, exist_ok=True)
    runs = {run.id for run in commit.runs[-1:]} | {commit.tuples_run}
    for run in sorted(run for run in runs if run is not None):  # those that may be new
        for part in _PARTS:
            _sync_below(table / part / f"run={run}")
            _sync(table / part)
    aside = path.with_name(f".{path.name}.{os.getpid()}.being-written")
    try:
        aside.write_bytes(encode_commit(commit))
        _sync(aside)
        is_created = _name(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    _sync(path.parent)
    _sync(table)
    return is_created


def _name(aside: Path, path: Path) -> bool:
    """Give the file its name, and return True, unless a file of this name exists."""
    try:
        os.link(aside, path)  # unlike a rename, this never replaces a file
    except FileExistsError:
        return False
    except FileNotFoundError:  # another ingest has created the commit, and removed ``aside``
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _rename_alone(aside, path)
    return True


def _rename_alone(aside: Path, path: Path) -> bool:
    """Rename ``aside`` unless ``path`` exists, while no other process of this machine does so.

    The kernel releases the lock when the process ends, however it ends.
    """
    with path.with_name(_LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process is creating the commit now
            return False
        if path.exists():
            return False
        aside.rename(path)
        return True


def _sync_below(folder: Path) -> None:
    """Wait until the files in ``folder`` and below, if it exists, are on the disk."""
    for parent, _, names in os.walk(folder):
        for name in names:
            _sync(Path(parent, name))
        _sync(Path(parent))


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, if it exists, are on the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def _create_on_spark(spark: SparkSession, place: str, commit: Commit) -> bool:
    text = encode_commit(commit).decode()
    row = spark.createDataFrame([(text,)], "value string").coalesce(1)
    try:
        row.write.mode("error").text(place)
    except AnalysisException:  # it exists
        return False
    # Spark checks before it writes, so two writers may both have passed the check.
    return read_commit_text(spark, place).rstrip("\n") == text


def _remove_on_spark(spark: SparkSession, table: str, number: int) -> None:
    places = [f"{table}/commits/{name_commit(each)}" for each in (number, number + 1)]
    try:
        old, later = (decode_commit(read_commit_text(spark, place).encode()) for place in places)
    except FileNotFoundError:
        return
    if old.tuples_run != later.tuples_run:
        remove_directory(spark, f"{table}/tuples/run={old.tuples_run}")
    remove_file(spark, places[0])


def _is_needed(path: Path, newest: int, needed: Container[str | None]) -> bool:
    """Return True if a run of ``needed`` wrote ``path``, or a run that may still commit."""
    run = _RUN.fullmatch(path.name)
    if run is not None:
        return int(run[1]) > newest or run[0].removeprefix("run=") in needed
    is_unversioned = path.name.startswith("day=") or path.suffix == ".parquet"
    return not is_unversioned or UNVERSIONED_RUN in needed


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
