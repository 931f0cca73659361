"""The log's queue: a slow reader of standard error blocks nobody, and floods are limited."""

import errno
import logging
import os
from threading import Event, Thread

from authorizerd.daemon.logging.queue import (
    LINES_PER_SECOND_MAX,
    LogLimit,
    LogQueue,
    QueueHandler,
    write_to,
)

WAIT_SECONDS = 30.0


class Reader:
    """A reader that accepts lines once it is told to; ``error`` is raised instead if it is set."""

    def __init__(self) -> None:
        self.reads = Event()
        self.was_asked = Event()
        self.error: OSError | None = None
        self.data = b""

    def write(self, data: bytes) -> int:
        self.was_asked.set()
        assert self.reads.wait(WAIT_SECONDS)
        if self.error is not None:
            raise self.error
        size = len(data) // 2 + 1  # a pipe may accept only a part
        self.data += data[:size]
        return size

    @property
    def lines(self) -> list[str]:
        return self.data.decode().splitlines()


def new_queue(reader: Reader) -> LogQueue:
    return LogQueue(reader.write, lambda lines: f"{lines} lost")


def test_full_queue_drops_lines_and_never_blocks() -> None:
    """Dropped lines are counted, and reported once, after the queued ones."""
    reader = Reader()
    queue = new_queue(reader)
    for number in range(300):
        queue.put(f"{number} {'x' * 10_000}")
    dropped = queue.statistics.lines_dropped
    assert 0 < dropped < 300
    assert not queue.flush(0.01)
    reader.reads.set()
    assert queue.flush(WAIT_SECONDS)
    assert [line.split()[0] for line in reader.lines] == [
        *(str(number) for number in range(300 - dropped)),
        str(dropped),
    ]
    assert reader.lines[-1] == f"{dropped} lost"
    queue.put("one more")
    assert queue.flush(WAIT_SECONDS)
    assert reader.lines[-2:] == [f"{dropped} lost", "one more"]


def test_line_being_written_counts_as_queued() -> None:
    """Otherwise a hanging reader would hold twice the limit."""
    reader = Reader()
    queue = new_queue(reader)
    queue.put("x" * 1000)
    assert reader.was_asked.wait(WAIT_SECONDS)
    queue.put("y" * (1024 * 1024 - 1000))
    assert queue.statistics.lines_dropped == 1
    reader.reads.set()
    assert queue.flush(WAIT_SECONDS)


def test_unwritable_lines_are_counted_and_reported_later() -> None:
    """For example, the disk is full, or no reader has the pipe open."""
    reader = Reader()
    reader.reads.set()
    reader.error = OSError(errno.ENOSPC, "full")
    queue = new_queue(reader)
    queue.put("one")
    assert queue.flush(WAIT_SECONDS), "the end of the process does not wait for such a disk"
    reader.error = None
    queue.put("two")
    assert queue.flush(WAIT_SECONDS)
    assert reader.lines == ["two", "1 lost"]
    assert queue.statistics.lines_dropped == 1


def test_text_with_lone_surrogates_is_written() -> None:
    reader = Reader()
    reader.reads.set()
    queue = new_queue(reader)
    queue.put("é\udc80")
    assert queue.flush(WAIT_SECONDS)
    assert reader.lines == ["é\\udc80"]


def test_number_of_lost_lines_is_logged_in_the_logs_format() -> None:
    reader = Reader()
    reader.reads.set()
    reader.error = OSError(errno.EPIPE, "broken")
    handler = QueueHandler(reader.write)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.info("lost")
    handler.flush()
    reader.error = None
    logger.info("written")
    handler.flush()
    assert reader.lines == [
        "INFO test: written",
        "WARNING authorizerd: 1 log lines were lost: standard error was not read fast enough",
    ]


def test_non_blocking_descriptor_is_waited_for() -> None:
    """Another process that shares the descriptor may have made it non-blocking."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    room = 0
    while True:
        try:
            room += os.write(writing, b"x" * 4096)
        except BlockingIOError:
            break
    queue = LogQueue(write_to(writing), str)
    queue.put("line")
    assert not queue.flush(0.01)
    taken = b""
    reader = Thread(target=lambda: queue.flush(WAIT_SECONDS))
    reader.start()
    while len(taken) < room + len(b"line\n"):
        taken += os.read(reading, 65536)
    reader.join(WAIT_SECONDS)
    assert taken.endswith(b"xline\n")
    os.close(reading)
    os.close(writing)


def record(message: str, number: int) -> logging.LogRecord:
    return logging.LogRecord("test", logging.INFO, __file__, 1, message, (number,), None)


def test_flood_of_one_kind_is_limited_and_counted() -> None:
    now = 100.0
    limit = LogLimit(lambda: now)
    passed = [limit.filter(record("closed: %d", number)) for number in range(50)]
    assert passed == [True] * LINES_PER_SECOND_MAX + [False] * (50 - LINES_PER_SECOND_MAX)
    now += 1
    later = record("closed: %d", 50)
    assert limit.filter(later)
    left_out = 50 - LINES_PER_SECOND_MAX
    assert later.getMessage() == f"closed: 50 ({left_out} similar lines were dropped)"
    again = record("closed: %d", 51)
    assert limit.filter(again)
    assert again.getMessage() == "closed: 51"


def test_other_kinds_are_not_limited() -> None:
    limit = LogLimit(lambda: 0.0)
    for number in range(50):
        limit.filter(record("closed: %d", number))
    assert limit.filter(record("ready: %d", 1))
