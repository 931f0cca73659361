"""Create the commits of a table, and remove what no commit needs.

**Invariant:** a commit appears complete, and if several writers use the same number, only one
succeeds. On the driver's machine, everything that a commit names is on disk before the commit
appears.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from authorizerd.replay.ingest.commit import (
    PARTS,
    Commit,
    decode_commit,
    encode_commit,
    find_numbers,
    name_commit,
)
from authorizerd.replay.plain_files import TEXT_BYTES_MAX, HalfWrittenError, Storage, sync
from authorizerd.replay.spark.errors import JobError
from authorizerd.replay.spark.files import read_text, write_text
from authorizerd.replay.spark.listing import local_path
from authorizerd.replay.spark.storage import open_storage
from authorizerd.replay.text import encode_json

COMMITS_KEPT: Final = 5
"""Readers that opened the table up to this many commits ago can keep reading it."""

_RUN: Final = re.compile(r"run=(([0-9]{8})-[0-9a-f]+)")


def check_commits(spark: SparkSession, table: str) -> None:
    """Check that commits can be created in one step where the table is.

    Raises:
        JobError: they cannot.
        OSError: the place cannot be reached.
    """
    place = f"{table}/commits/{name_commit(1)}"
    open_storage(spark, place).check_creates(place)


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
        _sync_runs(folder, commit)
    place = f"{table}/commits/{name_commit(commit.number)}"
    storage = open_storage(spark, place)
    _remove_half(storage, place)
    if not storage.create(place, data):
        raise JobError(
            f"--out: {table}: another ingest added commit {commit.number} in the meantime, so this "
            "one changed nothing: run it again"
        )
    if folder is not None:
        sync(folder)


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

    Raises:
        OSError: the table cannot be read.
    """
    storage = open_storage(spark, table)
    names = sorted(map(name_commit, find_numbers(storage.names(f"{table}/commits"))), reverse=True)
    for name in names[kept:]:
        storage.remove(f"{table}/commits/{name}")
    commits = [decode_commit(storage.read(f"{table}/commits/{name}")) for name in names[:kept]]
    runs = {run.id for each in commits for run in each.runs}
    for part in PARTS:
        needed = {each.tuples_run for each in commits} if part == "tuples" else runs
        for name in storage.names(f"{table}/{part}"):
            run = _RUN.fullmatch(name)
            # A run with a higher number may still commit.
            if run is not None and int(run[2]) <= commit.number and run[1] not in needed:
                storage.remove(f"{table}/{part}/{name}")


def _remove_half(storage: Storage, place: str) -> None:
    """Remove a commit that a run of an earlier version was stopped in writing."""
    try:
        storage.read(place)
    except HalfWrittenError:
        storage.remove(place)
    except FileNotFoundError:
        pass


def _sync_runs(table: Path, commit: Commit) -> None:
    """Wait until the runs that a commit may be the first to name are on the disk."""
    for run in {run.id for run in commit.runs[-1:]} | {commit.tuples_run}:
        for folder in (table / part / f"run={run}" for part in PARTS):
            for parent, _, names in os.walk(folder):
                for name in (*names, ""):
                    sync(Path(parent, name))
            if folder.exists():
                sync(folder.parent)
