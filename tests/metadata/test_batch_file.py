"""One file of batches: an unfinished write is distinguished from damage."""

from contextlib import suppress
from pathlib import Path

import pytest

from authorizerd.metadata.batch_file import (
    LAST_PIECE_MIN,
    SECTOR_SIZE,
    BatchFile,
    PlacedBatch,
    TornTail,
)
from authorizerd.metadata.errors import CorruptLogError, LogDirectoryError
from tests.support.counting_storage import CountingStorage
from tests.support.log_files import added, data_batch, flipped

FIRST = data_batch(0, [added(0)])
LAST = data_batch(1, [added(1), added(2)])
LARGE = data_batch(1, [b"\1\2\0" + b"x" * 3000])
SMALLEST = data_batch(1, [b"\1\x02\0"])

Place = tuple[int, int]


def read(path: Path, *, may_be_torn: bool = True) -> tuple[list[Place], TornTail | None]:
    """Return the offset and position of each batch of a file, and its torn tail."""
    before = path.read_bytes()
    found: list[PlacedBatch] = []
    with BatchFile(path, 0) as file:
        while (placed := file.read(may_be_torn=may_be_torn)) is not None:
            found.append(placed)
        assert file.read(may_be_torn=may_be_torn) is None
        assert file.position == sum(len(each.batch.data) for each in found)
        assert path.read_bytes() == before
        assert {each.path for each in found} <= {path}
        return [(each.batch.base_offset, each.position) for each in found], file.torn_tail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


def refusal(path: Path, data: bytes, *, may_be_torn: bool = True) -> CorruptLogError:
    path.write_bytes(data)
    with pytest.raises(CorruptLogError) as refused:
        read(path, may_be_torn=may_be_torn)
    assert refused.value.path == path
    return refused.value


def torn(path: Path, data: bytes, *, whole: bytes = FIRST) -> str:
    """Return why ``data`` after the batch ``whole`` is a torn tail. Check that the same tail is
    corruption where none is allowed.
    """
    path.write_bytes(data)
    places, tail = read(path)
    assert places == ([(0, 0)] if whole else [])
    assert tail is not None
    assert tail == TornTail(path, len(whole), len(data) - len(whole), tail.reason)
    error = refusal(path, data, may_be_torn=False)
    assert error.reason == (
        f"{tail.reason}; only the end of a log that was not shut down cleanly may be unfinished"
    )
    assert (error.position, error.offset) == (len(whole), len(places))
    return tail.reason


def sectors(size: int, start: int) -> range:
    """Return the positions of the whole sectors of a file from ``start`` to ``size``."""
    return range(start + -start % SECTOR_SIZE, size - SECTOR_SIZE + 1, SECTOR_SIZE)


def with_zeros(data: bytes, start: int, size: int) -> bytes:
    return data[:start] + bytes(size) + data[start + size :]


def test_batches_have_their_positions(path: Path) -> None:
    """After the last one, read returns None."""
    path.write_bytes(FIRST + LAST)
    assert read(path) == ([(0, 0), (1, len(FIRST))], None)
    assert read(path, may_be_torn=False) == ([(0, 0), (1, len(FIRST))], None)
    path.write_bytes(b"")
    assert read(path, may_be_torn=False) == ([], None)


def test_unreadable_file_is_named(path: Path) -> None:
    for problem in ("No such file or directory", "Is a directory"):
        with pytest.raises(LogDirectoryError) as refused:
            BatchFile(path, 0)
        assert str(refused.value) == f"{path}: {problem}"
        path.mkdir(exist_ok=True)


def test_failed_read_names_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(FIRST)

    def fail(file: BatchFile, position: int, size: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(BatchFile, "_bytes_at", fail)
    with BatchFile(path, 0) as file, pytest.raises(LogDirectoryError) as refused:
        file.read(may_be_torn=True)
    assert str(refused.value) == f"{path}: Input/output error"


@pytest.mark.parametrize("whole", [FIRST, b""], ids=["second", "first"])
def test_batch_cut_at_any_byte_is_torn(path: Path, whole: bytes) -> None:
    for size in range(1, len(LAST)):
        reason = torn(path, whole + LAST[:size], whole=whole)
        if not LAST[:size].strip(b"\0"):
            assert reason == "only zeros to the end of the file"
        elif size < 12:
            assert reason == f"{size} bytes, less than a batch needs"
        else:
            assert reason == f"a batch of {len(LAST)} bytes of which {size} exist"


def test_zeros_to_the_end_are_torn(path: Path) -> None:
    """The file was extended, but its data was not written."""
    for size in (1, 11, 12, 61, SECTOR_SIZE, 5000, (1 << 20) + 1, (1 << 20) + 13):
        assert torn(path, FIRST + bytes(size)) == "only zeros to the end of the file"


def batch_of_size(offset: int, size: int) -> bytes:
    """Return a batch of one record with ``size`` bytes (at least a few hundred)."""
    other = data_batch(offset, [bytes(size - 100)])
    batch = data_batch(offset, [bytes(2 * size - 100 - len(other))])
    assert len(batch) == size
    return batch


def test_zeros_before_other_bytes_are_not_torn(path: Path) -> None:
    """The other bytes may be an acknowledged batch."""
    for size in (12, 13, SECTOR_SIZE - len(FIRST) - 1):
        error = refusal(path, FIRST + bytes(size) + b"\1")
        assert error.reason == "expected a batch length of at least 49, found 0"
        assert (error.position, error.offset) == (len(FIRST) + 8, 1)
    aligned = batch_of_size(0, 2 * SECTOR_SIZE)
    for size in (12, SECTOR_SIZE, 5000, (1 << 20) + 12, (1 << 21) + 12):
        assert refusal(path, aligned + bytes(size) + b"\1").position == len(aligned) + 8
        assert refusal(path, aligned + bytes(size) + LAST).position == len(aligned) + 8


@pytest.mark.parametrize("following", [b"\1", LAST, LARGE], ids=["bytes", "batch", "large"])
def test_unchanged_sector_is_torn(path: Path, following: bytes) -> None:
    """No sync has completed after the last batch, whose sector is filled with zeros."""
    stale = SECTOR_SIZE - len(FIRST)
    for size in (stale, stale + 1, stale + SECTOR_SIZE, 5000, (1 << 20) + 12):
        reason = torn(path, FIRST + bytes(size) + following)
        assert reason == "a batch whose first sector was never written"


@pytest.mark.parametrize("left", [8, 9, 11, 12, 13, 100])
def test_few_zeros_at_the_end_of_a_sector_are_damage(path: Path, left: int) -> None:
    """These zeros do not even fill an offset and a length, 12 bytes."""
    data = batch_of_size(0, 2 * SECTOR_SIZE - left) + bytes(left) + LAST[left:]
    if left < 12:
        path.write_bytes(data)
        with BatchFile(path, 0) as file:
            assert file.read(may_be_torn=True) is not None
            with suppress(CorruptLogError):
                batch = file.read(may_be_torn=True)
                assert batch is not None
                assert batch.batch.base_offset == 0, "which the log rejects"
    else:
        reason = torn(path, data, whole=batch_of_size(0, 2 * SECTOR_SIZE - left))
        assert reason == "a batch whose first sector was never written"


@pytest.mark.parametrize("zeros", [1, 63, 64, 511, 512, 600, 5000])
def test_zeros_after_a_damaged_batch_do_not_make_it_torn(path: Path, zeros: int) -> None:
    """The zeros come from a later write, so the batch was complete before."""
    for position in range(21, len(LAST)):
        refusal(path, FIRST + flipped(LAST, position) + bytes(zeros))


def test_cut_batch_filled_with_zeros_is_torn(path: Path) -> None:
    """If only its last bytes are zeros, it counts as damaged, because they may be its own."""
    for size in range(len(LAST) - LAST_PIECE_MIN + 1):
        torn(path, (FIRST + LAST[:size]).ljust(4 * SECTOR_SIZE, b"\0"))
    ends_in_zeros = len(LAST) - len(LAST.rstrip(b"\0"))
    for size in range(len(LAST) - LAST_PIECE_MIN + ends_in_zeros, len(LAST) - ends_in_zeros):
        refusal(path, (FIRST + LAST[:size]).ljust(4 * SECTOR_SIZE, b"\0"))
    path.write_bytes((FIRST + LAST).ljust(4 * SECTOR_SIZE, b"\0"))
    places, tail = read(path)
    assert places == [(0, 0), (1, len(FIRST))]
    assert tail is not None
    assert tail.position == len(FIRST + LAST)


def test_batch_with_a_sector_of_zeros_is_torn(path: Path) -> None:
    data = FIRST + LARGE
    starts = sectors(len(data), len(FIRST))
    assert len(starts) > 4
    for start in starts:
        damaged = with_zeros(data, start, SECTOR_SIZE)
        assert torn(path, damaged) == "a batch with a sector of zeros"
        torn(path, damaged + bytes(3 * SECTOR_SIZE))


def test_zeros_of_less_than_a_sector_are_damage(path: Path) -> None:
    """A crash loses whole sectors."""
    data = FIRST + LARGE
    for start in sectors(len(data), len(FIRST))[:-1]:
        refusal(path, with_zeros(data, start + 1, SECTOR_SIZE))
        refusal(path, with_zeros(data, start - 1, SECTOR_SIZE))
        refusal(path, with_zeros(data, start, SECTOR_SIZE - 1))
    rest_of_first_sector = -len(FIRST) % SECTOR_SIZE
    refusal(path, with_zeros(data, len(FIRST) + 12, rest_of_first_sector - 12))


@pytest.mark.parametrize("piece", [5, LAST_PIECE_MIN - 1, LAST_PIECE_MIN, 65, 200, SECTOR_SIZE - 1])
def test_part_of_a_last_sector_counts_from_a_minimum_size(path: Path, piece: int) -> None:
    """Fewer zeros may be the end of a record."""
    missing = 2 * SECTOR_SIZE + piece - len(FIRST + data_batch(1, [bytes(600)]))
    data = FIRST + data_batch(1, [b"\1\2\0" + b"x" * (597 + missing)])
    assert len(data) % SECTOR_SIZE == piece
    damaged = with_zeros(data, len(data) - piece, piece)
    if piece >= LAST_PIECE_MIN:
        assert torn(path, damaged) == "a batch with a sector of zeros"
    else:
        refusal(path, damaged)
    assert (SECTOR_SIZE, LAST_PIECE_MIN) == (512, 64)


def test_earlier_batch_with_a_sector_of_zeros_is_damage(path: Path) -> None:
    """The next batch was written later, so this one had been complete."""
    data = FIRST + LARGE
    for start in sectors(len(data), len(FIRST)):
        damaged = with_zeros(data, start, SECTOR_SIZE)
        error = refusal(path, damaged + data_batch(2, [added(60)]))
        assert error.reason.startswith("expected CRC-32C ")
        assert (error.position, error.offset) == (len(FIRST) + 17, 1)
        refusal(path, damaged + b"\1")


def test_complete_batch_with_a_bad_crc_is_damage(path: Path) -> None:
    """This applies even to the last batch: it may be an acknowledged DENY."""
    for position in range(12, len(LAST)):
        damaged = FIRST + flipped(LAST, position)
        if position in range(12, 16):
            path.write_bytes(damaged)
            assert read(path) == ([(0, 0), (1, len(FIRST))], None)
        else:
            error = refusal(path, damaged)
            assert error.offset == 1
            assert error.position == len(FIRST) + (16 if position == 16 else 17)


@pytest.mark.parametrize("following", [b"", SMALLEST, LARGE], ids=["last", "small", "large"])
def test_wrong_length_is_damage(path: Path, following: bytes) -> None:
    """With too many bytes, the CRC still matches; with too few, the batch does not fit the rest."""
    for bit in range(32):
        position = 8 + bit // 8
        error = refusal(path, FIRST + flipped(LAST, position, 1 << bit % 8) + following)
        assert error.offset == 1
        assert error.position in (len(FIRST) + 8, len(FIRST) + 17)


def test_error_names_both_lengths(path: Path) -> None:
    damaged = LAST[:8] + (10_000).to_bytes(4, "big") + LAST[12:]
    assert refusal(path, FIRST + damaged).reason == f"a batch of {len(LAST)} bytes announces 10012"


@pytest.mark.parametrize("may_be_torn", [False, True])
@pytest.mark.parametrize("size", [0, 5, 11, 12, 40, len(LAST) - 1])
def test_file_cut_while_it_is_read_is_not_torn(path: Path, size: int, may_be_torn: bool) -> None:
    """A torn tail would be cut off, although the missing batches may have been acknowledged."""
    path.write_bytes(LAST)
    with BatchFile(path, 0) as file:
        with path.open("r+b") as shrinking:
            shrinking.truncate(size)
        with pytest.raises(LogDirectoryError, match=f"ends at byte {size}, but the file had"):
            file.read(may_be_torn=may_be_torn)


@pytest.mark.parametrize("size", [0, 5, 12, 70])
def test_file_that_grows_is_read_to_its_first_size(path: Path, size: int) -> None:
    """A log in use grows. The next reading returns the rest."""
    path.write_bytes(LAST[:size])
    with BatchFile(path, 0) as file:
        with path.open("ab") as growing:
            growing.write(LAST[size:])
        assert file.read(may_be_torn=True) is None
        assert (file.torn_tail is None) == (size == 0)


def test_many_batches_are_read_at_once(path: Path) -> None:
    """Each read lets another thread run, and many small ones would stop the event loop."""
    batches = [data_batch(number, [added(number)]) for number in range(3000)]
    path.write_bytes(b"".join(batches))
    storage = CountingStorage()
    with BatchFile(path, 0, storage) as file:
        assert [file.read(may_be_torn=False) is not None for _ in batches] == [True] * len(batches)
        assert file.read(may_be_torn=False) is None
    assert storage.reads <= 2
    assert storage.bytes_read < path.stat().st_size + 1000
