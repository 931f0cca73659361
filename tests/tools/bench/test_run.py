"""The checkpoints for the measurements of loading."""

import gc
from pathlib import Path

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import AclAdded
from authorizerd.metadata.log import MetadataLog
from authorizerd.metadata.replay import read_changes
from tests.support.fixture_types import MonkeyPatch
from tools.bench import run
from tools.bench.in_memory import load
from tools.bench.run import write_checkpoint, write_log
from tools.bench.sets import wide

SET = wide(1000, 2)


def test_written_checkpoint_is_read_back(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, SET.added())
    read = [change for batch in read_changes(tmp_path) for change in batch.changes]
    assert sorted(read, key=lambda change: change.id) == sorted(
        SET.added(), key=lambda added: added.id
    )
    assert all(isinstance(change, AclAdded) for change in read)


def test_written_log_is_read_back_in_order(tmp_path: Path) -> None:
    write_log(tmp_path, SET.added())
    batches = [list(batch.changes) for batch in read_changes(tmp_path) if batch.changes]
    assert [change for changes in batches for change in changes] == list(SET.added())
    assert {len(changes) for changes in batches} == {run.ACLS_PER_REQUEST}


def test_batches_are_as_full_as_those_of_kafka(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BATCH_BYTES_MAX", 10_000)
    write_checkpoint(tmp_path, SET.added())
    sizes = [len(each.placed.batch.data) for each in MetadataLog.open(tmp_path).batches()]
    assert len(sizes) > 10
    assert all(9_000 < size <= 10_000 for size in sizes[:-1])


def test_second_checkpoint_replaces_the_first(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, wide(2000, 2).added())
    path = write_checkpoint(tmp_path, SET.added())
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_loaded_checkpoint_has_the_acls_of_the_set(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, SET.added())
    try:
        assert load(tmp_path).acls == build(SET.added()).acls
    finally:
        gc.enable()  # a bench's process goes on without
