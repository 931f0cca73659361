"""Name the log of each broker, and find the logs that stopped.

The files of one log are its rotations and archives: ``broker-1/kafka-authorizer.log``, ``….log.3``,
``….log.2026-11-20-13.gz``. A partition of a topic is also a log.

**Invariant:** a log of which anything is unknown is never said to have no event. It is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from msgspec.structs import replace

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.replay.ingest.parse.logs import SUFFIXES
from authorizerd.replay.ingest.report import Ingested, Log
from authorizerd.replay.text import format_count, format_time, parse_time

SILENT_MS: Final = 86_400_000
"""A log has stopped if its newest event is older than the newest of all logs by more than this."""
SHOWN_MAX: Final = 10

_ARCHIVE: Final = re.compile(f"(?i:{'|'.join(map(re.escape, SUFFIXES))})$")
_DATE: Final = (
    r"(?:dt=|date=|day=|year=)?(?<![0-9])20[0-9]{2}[-/]?(?:month=)?[01][0-9][-/]?(?:day=)?[0-3][0-9]"
    r"(?:[-T_./:]?(?:hour=)?[0-9]{2}){0,3}Z?"
)
"""A date with or without a time, in one name or in directories."""
_VARYING: Final = re.compile(
    rf"(?<=/){_DATE}/|[._-]?{_DATE}(?![0-9])"
    r"|[._-]?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    # The number of a rotation.
    r"|\.[0-9]{1,5}$"
)
"""What differs between the files of a log."""


def name_log(file: str) -> str:
    """Return the name of the log to which a file belongs; ``file`` is a path or a URI.

    A file of this machine has the same name as a path, and as a URI with or without an authority.
    """
    if file.startswith("kafka://"):
        return file
    # Hadoop's short form of a URI, file:/path, encodes nothing.
    path = file.removeprefix("file:") if file[:7] != "file://" else unquote(file[7:])
    if path == file and "://" in file:
        path = unquote(file)
    return _VARYING.sub("", _ARCHIVE.sub("", path))


def merge_logs(
    before: Mapping[str, Log], read: Iterable[str], newest: Mapping[str, int | None]
) -> dict[str, Log]:
    """Return what is known of the logs after an ingest, by name.

    Args:
        before: what was known before it.
        read: the files that this ingest found, also those without new lines.
        newest: the time of the newest event (ms since 1970) of each file whose lines this ingest
            read, None without events.
    """
    found = set(map(name_log, read))
    logs = {name: replace(log, is_read=name in found) for name, log in before.items()}
    for file, last_ms in newest.items():
        name = name_log(file)
        times = [logs[name].last_at] if name in logs else []
        times += [None if last_ms is None else format_time(last_ms)]
        logs[name] = Log(last_at=max(filter(None, times), default=None))
    return dict(sorted(logs.items()))


def find_live(ingested: Ingested) -> dict[str, Log]:
    """Return the logs of a table, without those that ended before its first event.

    The events of such a log have expired, and the newest ingest did not read it.
    """
    first_at = ingested.first_at or ""
    return {
        name: log
        for name, log in ingested.logs.items()
        if log.is_read or (log.last_at or "") >= first_at
    }


def find_stopped(logs: Mapping[str, Log], newest_after_ms: int | None = None) -> dict[str, Log]:
    """Return the logs without an event as recent as the others.

    Args:
        newest_after_ms: find instead the logs that the newest ingest read, and that have no event
            since this time.
    """
    if newest_after_ms is not None:
        after_ms = newest_after_ms
        logs = {name: log for name, log in logs.items() if log.is_read}
    else:
        times = [parse_time(log.last_at) for log in logs.values() if log.last_at is not None]
        after_ms = max(times, default=0) - SILENT_MS
    return {
        name: log
        for name, log in logs.items()
        if log.last_at is None or parse_time(log.last_at) < after_ms
    }


def describe_stopped(logs: Mapping[str, Log]) -> Iterator[str]:
    """Yield a line for each log without an event as recent as the others, ``SHOWN_MAX`` at most."""
    stopped = find_stopped(logs)
    for name, log in list(stopped.items())[:SHOWN_MAX]:
        yield describe_log(name, log)
    if len(stopped) > SHOWN_MAX:
        yield f"and {format_count(len(stopped) - SHOWN_MAX, 'other log')} without recent events"


def describe_log(name: str, log: Log) -> str:
    """Return when the last event of a log was."""
    since = "" if log.last_at is None else f" since {log.last_at}"
    unread = "" if log.is_read else ", and the newest ingest did not read it"
    return escape_unprintable(f"{name}: no event{since}{unread}")
