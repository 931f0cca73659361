"""Create the commits of a table, and remove what no commit needs.

**Invariant:** a commit appears complete, and if several writers use the same number, only one
succeeds. On the driver's machine, everything that a commit names is on disk before the commit
appears.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.commit import (
    PARTS,
    SCHEMA_VERSION,
    Commit,
    TableError,
    decode_commit,
    encode_commit,
    find_newest_commit,
    find_numbers,
    list_commits,
    name_commit,
)
from authorizerd.replay.ingest.report import add_up
from authorizerd.replay.plain_files import TEXT_BYTES_MAX, HalfWrittenError, Storage, sync
from authorizerd.replay.text import encode_json

COMMITS_KEPT: Final = 5
"""Readers that opened the table up to this many commits ago can keep reading it."""

_RUN: Final = re.compile(r"run=(([0-9]{8})-[0-9a-f]+)")


def find_table(storage: Storage, table: str, *, overwrite: bool) -> Commit:
    """Return the newest commit of a table, to which an ingest adds a run; its number is 0 if none.

    Args:
        overwrite: the table will be emptied: return only the number of its newest commit.

    Raises:
        JobError: the directory contains other files, or the newest commit cannot be read, or is of
            an earlier version.
    """
    try:
        numbers = list_commits(storage, table)
        commit = None if overwrite else find_newest_commit(storage, table)
    except TableError as error:
        raise JobError(f"--out: {error}") from error
    if commit is not None:
        if commit.schema_version < SCHEMA_VERSION:
            raise JobError(
                f"--out: {table}: an earlier version wrote this table, and did not record what is "
                "needed to recognize lines that it has. It can be read, but not added to: run "
                f"ingest with --input {table} and a new --out, and add to that one"
            )
        return commit
    others = set(storage.names(table)) - {*PARTS, "commits", "ingest.json"}
    if others and not overwrite:
        raise JobError(
            f"--out: {table}: expected a table or an empty directory, found {min(others)}; "
            "--overwrite ignores other files"
        )
    number = max(numbers, default=0) if overwrite else 0
    return Commit(number=number, salt=0, runs=(), tuples_run=None, ingested=add_up([], 0))


def create_commit(storage: Storage, table: str, commit: Commit, folder: Path | None) -> None:
    """Make ``commit`` the content of the table.

    Args:
        folder: the directory of the table on this machine; None if only Spark reaches it.

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
    if folder is not None:
        try:
            _sync_runs(folder, commit)
        except FileNotFoundError as error:
            # The commit of another ingest also removes the files of this one.
            if commit.number in list_commits(storage, table):
                raise conflict(table, commit.number) from error
            raise
    place = f"{table}/commits/{name_commit(commit.number)}"
    try:
        storage.read(place)
    except HalfWrittenError:  # a run of an earlier version was stopped in writing it
        storage.remove(place)
    except FileNotFoundError:
        pass
    if not storage.create(place, data):
        raise conflict(table, commit.number)
    if folder is not None:
        sync(folder)


def conflict(table: str, number: int) -> JobError:
    """Return the error of an ingest that is not the first to create a commit."""
    return JobError(
        f"--out: {table}: another ingest added commit {number} in the meantime, so this "
        "one changed nothing: run it again"
    )


def write_totals(storage: Storage, table: str, commit: Commit) -> None:
    """Write ``ingest.json`` if it differs from the totals of ``commit``.

    Raises:
        OSError: it cannot be written.
    """
    place, text = f"{table}/ingest.json", encode_json(commit.ingested).encode()
    with suppress(FileNotFoundError):
        if storage.read(place) == text:
            return
    storage.replace(place, text)


def remove_unneeded(storage: Storage, table: str, commit: Commit, *, kept: int) -> None:
    """Remove all but the ``kept`` newest commits, and the runs and days that those do not name.

    Raises:
        OSError: the table cannot be read.
    """
    names = sorted(map(name_commit, find_numbers(storage.names(f"{table}/commits"))), reverse=True)
    for name in names[kept:]:
        storage.remove(f"{table}/commits/{name}")
    commits = []
    for name in names[:kept]:
        with suppress(FileNotFoundError):  # a later ingest has just removed it
            commits.append(decode_commit(storage.read(f"{table}/commits/{name}")))
    runs = {run.id for each in commits for run in each.runs}
    for part in PARTS:
        needed = {each.tuples_run for each in commits} if part == "tuples" else runs
        for name in storage.names(f"{table}/{part}"):
            run = _RUN.fullmatch(name)
            # A run with a higher number may still commit.
            if run is not None and int(run[2]) <= commit.number and run[1] not in needed:
                storage.remove(f"{table}/{part}/{name}")
    first_days: dict[str, str] = {}
    for live in (run for each in commits for run in each.runs):
        first_days[live.id] = min(live.first_day, first_days.get(live.id, live.first_day))
    for run_id, first_day in first_days.items():
        folder = f"{table}/events/run={run_id}"
        for name in storage.names(folder) if first_day else ():
            if "day=" <= name < f"day={first_day}":
                storage.remove(f"{folder}/{name}")


def _sync_runs(table: Path, commit: Commit) -> None:
    """Wait until the runs that a commit may be the first to name are on the disk."""
    for run in {run.id for run in commit.runs[-1:]} | {commit.tuples_run}:
        for folder in (table / part / f"run={run}" for part in PARTS):
            for parent, _, names in os.walk(folder):
                for name in (*names, ""):
                    sync(Path(parent, name))
            if folder.exists():
                sync(folder.parent)
