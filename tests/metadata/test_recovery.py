"""A log after a crash or damage: only an unfinished end is cut, and no wrong ACL is served."""

from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from authorizerd.metadata.batch_file import SECTOR_SIZE, TornTail
from authorizerd.metadata.errors import CorruptLogError
from authorizerd.protocol.records.batch import ControlType
from authorizerd.protocol.records.metadata import BeginTransaction, EndTransaction
from tests.metadata.reading import BATCHES, numbers, read, refusal
from tests.support.log_files import (
    METADATA_VERSION,
    added,
    control_batch,
    data_batch,
    flipped,
    removed,
    write_checkpoint,
    write_log,
    write_segment,
)


def test_cut_last_batch_is_ignored_and_reported(tmp_path: Path) -> None:
    """The file is unchanged."""
    start = sum(map(len, BATCHES[:3]))
    for size in range(len(BATCHES[3])):
        path = write_segment(tmp_path, 0, *BATCHES[:3], BATCHES[3][:size])
        assert numbers(tmp_path) == {1, 2}
        batches, progress = read(tmp_path)
        assert [each.last_offset for each in batches] == [0, 1, 3]
        assert (progress.last_offset, progress.last_epoch) == (3, 1)
        tail = progress.torn_tail
        if size == 0:
            assert tail is None
        else:
            assert tail is not None
            assert tail == TornTail(path, start, size, tail.reason)
        assert path.read_bytes() == b"".join(BATCHES[:3]) + BATCHES[3][:size]


@pytest.mark.parametrize("zeros", [1, 12, 100, 5000])
def test_zeros_at_the_end_are_ignored(tmp_path: Path, zeros: int) -> None:
    path = write_segment(tmp_path, 0, *BATCHES, bytes(zeros))
    batches, progress = read(tmp_path)
    assert [each.last_offset for each in batches] == [0, 1, 3, 5]
    assert progress.torn_tail == TornTail(
        path, sum(map(len, BATCHES)), zeros, "only zeros to the end of the file"
    )
    write_segment(tmp_path, 0, *BATCHES)
    path = write_segment(tmp_path, 6, bytes(zeros))
    batches, progress = read(tmp_path)
    assert len(batches) == 4
    assert progress.torn_tail is not None
    assert (progress.torn_tail.path, progress.torn_tail.position) == (path, 0)


@pytest.mark.parametrize("piece", [b"\0", b"\1", bytes(700), BATCHES[3][:-1], BATCHES[3][:20]])
def test_torn_tail_before_another_segment_is_corruption(tmp_path: Path, piece: bytes) -> None:
    path = write_segment(tmp_path, 0, *BATCHES[:3], piece)
    write_segment(tmp_path, 4, BATCHES[3])
    error = refusal(tmp_path)
    assert (error.path, error.offset) == (path, 4)
    assert error.position == sum(map(len, BATCHES[:3]))


@pytest.mark.parametrize("piece", [b"\0", b"\1", bytes(700), BATCHES[3][:-1], BATCHES[3][:20]])
def test_torn_tail_after_a_clean_shutdown_is_corruption(tmp_path: Path, piece: bytes) -> None:
    path = write_segment(tmp_path, 0, *BATCHES[:3])
    (tmp_path / ".kafka_cleanshutdown").touch()
    assert numbers(tmp_path) == {1, 2}
    path.write_bytes(path.read_bytes() + piece)
    error = refusal(tmp_path)
    assert (error.path, error.offset) == (path, 4)
    assert error.position == sum(map(len, BATCHES[:3]))


def test_lost_sector_is_ignored_only_in_the_last_batch(tmp_path: Path) -> None:
    large = data_batch(4, [b"\1\2\0" + b"x" * 2000])
    whole = b"".join(BATCHES[:3]) + large
    data = whole[:SECTOR_SIZE] + bytes(SECTOR_SIZE) + whole[2 * SECTOR_SIZE :]
    path = write_segment(tmp_path, 0, data)
    batches, progress = read(tmp_path)
    assert len(batches) == 3
    assert progress.torn_tail is not None
    assert progress.torn_tail.reason == "a batch with a sector of zeros"
    write_segment(tmp_path, 0, data, data_batch(5, [added(9)]))
    error = refusal(tmp_path)
    assert (error.path, error.offset) == (path, 4)
    assert error.reason.startswith("expected CRC-32C ")


def test_bad_crc_in_a_complete_batch_is_damage_anywhere(tmp_path: Path) -> None:
    """Even the last batch may be an acknowledged DENY."""
    for number, batch in enumerate(BATCHES):
        damaged = [*BATCHES[:number], flipped(batch, len(batch) - 3), *BATCHES[number + 1 :]]
        path = write_segment(tmp_path, 0, *damaged)
        error = refusal(tmp_path)
        start = sum(map(len, BATCHES[:number]))
        assert (error.path, error.position) == (path, start + 17)
        assert error.offset == [0, 1, 2, 4][number]


def unnoticed_flips(path: Path, log: Path, expected: set[int]) -> set[tuple[int, int]]:
    """Flip each bit of a file of ``log`` in turn. Return the byte and mask of each flip
    that goes unnoticed. Such a flip must leave the ACLs unchanged.
    """
    whole = path.read_bytes()
    unnoticed = set()
    with path.open("r+b", buffering=0) as file:
        for position, mask in product(range(len(whole)), (1 << bit for bit in range(8))):
            file.seek(position)
            file.write(bytes((whole[position] ^ mask,)))
            with suppress(CorruptLogError):
                assert numbers(log) == expected, f"byte {position}, mask {mask:02x}"
                unnoticed.add((position, mask))
            file.seek(position)
            file.write(whole[position : position + 1])
    return unnoticed


def test_only_the_epoch_of_a_last_leader_change_can_change_unnoticed(tmp_path: Path) -> None:
    """The CRC does not cover the epoch (bytes 12 to 15). Only later batches could confirm it, and
    none follows here.
    """
    last_epoch = 6
    change = partial(control_batch, control_type=ControlType.LEADER_CHANGE)
    pieces = [
        *BATCHES[:3],
        change(4, epoch=4),
        data_batch(5, [BeginTransaction(), removed(1)], epoch=4),
        data_batch(7, [added(3), EndTransaction(), added(4)], epoch=4),
        change(10, epoch=last_epoch),
    ]
    path = write_segment(tmp_path, 0, *pieces)
    start = sum(map(len, pieces[:-1]))
    assert unnoticed_flips(path, tmp_path, {2, 3, 4}) == {
        (start + 15 - bit // 8, 1 << bit % 8) for bit in range(31) if last_epoch ^ 1 << bit > 4
    }


def test_no_bit_of_a_checkpoint_can_change_unnoticed(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 90, [METADATA_VERSION, added(1), added(2)], epoch=3)
    assert unnoticed_flips(path, path, {1, 2}) == set()


@pytest.mark.parametrize("size", [None, -1, -7, -70])
def test_reading_changes_no_file(tmp_path: Path, size: int | None) -> None:
    path = write_log(tmp_path, [added(1)], [added(2)])
    path.write_bytes(path.read_bytes()[:size])
    before = {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")}
    data = path.read_bytes()
    assert numbers(tmp_path) == ({1, 2} if size is None else {1})
    assert {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")} == before
    assert path.read_bytes() == data
