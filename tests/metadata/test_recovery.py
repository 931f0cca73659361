"""A log after a crash or damage: only an unfinished end is cut, and no wrong ACL is served."""

from pathlib import Path

import pytest

from authorizerd.metadata.batch_file import TornTail
from tests.metadata.reading import BATCHES, numbers, read, refusal
from tests.support.log_files import added, write_log, write_segment


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


@pytest.mark.parametrize("size", [None, -1, -7, -70])
def test_reading_changes_no_file(tmp_path: Path, size: int | None) -> None:
    path = write_log(tmp_path, [added(1)], [added(2)])
    path.write_bytes(path.read_bytes()[:size])
    before = {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")}
    data = path.read_bytes()
    assert numbers(tmp_path) == ({1, 2} if size is None else {1})
    assert {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*")} == before
    assert path.read_bytes() == data
