import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import TextIO
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.config.values import LogFormat
from authorizerd.daemon.logging import setup as log_output
from authorizerd.daemon.logging.setup import (
    LINE_BYTES_MAX,
    LineFormatter,
    escape_line,
    flush_log,
    is_journal,
    log_to_standard_error,
    report_fault,
    set_log_format,
)

FORGED = "alice\n2026-01-01 00:00:00,000 ERROR authorizerd: forged\r\x1b[2J\x85\u2028\x7f\u202e\0"


def record(
    message: str = "m", level: int = logging.INFO, error: BaseException | None = None
) -> logging.LogRecord:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("authorizerd", level, __file__, 1, "%s", (message,), exc_info)
    made.created = 1_792_000_000.25
    return made


def new_formatter(
    format_as: LogFormat, *, worker: int | None = None, is_journal: bool = False
) -> LineFormatter:
    formatter = LineFormatter(worker=worker, is_journal=is_journal)
    formatter.format_as = format_as
    return formatter


def raised(text: str) -> BaseException:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def test_unprintable_characters_are_escaped_without_a_free_descriptor() -> None:
    """Python loads a codec from a file at its first use."""
    code = """
import resource
from authorizerd.daemon.logging.setup import escape_line
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
print(escape_line("\x1b"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\\x1b\n"


def test_text_line_has_time_level_and_logger() -> None:
    line = new_formatter(LogFormat.TEXT).format(record("loaded"))
    assert line.endswith(" INFO authorizerd: loaded")
    assert line.startswith("2026-10-1")
    line = new_formatter(LogFormat.TEXT, worker=12).format(record("loaded"))
    assert line.endswith(" INFO authorizerd worker 12: loaded")


def test_json_line_is_one_object_with_utc_time() -> None:
    line = new_formatter(LogFormat.JSON).format(record("a “b”", logging.WARNING))
    assert json.loads(line) == {
        "time": "2026-10-14T17:46:40.250Z",
        "level": "WARNING",
        "logger": "authorizerd",
        "pid": os.getpid(),
        "message": "a “b”",
    }
    assert json.loads(new_formatter(LogFormat.JSON, worker=12).format(record()))["worker"] is True


@pytest.mark.parametrize("format_as", LogFormat)
@given(text=st.text(max_size=40) | st.just(FORGED))
def test_any_event_is_one_printable_line(format_as: LogFormat, text: str) -> None:
    """Nobody can forge an event, or control the reader's terminal."""
    line = new_formatter(format_as).format(record(text))
    assert line.isprintable()
    if format_as is LogFormat.JSON:
        assert json.loads(line)["message"] == text
        assert line.isascii()


@pytest.mark.parametrize("format_as", LogFormat)
def test_exception_is_in_the_same_line(format_as: LogFormat) -> None:
    line = new_formatter(format_as).format(record("failed", error=raised("no\nroom")))
    assert line.isprintable()
    assert "test_setup.py" in line
    assert "ValueError: no" in line


@pytest.mark.parametrize("format_as", LogFormat)
@pytest.mark.parametrize("letter", ["a", "\n", "é", "\U0001f600", "\U0010ffff"])
def test_line_is_cut_to_what_the_journal_accepts(format_as: LogFormat, letter: str) -> None:
    """The journal would split a longer one into two events."""
    text = "begin" + letter * 200_000 + "end"
    line = new_formatter(format_as, is_journal=True).format(record(text, error=raised(text)))
    assert len(line.encode()) <= LINE_BYTES_MAX + len("<6>")
    assert "begin" in line
    assert "[cut]" in line
    assert "end" in line


@pytest.mark.parametrize(
    ("level", "priority"),
    [
        (logging.DEBUG, 7),
        (logging.INFO, 6),
        (logging.WARNING, 4),
        (logging.ERROR, 3),
        (logging.CRITICAL, 2),
        (logging.INFO + 1, 6),
    ],
)
@pytest.mark.parametrize("format_as", LogFormat)
def test_journal_line_has_priority_and_no_time(
    format_as: LogFormat, level: int, priority: int
) -> None:
    line = new_formatter(format_as, is_journal=True).format(record("m", level))
    assert line.startswith(f"<{priority}>")
    if format_as is LogFormat.TEXT:
        assert line == f"<{priority}>{logging.getLevelName(level)} authorizerd: m"


def test_journal_is_detected_by_the_descriptor() -> None:
    """A shell started by a service inherits the variable too."""
    with open(os.devnull, "w") as stream:
        status = os.fstat(stream.fileno())
        here = f"{status.st_dev}:{status.st_ino}"
        assert is_journal(stream, {"JOURNAL_STREAM": here})
        assert not is_journal(stream, {"JOURNAL_STREAM": f"{here}0"})
        assert not is_journal(stream, {})
    assert not is_journal(stream, {"JOURNAL_STREAM": here})
    assert not is_journal(io.StringIO(), {"JOURNAL_STREAM": here})


class StandardError:
    """A temporary file; ``text`` is everything written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        flush_log()
        self._stream.flush()
        self._stream.seek(0)
        return self._stream.read()


@contextmanager
def own_standard_error() -> Iterator[StandardError]:
    """Replace the root logger's handlers and standard error."""
    root = logging.getLogger()
    with (
        TemporaryFile("w+", buffering=1) as stream,
        mock.patch.object(root, "handlers", []),
        mock.patch.object(root, "level", logging.WARNING),
        mock.patch.object(sys, "stderr", stream),
        mock.patch.object(sys, "excepthook", sys.excepthook),
    ):
        yield StandardError(stream)


def test_final_fault_is_reported_in_the_logs_format() -> None:
    """As text, it looks like the error of any command, and what follows it is indented."""
    with own_standard_error() as standard_error:
        report_fault("no log")
        report_fault(FORGED)
        log_to_standard_error()
        report_fault("none")
        set_log_format(LogFormat.JSON)
        report_fault("no\nlog")
        *texts, event = standard_error.text.splitlines()
    name, rest = FORGED.split("\n")
    assert texts[1:3] == [f"authorizerd: {name}", f"  {escape_line(rest)}"]
    del texts[1:3]
    assert texts == ["authorizerd: no log", "authorizerd: none"]
    event = json.loads(event)
    assert (event["level"], event["message"]) == ("CRITICAL", "no\nlog")
    assert new_formatter(LogFormat.TEXT, is_journal=True).fault("x") == "<2>authorizerd: x"


@pytest.mark.parametrize("format_as", LogFormat)
def test_defect_is_one_event_in_json_and_in_the_journal(format_as: LogFormat) -> None:
    """In a terminal, it appears as Python's traceback, whose lines are indented and printable."""
    error = raised(f"a defect of {FORGED}")
    with own_standard_error() as standard_error:
        log_to_standard_error()
        set_log_format(format_as)
        sys.excepthook(type(error), error, error.__traceback__)
        text = standard_error.text
    if format_as is LogFormat.TEXT:
        first, *others = text.split("\n")[:-1]
        assert first == "Traceback (most recent call last):"
        assert "  ValueError: a defect of alice" in others
        assert all(line.startswith("  ") and line.isprintable() for line in others)
        return
    (line,) = text.splitlines()
    assert json.loads(line)["exception"].endswith(f"ValueError: a defect of {FORGED}")


def test_flood_of_one_kind_is_bounded_in_workers_too() -> None:
    with own_standard_error() as standard_error:
        log_to_standard_error(is_worker=True)
        for _ in range(100):
            logging.getLogger("authorizerd").warning("again")
        text = standard_error.text
    assert text.count("again") == 10
    assert f"worker {os.getpid()}" in text


def test_printable_text_is_unchanged() -> None:
    assert escape_line("Grüße an алиса") == "Grüße an алиса"
    assert escape_line("a\tb") == "a\\tb"
    assert log_output.escape_line("\ud800") == "\\ud800"
