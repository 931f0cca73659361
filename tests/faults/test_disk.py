"""The simulated disk does what real disks may do, and nothing else."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from authorizerd.metadata.storage import AppendFile
from tests.faults.contents import SECTOR_SIZE
from tests.faults.disk import FaultDisk
from tests.support.recording_storage import PowerFailure

FOLDER = Path("/folder")
FILE = FOLDER / "file"
SYNCED = bytes([1]) * 700
WRITES = (bytes([2]) * 600, bytes([3]) * 900)
WRITTEN = SYNCED + WRITES[0] + WRITES[1]
SEEDS = range(300)


def new_disk(seed: int) -> tuple[FaultDisk, AppendFile]:
    """Return a disk with a durable file, and that file."""
    disk = FaultDisk(Random(seed))
    disk.make_directory(FOLDER)
    disk.sync_directory(Path("/"))
    file = disk.append_to(FILE)
    file.append([SYNCED])
    file.sync()
    disk.sync_directory(FOLDER)
    return disk, file


def read(disk: FaultDisk, path: Path = FILE) -> bytes:
    with disk.open(path) as file:
        return file.read()


def outcomes(play: Callable[[FaultDisk, AppendFile], None]) -> set[bytes]:
    """Return the possible contents of the file after ``play`` and a power failure."""
    found = set()
    for seed in SEEDS:
        disk, file = new_disk(seed)
        play(disk, file)
        disk.lose_power()
        found.add(read(disk))
    return found


def write_both(_: FaultDisk, file: AppendFile) -> None:
    for data in WRITES:
        file.append([data])


def test_unsynced_writes_may_be_lost_cut_or_reordered() -> None:
    """Synced bytes stay. Holes are whole sectors."""
    found = outcomes(write_both)
    assert all(each.startswith(SYNCED) and len(each) <= len(WRITTEN) for each in found)
    assert {SYNCED, WRITTEN} <= found
    assert any(len(each) % SECTOR_SIZE and WRITTEN.startswith(each) for each in found - {WRITTEN})
    with_holes = [each for each in found if not WRITTEN.startswith(each)]
    assert any(each.rstrip(b"\0") != each.replace(b"\0", b"") for each in with_holes)
    for each in with_holes:
        for start in range(0, len(each), SECTOR_SIZE):
            sector = each[start : start + SECTOR_SIZE]
            whole = WRITTEN[start : start + len(sector)]
            assert all(a in (0, b) for a, b in zip(sector, whole, strict=True))


def test_sync_keeps_all_earlier_writes() -> None:

    def play(disk: FaultDisk, file: AppendFile) -> None:
        write_both(disk, file)
        file.sync()

    assert outcomes(play) == {WRITTEN}


def test_end_of_a_process_loses_nothing() -> None:
    """The next process sees the writes, but the files that the old one opened are unusable."""
    disk, file = new_disk(1)
    write_both(disk, file)
    disk.end_process()
    assert read(disk) == WRITTEN
    with pytest.raises(PowerFailure):
        file.append([b"more"])


def test_failed_sync_may_drop_visible_data() -> None:
    """A second sync succeeds without writing it. Without the cache, readers miss it."""
    found = set()
    for seed in SEEDS:
        disk, file = new_disk(seed)
        write_both(disk, file)
        disk.fail_in = 1
        with pytest.raises(OSError, match="the disk fails"):
            file.sync()
        file.sync()
        assert read(disk) == WRITTEN
        disk.drop_cache(FILE)
        forgotten = read(disk)
        disk.lose_power()
        assert read(disk) == forgotten, "data that was read from the disk stays"
        found.add(forgotten)
    assert WRITTEN in found
    assert any(each != WRITTEN for each in found)
    assert all(each.startswith(SYNCED) and len(each) == len(WRITTEN) for each in found)


def test_dropping_the_cache_keeps_dirty_data() -> None:
    disk, file = new_disk(1)
    write_both(disk, file)
    disk.drop_cache(FILE)
    assert read(disk) == WRITTEN


def test_failed_write_may_be_short() -> None:
    """On a full disk or after an I/O error, any part of the data may be written."""
    sizes, numbers = set(), set()
    for seed in SEEDS:
        disk, file = new_disk(seed)
        disk.fail_in = 1
        with pytest.raises(OSError, match="the disk fails") as failed:
            file.append(WRITES)
        numbers.add(failed.value.errno)
        assert WRITTEN.startswith(read(disk))
        sizes.add(len(read(disk)))
    assert numbers == {errno.ENOSPC, errno.EIO}
    assert len(sizes) > 50


def test_each_name_may_be_lost_until_its_directory_is_synced() -> None:
    """New, changed and removed names, in any combination."""
    found = set()
    for seed in SEEDS:
        disk, _ = new_disk(seed)
        disk.append_to(FOLDER / "new")
        disk.append_to(FOLDER / "part")
        disk.rename(FOLDER / "part", FOLDER / "whole")
        disk.remove(FILE)
        assert sorted(disk.names(FOLDER)) == ["new", "whole"]
        if seed % 2:
            disk.sync_directory(FOLDER)
        disk.lose_power()
        names = tuple(sorted(disk.names(FOLDER)))
        assert names == ("new", "whole") or not seed % 2
        found.add(names)
    assert {("file",), ("new", "whole"), ("file", "whole"), ("new",), ("file", "part")} <= found


@pytest.mark.parametrize("calls", range(1, 6))
def test_no_call_is_made_after_a_crash(calls: int) -> None:
    """The crashing call is made in full, in part, or not at all."""
    disk, file = new_disk(calls)
    disk.crash_in = calls
    for _ in range(calls - 1):
        file.append([b"x"])
    with pytest.raises(PowerFailure):
        file.append([b"x"])
    for call in (file.sync, lambda: disk.names(FOLDER), lambda: file.append([b"x"])):
        with pytest.raises(PowerFailure):
            call()
    disk.end_process()
    assert len(read(disk)) in (len(SYNCED) + calls - 1, len(SYNCED) + calls)


def test_missing_path_is_an_error() -> None:
    disk, _ = new_disk(1)
    for call in (disk.size, disk.open, disk.remove, disk.names, disk.drop_cache):
        with pytest.raises(FileNotFoundError):
            call(FOLDER / "other")
    with pytest.raises(NotADirectoryError):
        disk.names(FILE)
    assert not disk.exists(FOLDER / "other")
    assert not disk.is_file(FOLDER)
    assert disk.is_file(FILE)


def place_of(disk: FaultDisk) -> tuple[bytes, bytes | None]:
    """Return the contents of the file, and of one in another directory, None without it."""
    other = FOLDER / "other" / "file"
    return read(disk), read(disk, other) if disk.exists(other) else None


def test_exchange_happens_as_a_whole_or_not_at_all() -> None:
    """A power failure keeps it or loses it. A sync of either directory makes it durable."""
    other = FOLDER / "other"
    for synced, expected in (
        (None, {(SYNCED, b"other"), (b"other", SYNCED)}),
        (FOLDER, {(b"other", SYNCED)}),
        (other, {(b"other", SYNCED)}),
    ):
        found = set()
        for seed in range(50):
            disk, _ = new_disk(seed)
            disk.make_directory(other)
            file = disk.append_to(other / "file")
            file.append([b"other"])
            file.sync()
            disk.sync_directory(other)
            disk.sync_directory(FOLDER)
            disk.exchange(FILE, other / "file")
            assert place_of(disk) == (b"other", SYNCED)
            if synced is not None:
                disk.sync_directory(synced)
            disk.lose_power()
            found.add(place_of(disk))
        assert found == expected


def test_file_moved_to_another_directory_is_never_lost() -> None:
    """A power failure leaves it in exactly one of the two."""
    target = FOLDER / "other" / "file"
    found = set()
    for seed in range(50):
        disk, _ = new_disk(seed)
        disk.make_directory(target.parent)
        disk.sync_directory(FOLDER)
        disk.rename(FILE, target)
        disk.lose_power()
        found.add((disk.exists(FILE), disk.exists(target)))
    assert found == {(True, False), (False, True)}


def test_disk_may_be_unable_to_exchange() -> None:
    disk, _ = new_disk(0)
    disk.can_exchange = False
    with pytest.raises(OSError, match="Invalid argument"):
        disk.exchange(FILE, FOLDER)
