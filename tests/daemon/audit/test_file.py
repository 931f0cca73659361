"""The audit file: whole lines, on a full disk and across rotations."""

import errno
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.actors.audit_log import PartialWriteError
from authorizerd.daemon.audit.file import AuditFile, AuditLock, count_whole_lines

WRITERS = 3
BATCHES = 60
SECONDS_MAX = 10.0


class Disk:
    """A disk that is full after ``room`` more bytes."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.room = room

    def write(self, file: int, data: bytes | memoryview) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        size = os.write(file, data[: self.room])
        self.room -= size
        return size


async def written_until_full(file: AuditFile, lines: Sequence[bytes]) -> int:
    """Write until the disk is full. Return the number of complete lines."""
    with pytest.raises(PartialWriteError, match="No space left") as full:
        await file.write(lines)
    return full.value.lines_written


async def test_lines_are_appended(tmp_path: Path) -> None:
    """The earlier content stays. Only owner and group can read the file."""
    path = tmp_path / "audit.log"
    for lines in ([b"one", b"two"], [b"three"]):
        file = AuditFile(str(path), AuditLock())
        await file.write(lines)
        file.close()
    assert path.read_bytes() == b"one\ntwo\nthree\n"
    assert path.stat().st_mode & 0o007 == 0


@pytest.mark.parametrize("room", range(13))
async def test_a_line_torn_by_a_full_disk_is_written_again(tmp_path: Path, room: int) -> None:
    """Wherever it was torn, every line is written once, whole and in order."""
    path, disk, lines = tmp_path / "audit.log", Disk(room), [b"one", b"two", b"four"]
    file = AuditFile(str(path), AuditLock(), disk.write)
    written = await written_until_full(file, lines)
    assert written == sum(end - 1 <= room for end in (4, 8, 13))
    with pytest.raises(OSError, match="No space left"):
        await file.write(lines[written:])
    disk.room = 1 << 30
    await file.write(lines[written:])
    file.close()
    found = path.read_bytes().splitlines()
    assert [line for line in found if line in lines] == lines
    assert len(found) <= len(lines) + 1  # the torn text is a line of its own
    assert path.read_bytes().endswith(b"\n")


async def test_a_write_without_lines_ends_a_torn_line_once(tmp_path: Path) -> None:
    """Such a write shows whether the disk has room again."""
    path, disk = tmp_path / "audit.log", Disk(2)
    file = AuditFile(str(path), AuditLock(), disk.write)
    await written_until_full(file, [b"one"])
    with pytest.raises(OSError, match="No space left"):
        await file.write([])
    disk.room = 1
    await file.write([])
    await file.write([])
    file.close()
    assert path.read_bytes() == b"on\n"


async def test_a_line_torn_by_another_process_is_ended(tmp_path: Path) -> None:
    """For example, the other process was killed."""
    path = tmp_path / "audit.log"
    path.write_bytes(b"to")
    file = AuditFile(str(path), AuditLock())
    await file.write([b"one"])
    with path.open("ab") as other:
        other.write(b"torn")
    await file.write([b"two"])
    file.close()
    assert path.read_bytes() == b"to\none\ntorn\ntwo\n"


async def test_a_moved_file_is_noticed_without_a_signal(tmp_path: Path) -> None:
    """Logrotate may create the new file or not. A write without lines creates it as well."""
    path, old = tmp_path / "audit.log", tmp_path / "audit.log.1"
    file = AuditFile(str(path), AuditLock())
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


async def test_a_move_between_check_and_write_loses_nothing(tmp_path: Path) -> None:
    """The lines of that moment go to the moved file."""
    path, old = tmp_path / "audit.log", tmp_path / "audit.log.1"

    def move_then_write(file: int, data: bytes | memoryview) -> int:
        if not old.exists():
            path.rename(old)
        return os.write(file, data)

    file = AuditFile(str(path), AuditLock(), move_then_write)
    await file.write([b"one", b"two"])
    await file.write([b"three"])
    file.close()
    assert old.read_bytes() == b"one\ntwo\n"
    assert path.read_bytes() == b"three\n"


async def test_a_truncated_file_begins_with_a_whole_line(tmp_path: Path) -> None:
    """Logrotate's copytruncate: the next lines begin at offset 0."""
    path = tmp_path / "audit.log"
    file = AuditFile(str(path), AuditLock())
    await file.write([b"one", b"two"])
    shutil.copy(path, tmp_path / "audit.log.1")
    os.truncate(path, 0)
    await file.write([b"three"])
    file.close()
    assert path.read_bytes() == b"three\n"


async def test_all_lines_of_one_write_are_one_call(tmp_path: Path) -> None:
    """A truncation by another process therefore cannot cut a line."""
    calls: list[bytes] = []

    def write(file: int, data: bytes | memoryview) -> int:
        calls.append(bytes(data))
        return os.write(file, data)

    file = AuditFile(str(tmp_path / "audit.log"), AuditLock(), write)
    await file.write([b"%d" % number for number in range(5000)])
    file.close()
    assert len(calls) == 1


async def test_other_processes_wait_during_a_write(tmp_path: Path) -> None:
    """Otherwise a process could append to a torn line."""
    turns = AuditLock()
    answers: list[bool] = []

    def write(file: int, data: bytes | memoryview) -> int:
        answers.append(_other_process_may_write(turns))
        return os.write(file, data[:2])

    file = AuditFile(str(tmp_path / "audit.log"), turns, write)
    await file.write([b"one"])
    assert answers == [False, False]
    assert _other_process_may_write(turns)
    file.close()


def _other_process_may_write(turns: AuditLock) -> bool:
    """Return True if another process could take the lock now."""
    code = "import fcntl, sys; fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(turns.descriptor)],
        pass_fds=[turns.descriptor],
        stderr=subprocess.PIPE,
        check=False,
    )
    assert done.returncode == 0 or b"BlockingIOError" in done.stderr
    return done.returncode == 0


_LOCKER = """
import fcntl, sys
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_EX)
fcntl.lockf(file, fcntl.LOCK_SH)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def locked_file(tmp_path: Path) -> Iterator[Path]:
    """Return a file on which a process with read access holds every lock that it can take."""
    path = tmp_path / "audit.log"
    path.touch()
    with subprocess.Popen(
        [sys.executable, "-c", _LOCKER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as locker:
        assert locker.stdout is not None
        assert locker.stdout.readline() == b"locked\n"
        yield path
        locker.communicate()


async def test_a_reader_of_the_file_cannot_delay_a_write(locked_file: Path, tmp_path: Path) -> None:
    """Its locks on the file have no effect."""
    path = tmp_path / locked_file.name
    file = AuditFile(str(path), AuditLock())
    with trio.fail_after(SECONDS_MAX):
        await file.write([b"one"])
    file.close()
    assert path.read_bytes() == b"one\n"


async def test_a_hanging_write_is_abandoned(tmp_path: Path) -> None:
    """The write ends when it is cancelled, but the descriptor of its thread stays open."""
    path = tmp_path / "audit.log"
    begun, goes_on, done = threading.Event(), threading.Event(), threading.Event()

    def write(file: int, data: bytes | memoryview) -> int:
        begun.set()
        goes_on.wait(SECONDS_MAX)
        size = os.write(file, data)
        done.set()
        return size

    file = AuditFile(str(path), AuditLock(), write)
    with trio.fail_after(SECONDS_MAX):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(file.write, [b"one"])
            await trio.to_thread.run_sync(begun.wait)
            nursery.cancel_scope.cancel()
    file.close()
    goes_on.set()
    assert done.wait(SECONDS_MAX)
    assert path.read_bytes() == b"one\n"


async def test_reopening_opens_the_path_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = AuditFile(str(path), AuditLock())
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


async def test_a_path_that_cannot_be_reopened_is_an_error_until_it_can(tmp_path: Path) -> None:
    """No line goes to a file elsewhere."""
    folder, path = tmp_path / "logs", tmp_path / "logs" / "audit.log"
    folder.mkdir()
    file = AuditFile(str(path), AuditLock())
    folder.rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError):
        await file.write([b"one"])
    folder.mkdir()
    path.mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        await file.write([b"one"])
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        await file.write([b"one"])
    path.unlink()
    await file.write([b"one"])
    file.close()
    assert path.read_bytes() == b"one\n"
    assert (tmp_path / "moved" / "audit.log").read_bytes() == b""


@given(st.lists(st.binary(max_size=4), max_size=5), st.integers(0, 30))
def test_a_line_without_its_line_feed_counts_as_whole(lines: list[bytes], size: int) -> None:
    """If only the line feed is missing, the next write adds it."""
    data = b"".join(line + b"\n" for line in lines)[:size]
    ends = list(accumulate(len(line) + 1 for line in lines))
    count = count_whole_lines(lines, len(data))
    assert all(end - 1 <= len(data) for end in ends[:count])
    assert not data or all(end - 1 > len(data) for end in ends[count:])


_WRITER = """
import errno, os, sys, time
from authorizerd.daemon.audit.file import AuditFile
from authorizerd.daemon.audit.file import AuditLock

path, name, calls, turns = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
is_full = False

def write(file, data):  # a disk that is often full within a line
    global calls, is_full
    calls += 1
    if is_full:
        is_full = False
        raise OSError(errno.ENOSPC, "full")
    is_full = calls % 3 == 0 and len(data) > 1
    return os.write(file, data[: len(data) // 2] if is_full else data)

file = AuditFile(path, AuditLock(turns), write)
for batch in range(60):
    while batch == 30 and not os.path.exists(path + ".0001"):
        time.sleep(0.001)  # the first half of the lines is enough for a rotation
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
    """Each line is written once, in its process's order, while disks fill and files are moved."""
    path = tmp_path / "audit.log"
    root = str(Path(__file__).parents[3])
    turns = AuditLock().descriptor
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), f"w{number}", str(number), str(turns)],
            cwd=root,
            pass_fds=[turns],
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
    # Each torn text is a line of its own: the beginning of one line.
    torn = [line for line in lines if not whole.fullmatch(line)]
    assert all(line.count(b"<") <= 1 and not line.endswith(b">") for line in torn)
