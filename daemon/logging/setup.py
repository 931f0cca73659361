"""The daemon's log on standard error: one line per event, as text or as JSON.

**Invariant:** an event's text cannot end its line or send control characters to a terminal, so
events cannot be forged. Only the fields that this module names are written. In the journal, each
line begins with its priority and has no time, because the journal itself records the time.

Source: sd-daemon(3); systemd.exec(5), JOURNAL_STREAM.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from traceback import format_exception
from types import TracebackType
from typing import Final, TextIO

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.config.values import LogFormat
from authorizerd.daemon.logging.queue import LogLimit, LogStatistics, QueueHandler, write_to
from authorizerd.daemon.process.utc_time import format_utc

LINE_BYTES_MAX: Final = 40_000
"""The journal accepts 48 KiB per line, and splits a longer one."""

# A character takes at most 4 bytes in UTF-8; 200 characters are left for the head of the line.
_TEXT_CHARACTERS_MAX: Final = LINE_BYTES_MAX // 4 - 200
_PRIORITIES: Final = (
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (logging.INFO, 6),
)
_DEBUG: Final = 7


class LineFormatter(logging.Formatter):
    """Format records as single lines.

    ``format_as`` may be set at any time.

    Args:
        worker: the process id of a worker; None in the daemon itself.
        is_journal: True if the lines go to the journal.
    """

    def __init__(self, *, worker: int | None = None, is_journal: bool = False) -> None:
        super().__init__()
        self._worker: Final = worker
        self.is_journal: Final = is_journal
        self.format_as = LogFormat.TEXT

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        exception = self.formatException(record.exc_info) if record.exc_info else ""
        line = (
            self._text(record, message, exception)
            if self.format_as is LogFormat.TEXT
            else self._json(record, message, exception)
        )
        return f"<{_priority(record.levelno)}>{line}" if self.is_journal else line

    def _text(self, record: logging.LogRecord, message: str, exception: str) -> str:
        time = "" if self.is_journal else f"{self.formatTime(record)} "
        worker = "" if self._worker is None else f" worker {self._worker}"
        event = escape_line(f"{message}\n{exception}" if exception else message)
        return f"{time}{record.levelname} {record.name}{worker}: {event}"

    def _json(self, record: logging.LogRecord, message: str, exception: str) -> str:
        head = {
            "time": format_utc(record.created),
            "level": record.levelname,
            "logger": record.name,
            "pid": record.process,
        }
        if self._worker is not None:
            head["worker"] = True
        texts = {"message": message} | ({"exception": exception} if exception else {})
        return _json_line(head, texts)

    def fault(self, text: str) -> str:
        """Return the line for a fault that ends the process. As text, it has no time or level."""
        if self.format_as is LogFormat.TEXT:
            line = escape_line(f"authorizerd: {text}")
            return f"<{_priority(logging.CRITICAL)}>{line}" if self.is_journal else line
        record = logging.LogRecord(
            "authorizerd", logging.CRITICAL, __file__, 0, "%s", (text,), None
        )
        return self.format(record)


def escape_line(text: str) -> str:
    """Return ``text`` as one line of bounded length, with unprintable characters escaped."""
    # Cut before escaping, so that a huge text is not escaped in full, and again afterwards, because
    # escapes are longer than characters.
    return _cut(escape_unprintable(_cut(text, _TEXT_CHARACTERS_MAX)), _TEXT_CHARACTERS_MAX)


def _cut(text: str, characters_max: int) -> str:
    """Cut the middle out of a long ``text``, because the end of an exception matters most."""
    if len(text) <= characters_max:
        return text
    half = characters_max // 2
    return f"{text[:half]}[cut]{text[-half:]}"


def _json_line(head: Mapping[str, object], texts: Mapping[str, str]) -> str:
    """Return one JSON object in printable ASCII; texts are cut if the line would be too long."""
    characters_max = LINE_BYTES_MAX
    while True:
        cut = {name: _cut(text, characters_max) for name, text in texts.items()}
        line = json.dumps({**head, **cut}, separators=(",", ":"))
        if len(line) <= LINE_BYTES_MAX:
            return line
        # A character takes 1 to 12 bytes in JSON, so the length is known only afterwards.
        characters_max //= 2


def _priority(level: int) -> int:
    """Return syslog's priority."""
    return next((priority for least, priority in _PRIORITIES if level >= least), _DEBUG)


def is_journal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return True if the service manager has connected ``stream`` to the journal."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def log_to_standard_error(*, is_worker: bool = False) -> None:
    """Write log records as text from now on, with a rate limit for each kind of line.

    A thread writes them, so that logging never waits for the reader of standard error.
    """
    handler = _StandardErrorHandler(write_to(sys.stderr.fileno()))
    handler.setFormatter(
        LineFormatter(
            worker=os.getpid() if is_worker else None,
            is_journal=is_journal(sys.stderr, os.environ),
        )
    )
    handler.addFilter(LogLimit())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    sys.excepthook = _report_defect


def log_without_thread(format_as: LogFormat) -> None:
    """Write log records in this format from now on, in the calling thread.

    This is for a process that forks. It may wait for the reader of standard error.
    """
    handler = logging.StreamHandler(sys.stderr)
    formatter = LineFormatter(worker=os.getpid(), is_journal=is_journal(sys.stderr, os.environ))
    formatter.format_as = format_as
    handler.setFormatter(formatter)
    handler.addFilter(LogLimit())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def _report_defect(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Report an unexpected exception that ends the process.

    In JSON and in the journal it is one event.
    """
    for handler in _handlers():
        formatter = handler.formatter
        if formatter.is_journal or formatter.format_as is LogFormat.JSON:
            logger = logging.getLogger("authorizerd")
            logger.critical("%s", error, exc_info=(kind, error, traceback))
        else:
            lines = "".join(format_exception(kind, error, traceback)).splitlines()
            # No part of an exception's text may begin a line, or it could look like an event.
            handler.queue.put("\n  ".join(map(escape_unprintable, lines)))
        return
    sys.__excepthook__(kind, error, traceback)


def set_log_format(format_as: LogFormat) -> None:
    """Write lines in this format from now on."""
    for handler in _handlers():
        handler.formatter.format_as = format_as


def report_fault(text: str) -> None:
    """Report on standard error why the process ends, in the log's format."""
    for handler in _handlers():
        handler.queue.put(handler.formatter.fault(text))
        return
    # No part of the text may begin another line, or it could look like a separate error.
    lines = "\n  ".join(map(escape_line, text.split("\n")))
    sys.stderr.write(f"authorizerd: {lines}\n")


def log_statistics() -> LogStatistics:
    """Return the counters of this process's log."""
    return next((handler.queue.statistics for handler in _handlers()), LogStatistics())


def flush_log() -> None:
    """Wait until the logged lines are written, for a bounded time."""
    for handler in _handlers():
        handler.flush()


class _StandardErrorHandler(QueueHandler):
    """The handler of ``log_to_standard_error``."""

    formatter: LineFormatter


def _handlers() -> list[_StandardErrorHandler]:
    return [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, _StandardErrorHandler)
    ]
