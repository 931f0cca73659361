"""The second reader of logs reads what the first one reads, and notices what is lost."""

from pathlib import Path

import pytest

from authorizerd.acl.model import Acl
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.protocol.records.metadata import AbortTransaction
from tests.fleet.log_reader import LogBatch, LogReader, UnreadableLogError
from tests.support.acls import acl
from tests.support.log_files import (
    added,
    data_batch,
    flipped,
    read_acls,
    removed,
    write_log,
    write_segment,
)

ODD = acl("User:ä", "ALTER", group="ü" * 200, pattern="PREFIXED", deny=True, host="10.0.0.1")


def acls_of(batches: list[LogBatch]) -> dict[bytes, Acl]:
    """Return the ACLs at the end, by id."""
    acls: dict[bytes, Acl] = {}
    for batch in batches:
        for change in batch.changes:
            acl_id = bytes.fromhex(change.acl_id)
            if change.acl is None:
                del acls[acl_id]
            else:
                acls[acl_id] = change.acl
    return acls


def reader_of(log_dir: Path) -> LogReader:
    reader = LogReader(log_dir / METADATA_TOPIC_DIRECTORY)
    assert reader.read() == []
    return reader


def test_real_log_is_read(real_log_dir: Path) -> None:
    reader = reader_of(real_log_dir)
    assert acls_of(reader.batches) == read_acls(real_log_dir)
    assert reader.batches


def test_changes_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = write_log(tmp_path, [added(1), added(2, ODD)])
    reader = reader_of(tmp_path)
    more = data_batch(4, [removed(1), added(3)])
    for size in range(len(more)):
        path.write_bytes(path.read_bytes()[: reader.batches[-1].end] + more[:size])
        assert reader.read() == []
        assert reader.batches[-1].last_offset == 3
    path.write_bytes(path.read_bytes()[: reader.batches[-1].end] + more)
    write_segment(tmp_path, 6, data_batch(6, [added(4)]))
    assert reader.read() == []
    path.unlink()  # retention removes old segments
    assert reader.read() == []
    assert [each.last_offset for each in reader.batches] == [0, 1, 3, 5, 6]
    assert set(acls_of(reader.batches).values()) == {
        ODD, acl(topic="topic-3"), acl(topic="topic-4")
    }  # fmt: skip


def test_lost_end_is_noticed(tmp_path: Path) -> None:
    """Also if other batches have taken its place."""
    path = write_log(tmp_path, [added(1)], [added(2)])
    reader = reader_of(tmp_path)
    path.write_bytes(path.read_bytes()[: reader.batches[-2].end] + data_batch(3, [added(3)]))
    lost = reader.read()
    assert [each.last_offset for each in lost] == [3]
    assert acls_of(reader.batches) == {added(1).id: added(1).acl, added(3).id: added(3).acl}


def _flip(path: Path) -> None:
    path.write_bytes(flipped(path.read_bytes(), 40))


def _skip(path: Path) -> None:
    path.write_bytes(path.read_bytes() + data_batch(9, [added(9)]))


def _abort_transaction(path: Path) -> None:
    path.write_bytes(path.read_bytes() + data_batch(3, [AbortTransaction()]))


@pytest.mark.parametrize("damage", [_flip, _skip, _abort_transaction])
def test_what_cannot_be_read_is_an_error(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    damage(write_log(tmp_path, [added(1)]))
    with pytest.raises(UnreadableLogError):
        LogReader(tmp_path / METADATA_TOPIC_DIRECTORY).read()
