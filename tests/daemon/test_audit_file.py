"""The audit's file: whole lines, on a full disk and across rotations."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.audit_log import PartialWriteError
from daemon.audit_file import AuditFile, whole_lines

WRITERS = 3
BATCHES = 60


class Disk:
    """A disk with so many bytes of room; then it is full."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.room = room

    def write(self, file: int, data: bytes | memoryview) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        size = os.write(file, data[: self.room])
        self.room -= size
        return size


async def written_until_full(file: AuditFile, lines: Sequence[bytes]) -> int:
    """Return how many lines were written whole to a disk that becomes full."""
    with pytest.raises(PartialWriteError, match="No space left") as full:
        await file.write(lines)
    return full.value.lines_written


async def test_lines_are_appended(tmp_path: Path) -> None:
    """What stood in the file stays; others than owner and group cannot read it."""
    path = tmp_path / "audit.log"
    for lines in ([b"one", b"two"], [b"three"]):
        file = AuditFile(str(path))
        await file.write(lines)
        file.close()
    assert path.read_bytes() == b"one\ntwo\nthree\n"
    assert path.stat().st_mode & 0o007 == 0


@pytest.mark.parametrize("room", range(13))
async def test_a_line_torn_by_a_full_disk_is_ended_and_written_again(
    tmp_path: Path, room: int
) -> None:
    """Wherever it broke off: every line is there once, whole, and in order."""
    path, disk, lines = tmp_path / "audit.log", Disk(room), [b"one", b"two", b"four"]
    file = AuditFile(str(path), disk.write)
    written = await written_until_full(file, lines)
    assert written == sum(end - 1 <= room for end in (4, 8, 13))
    with pytest.raises(OSError, match="No space left"):
        await file.write(lines[written:])
    disk.room = 1 << 30
    await file.write(lines[written:])
    file.close()
    found = path.read_bytes().splitlines()
    assert [line for line in found if line in lines] == lines
    assert len(found) <= len(lines) + 1  # what was torn is a line of its own
    assert path.read_bytes().endswith(b"\n")


async def test_with_nothing_to_write_a_torn_line_is_ended_once(tmp_path: Path) -> None:
    """So that it is found out whether the disk has room again."""
    path, disk = tmp_path / "audit.log", Disk(2)
    file = AuditFile(str(path), disk.write)
    await written_until_full(file, [b"one"])
    with pytest.raises(OSError, match="No space left"):
        await file.write([])
    disk.room = 1
    await file.write([])
    await file.write([])
    file.close()
    assert path.read_bytes() == b"on\n"


async def test_what_another_process_left_torn_is_ended(tmp_path: Path) -> None:
    """One that was killed, before a start or while others run."""
    path = tmp_path / "audit.log"
    path.write_bytes(b"to")
    file = AuditFile(str(path))
    await file.write([b"one"])
    with path.open("ab") as other:
        other.write(b"torn")
    await file.write([b"two"])
    file.close()
    assert path.read_bytes() == b"to\none\ntorn\ntwo\n"


async def test_a_file_that_was_moved_is_found_out_without_a_word(tmp_path: Path) -> None:
    """Logrotate's create and nocreate: with nothing to write, too, there is a new file."""
    path, old = tmp_path / "audit.log", tmp_path / "audit.log.1"
    file = AuditFile(str(path))
    await file.write([b"one"])
    path.rename(old)
    path.touch(0o600)  # as logrotate makes it
    await file.write([b"two"])
    path.rename(tmp_path / "audit.log.2")
    await file.write([])
    assert path.read_bytes() == b""
    path.unlink()
    await file.write([b"three"])
    file.close()
    assert old.read_bytes() == b"one\n"
    assert (tmp_path / "audit.log.2").read_bytes() == b"two\n"
    assert path.read_bytes() == b"three\n"


async def test_a_move_between_look_and_write_loses_nothing(tmp_path: Path) -> None:
    """The lines of that moment are in the file that was moved."""
    path, old = tmp_path / "audit.log", tmp_path / "audit.log.1"

    def move_then_write(file: int, data: bytes | memoryview) -> int:
        if not old.exists():
            path.rename(old)
        return os.write(file, data)

    file = AuditFile(str(path), move_then_write)
    await file.write([b"one", b"two"])
    await file.write([b"three"])
    file.close()
    assert old.read_bytes() == b"one\ntwo\n"
    assert path.read_bytes() == b"three\n"


async def test_a_file_that_was_truncated_begins_with_a_whole_line(tmp_path: Path) -> None:
    """Logrotate's copytruncate: lines follow from the beginning, with no hole before them."""
    path = tmp_path / "audit.log"
    file = AuditFile(str(path))
    await file.write([b"one", b"two"])
    shutil.copy(path, tmp_path / "audit.log.1")
    os.truncate(path, 0)
    await file.write([b"three"])
    file.close()
    assert path.read_bytes() == b"three\n"


async def test_all_lines_of_one_write_are_one_call(tmp_path: Path) -> None:
    """A truncation by somebody else falls before or behind all of them, never within one."""
    calls: list[bytes] = []

    def write(file: int, data: bytes | memoryview) -> int:
        calls.append(bytes(data))
        return os.write(file, data)

    file = AuditFile(str(tmp_path / "audit.log"), write)
    await file.write([b"%d" % number for number in range(5000)])
    file.close()
    assert len(calls) == 1


async def test_others_wait_while_a_write_is_under_way(tmp_path: Path) -> None:
    """Or one could append to a line that has been torn since it looked."""
    path, refused = tmp_path / "audit.log", 0

    def write(file: int, data: bytes | memoryview) -> int:
        nonlocal refused
        with path.open("ab") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        refused += 1
        return os.write(file, data[:2])

    file = AuditFile(str(path), write)
    await file.write([b"one"])
    assert refused == 2
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    file.close()


async def test_reopening_opens_the_path_anew(tmp_path: Path) -> None:
    """Once, before the next write."""
    path = tmp_path / "audit.log"
    file = AuditFile(str(path))
    descriptors = _descriptors_of(path)
    file.reopen()
    await file.write([b"one"])
    await file.write([b"two"])
    assert len(_descriptors_of(path)) == len(descriptors) == 1
    file.close()
    assert _descriptors_of(path) == []
    assert path.read_bytes() == b"one\ntwo\n"


def _descriptors_of(path: Path) -> list[str]:
    found = []
    for each in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{each}")
        except FileNotFoundError:
            continue
        if target == str(path):
            found.append(each)
    return found


async def test_a_path_that_cannot_be_opened_again_is_an_error_until_it_can(
    tmp_path: Path,
) -> None:
    """No line goes to a file that nobody would look for."""
    folder, path = tmp_path / "logs", tmp_path / "logs" / "audit.log"
    folder.mkdir()
    file = AuditFile(str(path))
    folder.rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError):
        await file.write([b"one"])
    folder.mkdir()
    path.mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        await file.write([b"one"])
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a file"):
        await file.write([b"one"])
    path.unlink()
    await file.write([b"one"])
    file.close()
    assert path.read_bytes() == b"one\n"
    assert (tmp_path / "moved" / "audit.log").read_bytes() == b""


@given(st.lists(st.binary(max_size=4), max_size=5), st.integers(0, 30))
def test_a_line_is_whole_if_no_more_than_its_end_is_missing(lines: list[bytes], size: int) -> None:
    """The next write ends it."""
    data = b"".join(line + b"\n" for line in lines)[:size]
    ends = list(accumulate(len(line) + 1 for line in lines))
    count = whole_lines(lines, len(data))
    assert all(end - 1 <= len(data) for end in ends[:count])
    assert not data or all(end - 1 > len(data) for end in ends[count:])


_WRITER = """
import errno, os, sys
from daemon.audit_file import AuditFile

path, name, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
is_full = False

def write(file, data):  # to a disk that is often full in mid-line
    global calls, is_full
    calls += 1
    if is_full:
        is_full = False
        raise OSError(errno.ENOSPC, "full")
    is_full = calls % 3 == 0 and len(data) > 1
    return os.write(file, data[: len(data) // 2] if is_full else data)

file = AuditFile(path, write)
for batch in range(60):
    lines = [b"<%s %d %d %s>" % (name.encode(), batch, line, b"x" * 200) for line in range(20)]
    while lines:
        try:
            file._append(lines)
        except OSError as error:
            lines = lines[getattr(error, "lines_written", 0):]
        else:
            lines = []
"""


def test_several_processes_write_whole_lines_across_rotations(tmp_path: Path) -> None:
    """Each line once, in the order of its process, with disks that fill and files that move."""
    path = tmp_path / "audit.log"
    root = str(Path(__file__).parents[2])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), f"w{number}", str(number)], cwd=root
        )
        for number in range(WRITERS)
    ]
    rotations = 0
    while any(process.poll() is None for process in processes):
        if path.exists() and path.stat().st_size > 50_000:
            rotations += 1
            path.rename(tmp_path / f"audit.log.{rotations:04d}")
        time.sleep(0.001)
    assert [process.returncode for process in processes] == [0] * WRITERS
    files = [*sorted(tmp_path.glob("audit.log.*")), path]
    lines = [line for file in files if file.exists() for line in file.read_bytes().splitlines()]
    whole = re.compile(rb"<(w\d) (\d+) (\d+) x{200}>")
    found = [match.groups() for match in map(whole.fullmatch, lines) if match]
    assert rotations > 0
    assert len(found) == len(set(found)) == WRITERS * BATCHES * 20
    for number in range(WRITERS):
        own = [(int(batch), int(line)) for name, batch, line in found if name == b"w%d" % number]
        assert own == sorted(own)
    # What is not whole is a line by itself, of which there is the beginning of one and no more.
    torn = [line for line in lines if not whole.fullmatch(line)]
    assert all(line.count(b"<") <= 1 and not line.endswith(b">") for line in torn)
