"""The audit stream: whole lines for readers, and no harm from a reader that is stuck."""

import errno
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from authorizerd.actors.audit_log import PartialWriteError
from authorizerd.daemon.audit.file import AuditLock
from authorizerd.daemon.audit.stream import AuditStream


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def read_all(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += os.read(descriptor, 65536)
    return data


def fill(descriptor: int) -> int:
    """Fill a pipe. Return the number of bytes in it."""
    os.set_blocking(descriptor, False)
    size = 0
    try:
        while True:
            size += os.write(descriptor, bytes(4096))
    except BlockingIOError:
        os.set_blocking(descriptor, True)
        return size


async def test_lines_are_written_in_blocks(pipe: tuple[int, int]) -> None:
    """A block has as many lines as a pipe accepts at once. Without lines, nothing is written."""
    sizes: list[int] = []

    def write(descriptor: int, data: bytes | memoryview) -> int:
        sizes.append(len(data))
        return os.write(descriptor, data)

    stream = AuditStream(pipe[1], AuditLock(), is_ours=False, write=write)
    lines = [b"x" * 99] * 100 + [b"y" * 10_000] + [b"z"]
    await stream.write([])
    await stream.write(lines)
    expected = b"".join(line + b"\n" for line in lines)
    assert read_all(pipe[0], len(expected)) == expected
    assert max(sizes) == select.PIPE_BUF
    assert sizes[:2] == [4000, 4000]
    stream.close()
    assert os.fstat(pipe[1])  # still open: it is not ours


async def test_a_stuck_reader_does_not_block_the_event_loop(pipe: tuple[int, int]) -> None:
    """Other tasks run. Once the reader reads again, it gets all lines."""
    size = fill(pipe[1])
    stream = AuditStream(pipe[1], AuditLock(), is_ours=False)
    turns = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.write, [b"one", b"two"])
        for _ in range(100):
            await trio.lowlevel.checkpoint()
            turns += 1
        assert read_all(pipe[0], size)
    assert turns == 100
    assert os.read(pipe[0], 100) == b"one\ntwo\n"


async def test_a_cancelled_write_abandons_its_thread(pipe: tuple[int, int]) -> None:
    """A stuck reader cannot prevent the daemon's end."""
    fill(pipe[1])
    stream = AuditStream(pipe[1], AuditLock(), is_ours=False)
    with trio.fail_after(10), trio.move_on_after(0.01) as scope:
        await stream.write([b"one"])
    assert scope.cancelled_caught
    stream.close()
    assert os.fstat(pipe[1])  # still open: the thread may use it
    await trio.to_thread.run_sync(_wait_until_idle, stream)


def _wait_until_idle(stream: AuditStream) -> None:
    """Wait until the thread has noticed that it is abandoned, although nobody reads."""
    give_up = time.monotonic() + 30
    while stream._is_busy:
        assert time.monotonic() < give_up
        time.sleep(0.01)


async def test_a_closed_pipe_is_an_error(pipe: tuple[int, int]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = AuditStream(writing, AuditLock(), is_ours=True)
    with pytest.raises(PartialWriteError, match="Broken pipe") as broken:
        await stream.write([b"one"])
    assert broken.value.lines_written == 0
    stream.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(writing)


@pytest.mark.parametrize("room", range(8))
async def test_a_torn_line_is_ended_before_the_next(pipe: tuple[int, int], room: int) -> None:
    """Each line arrives once, whole. The torn text is a line of its own."""

    def write(descriptor: int, data: bytes | memoryview) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        size = os.write(descriptor, data[:room])
        room -= size
        return size

    lines = [b"one", b"two"]
    stream = AuditStream(pipe[1], AuditLock(), is_ours=False, write=write)
    with pytest.raises(PartialWriteError) as cut:
        await stream.write(lines)
    room = 1000
    await stream.write(lines[cut.value.lines_written :])
    found = os.read(pipe[0], 100)
    assert [line for line in found.splitlines() if line in (b"one", b"two")] == [b"one", b"two"]
    assert len(found.splitlines()) <= 3
    assert found.endswith(b"\n")


_WRITER = """
import sys
from authorizerd.daemon.audit.stream import AuditStream
from authorizerd.daemon.audit.file import AuditLock
stream = AuditStream(1, AuditLock(int(sys.argv[2])), is_ours=False)
for number in range(20):
    stream._send([b"<%s %d %s>" % (sys.argv[1].encode(), number, b"x" * 30_000)] * 2)
"""


def test_long_lines_of_several_processes_are_whole() -> None:
    """They take turns, because a pipe mixes writes above its limit."""
    reading, writing = os.pipe()
    root = str(Path(__file__).parents[3])
    turns = AuditLock().descriptor
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, f"p{number}", str(turns)],
            stdout=writing,
            cwd=root,
            pass_fds=[turns],
        )
        for number in range(2)
    ]
    os.close(writing)
    with os.fdopen(reading, "rb") as output:
        lines = output.read().splitlines()
    assert [process.wait() for process in processes] == [0, 0]
    assert len(lines) == 80
    assert all(re.fullmatch(rb"<p\d \d+ x{30000}>", line) for line in lines)


def make_file(folder: Path) -> tuple[int, Callable[[], bytes]]:
    path = folder / "out"
    return os.open(path, os.O_WRONLY | os.O_CREAT), path.read_bytes


def make_socket(folder: Path) -> tuple[int, Callable[[], bytes]]:
    ours, theirs = socket.socketpair()
    return ours.detach(), lambda: _received(theirs)


def _received(end: socket.socket) -> bytes:
    with end:
        return end.recv(100)


@pytest.mark.parametrize("make", [make_file, make_socket])
async def test_standard_output_may_be_a_file_or_a_socket(
    tmp_path: Path, make: Callable[[Path], tuple[int, Callable[[], bytes]]]
) -> None:
    """A service manager, for example, passes a socket."""
    descriptor, written = make(tmp_path)
    stream = AuditStream(descriptor, AuditLock(), is_ours=True)
    await stream.write([b"one"])
    await stream.write([b"two"])
    assert written() == b"one\ntwo\n"
    stream.close()
