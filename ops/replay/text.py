"""Write times, counts, JSON and files in the same way in every command."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from stat import S_IMODE
from typing import Any, Final

import msgspec

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def format_time(time_ms: int) -> str:
    """Return milliseconds since 1970 in ISO 8601, in UTC: ``2026-11-21T16:31:06.718Z``.

    A time beyond the calendar, such as one from a damaged log, is returned as ``N ms``.
    """
    try:
        time = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str) -> int:
    """Return the milliseconds since 1970 of an ISO 8601 time, rounded down.

    A time without a zone is in UTC.

    Raises:
        ValueError: the text is not such a time.
        OverflowError: its zone moves it beyond the calendar.
    """
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // _MILLISECOND


def format_count(number: int, noun: str) -> str:
    """Return ``1 event`` or ``2,000 events``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def encode_json(value: Any) -> str:  # noqa: ANN401 - anything that msgspec encodes
    """Return the text of a result file: indented JSON that ends with a newline."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def write_file(path: Path, text: str) -> None:
    """Write or replace a file atomically. Its permissions are kept.

    Raises:
        OSError: it cannot be written; the error names it.
    """
    # The name is random, because two processes, also of two machines, may write the file at once.
    aside = path.with_name(f"_{path.name}.{secrets.token_hex(4)}.being-written")
    try:
        aside.touch(S_IMODE(path.stat().st_mode) if path.exists() else 0o666)
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        error.filename = str(path)  # a full disk names no file
        raise
