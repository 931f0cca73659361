"""Create commits on this machine, which needs no Spark."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.errors import AnalysisException

from authorizerd.replay.ingest import committing
from authorizerd.replay.ingest.commit import Commit, Run, list_commits, read_newest
from authorizerd.replay.ingest.committing import create_commit
from authorizerd.replay.ingest.report import add_up
from authorizerd.replay.spark.errors import JobError
from tests.ops.replay.sessions import LOCAL

NOTHING = add_up([], 0)
RUN = Run(id="00000001-ab", days=(), ingested=NOTHING)
COMMIT = Commit(number=1, salt=1, runs=(RUN,), tuples_run=None, ingested=NOTHING)
CONFLICT = "another ingest has added commit 1 meanwhile"


def create(table: Path, commit: Commit = COMMIT) -> None:
    create_commit(LOCAL, str(table), commit)


def fail(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Let a function of ``os`` fail with an error number."""

    def raise_error(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, name, raise_error)


def test_commit_is_created_once(tmp_path: Path) -> None:
    create(tmp_path)
    other = Commit(number=1, salt=2, runs=(), tuples_run=None, ingested=NOTHING)
    with pytest.raises(JobError, match=CONFLICT):
        create(tmp_path, other)
    assert read_newest(tmp_path) == COMMIT
    assert {path.name for path in (tmp_path / "commits").iterdir()} - {".lock"} == {"00000001.json"}


def test_commit_waits_for_no_lock(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    with (tmp_path / "commits" / ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(JobError, match=CONFLICT):
            create(tmp_path)
    assert list_commits(tmp_path) == []
    create(tmp_path)
    assert list_commits(tmp_path) == [1]


def test_run_and_commit_are_on_the_disk_before_the_commit_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = tmp_path / f"events/run={RUN.id}/day=2026-11-21"
    day.mkdir(parents=True)
    (day / "a.parquet").touch()
    before: set[int] = set()
    after: set[int] = set()
    fsync = os.fsync

    def note(descriptor: int) -> None:
        (after if list_commits(tmp_path) else before).add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    create(tmp_path)
    commit = tmp_path / "commits/00000001.json"
    first = (day / "a.parquet", day, day.parent, day.parent.parent, commit)
    assert before == {path.stat().st_ino for path in first}
    assert after == {path.stat().st_ino for path in (commit.parent, tmp_path)}


@pytest.mark.parametrize(("number", "numbers"), [(errno.EINVAL, [1]), (errno.EIO, [])])
def test_failure_of_the_disk_leaves_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, numbers: list[int]
) -> None:
    """Some file systems cannot write a directory at once, which is not a failure."""
    fail(monkeypatch, "fsync", number)
    if numbers:
        create(tmp_path)
    else:
        with pytest.raises(OSError, match=os.strerror(number)):
            create(tmp_path)
    assert list_commits(tmp_path) == numbers


def test_commit_that_a_killed_process_was_writing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits/.being-written").write_text("{")
    create(tmp_path)
    assert read_newest(tmp_path) == COMMIT


def test_commit_that_no_reader_would_read_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "TEXT_BYTES_MAX", 10)
    with pytest.raises(JobError, match=r"expected a commit of at most 10 bytes, found \d+: too"):
        create(tmp_path)
    assert list_commits(tmp_path) == []


def test_other_error_of_spark_is_not_taken_for_a_conflict() -> None:
    spark = MagicMock(conf={"spark.master": "yarn"})
    writer = spark.createDataFrame.return_value.coalesce.return_value.write.mode.return_value
    writer.text.side_effect = AnalysisException("[UNSUPPORTED] no such file system")
    with pytest.raises(AnalysisException, match="no such file system"):
        create_commit(spark, "s3://bucket/table", COMMIT)
