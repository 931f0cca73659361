"""The children of the query process, each forked to answer one question.

A child shares the state's memory pages with its parent until one of them writes to a page. Python
counts references in the objects themselves, so even reading copies pages.

**Invariant:** a child keeps only its question's descriptors and the standard streams. It ignores
its parent's signals, dies with its parent, and runs none of the parent's clean-up at its end.
Any failure in a child leaves only its own question unanswered.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn

from authorizerd.protocol.framing import SIZE_BYTES, frame
from authorizerd.protocol.queries import (
    QUESTION_BYTES_MAX,
    Header,
    QueryQuestion,
    decode_question,
)

OWN_BYTES_MAX: Final = 512 * 1024 * 1024
"""How much memory a child may use beyond that of its parent."""
LINES_BYTES_MAX: Final = 256 * 1024 * 1024
"""The maximum compressed size of a listing's lines; compression leaves about a tenth."""
NICENESS: Final = 5
"""The niceness of children: decisions come first."""
OOM_SCORE: Final = 500
"""If the machine runs out of memory, the kernel ends a child first, not the daemon."""
GRACE_SECONDS: Final = 1.0
"""A child is killed this long after its time limit, if its caller has not disconnected."""
ENDED: Final = "ended"
"""The prefix of ``EndCounts`` in the process's counters."""
_PR_SET_PDEATHSIG: Final = 1
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGPIPE)

Work = Callable[[QueryQuestion], Iterator[bytes]]
"""Yields the frame of the answer, and then the lines that follow it."""

_prctl: Final = ctypes.CDLL(None).prctl


@dataclass(slots=True)
class EndCounts:
    """The number of questions that ended without an answer, by reason."""

    time: int = 0
    memory: int = 0
    failure: int = 0


class Question:
    """A question that is waiting or being answered, or whose lines are being read.

    ``child`` is 0 unless a child is answering. ``is_greedy`` is True once the child was killed for
    its memory.

    Args:
        lines: the descriptor of the file for the lines of a listing, -1 without one.
    """

    def __init__(self, header: Header, link: socket.socket, lines: int = -1) -> None:
        self.caller: Final = header.caller
        self.offset: Final = header.offset
        self.is_listing: Final = header.is_listing
        self.deadline: Final = header.deadline
        self.bytes_max = 0
        self.link: Final = link
        self.lines = lines
        self.child = 0
        self.is_greedy = False

    def start(self, work: Work, notes: Callable[[], bytes]) -> int:
        """Fork the child; return a descriptor that reaches its end when the child has ended.

        Args:
            notes: returns the bytes that the child sends to that descriptor at its end.

        Raises:
            OSError: the system cannot start another process.
        """
        self.bytes_max = _read_kilobytes("/proc/self/status", "VmRSS") * 1024 + OWN_BYTES_MAX
        parent, (ended, alive) = os.getpid(), os.pipe()
        try:
            self.child = os.fork()
            if not self.child:
                _answer(self, alive, parent, work, notes)
        except OSError:
            os.close(ended)
            raise
        finally:
            os.close(alive)
            self.drop_lines()
        return ended

    @property
    def is_late(self) -> bool:
        """True once the caller no longer waits for the answer."""
        return time.monotonic() >= self.deadline

    def kill(self) -> None:
        """Kill the child."""
        os.kill(self.child, signal.SIGKILL)

    def wait(self) -> int:
        """Return the exit code of the child, which has ended; negative: the number of a signal."""
        _, status = os.waitpid(self.child, 0)
        self.child = 0
        return os.waitstatus_to_exitcode(status)

    def drop_lines(self) -> None:
        """Close this process's copy of the file for lines."""
        if self.lines >= 0:
            os.close(self.lines)
            self.lines = -1

    def close(self) -> None:
        """Close the question's descriptors."""
        self.drop_lines()
        self.link.close()


def _answer(
    question: Question, alive: int, parent: int, work: Work, notes: Callable[[], bytes]
) -> NoReturn:
    """Answer the question, and end the process."""
    code, link = 1, question.link
    try:
        _isolate(question, alive, parent)
        link.setblocking(True)
        answer = work(_read_question(link))
        reply = next(answer)
        _write(alive, notes())  # before the reply: once the caller has it, this process is killed
        link.sendall(reply)
        size = 0
        for lines in answer:
            part = frame(zlib.compress(lines, 1))
            size += len(part)
            if size > LINES_BYTES_MAX:
                raise MemoryError("a listing has more lines than allowed")
            _write(question.lines, part)
            with suppress(BlockingIOError):  # the reader is slow, and will check again anyway
                link.send(b"+", socket.MSG_DONTWAIT)
        if question.lines >= 0:
            _write(question.lines, frame())
        link.shutdown(socket.SHUT_WR)
        code = 0
    except (BrokenPipeError, ConnectionResetError, EOFError):
        code = 0  # the caller has disconnected
    except BaseException:  # noqa: BLE001 - nothing may run after it
        with suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code)


def _isolate(question: Question, alive: int, parent: int) -> None:
    """Drop what the child has inherited, and limit its resources."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # fail with an error instead
    left = max(question.deadline - time.monotonic(), 0)
    signal.setitimer(signal.ITIMER_REAL, left + GRACE_SECONDS)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent has already ended
        os._exit(1)
    kept = sorted({question.link.fileno(), alive, max(question.lines, 2)})
    for after, before in zip((2, *kept), (*kept, os.sysconf("SC_OPEN_MAX")), strict=True):
        os.closerange(after + 1, before)
    with suppress(OSError):  # a seccomp filter may forbid it
        os.nice(NICENESS)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(OOM_SCORE))
    with suppress(OSError, ValueError):
        limit = _read_kilobytes("/proc/self/status", "VmData") * 1024 + OWN_BYTES_MAX
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def private_bytes(process: int) -> int:
    """Return a child's private memory in bytes; 0 once it has ended, or if that is not readable."""
    with suppress(OSError):
        return _read_kilobytes(f"/proc/{process}/smaps_rollup", "Private_Dirty") * 1024
    return 0


def _read_kilobytes(path: str, name: str) -> int:
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
    return 0


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _read_question(link: socket.socket) -> QueryQuestion:
    size = int.from_bytes(_read(link, SIZE_BYTES))
    if size > QUESTION_BYTES_MAX:
        raise EOFError
    return decode_question(_read(link, size))


def _read(link: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        received = link.recv(min(size - len(data), 1 << 16))
        if not received:
            raise EOFError
        data += received
    return bytes(data)
