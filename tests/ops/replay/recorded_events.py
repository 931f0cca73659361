"""Write events in the form in which ingest writes them, for the tests of the later jobs.

This module shares no code with ingest, so a test of both detects a disagreement.
"""

import json
import lzma
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

TIME = pa.timestamp("ms", tz="UTC")
KEY = ("principal", "host", "operation", "resource_type", "resource_name", "pattern_type")
COLUMNS = ("at", "allowed", *KEY, "request", "reference_count", "rule", "level", "file", "sequence")
NUMBERS = {"reference_count": pa.int32(), "sequence": pa.int64()}
TYPES = {"at": TIME, "allowed": pa.bool_(), **NUMBERS}
EVENTS = pa.schema([(name, TYPES.get(name, pa.string())) for name in COLUMNS])
FIGURES = {"events": pa.int64(), "first_at": TIME, "last_at": TIME, "rule": pa.string()}
TUPLES = pa.schema(
    [
        *((name, pa.string()) for name in KEY),
        *((f"allowed_{name}", kind) for name, kind in FIGURES.items()),
        *((f"denied_{name}", kind) for name, kind in FIGURES.items()),
    ]
)
RUN = "run=00000001-00"
"""The directory of the only run of a table."""
START = datetime(2026, 11, 21, 16, 0, tzinfo=UTC)

_LINE = re.compile(
    r"\[(.{23})\] (\w+) Principal = (.*) is (Allowed|Denied) operation = (\w+) from host = (\S+) "
    r"on resource = (\w+):(\w+):(.*) for request = (\w+) with resourceRefCount = (\d+) "
    r"based on rule (.*) \(kafka\.authorizer\.logger\)"
)


class Event(NamedTuple):
    """An event; ``at`` counts milliseconds from ``START``."""

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    allowed: bool
    pattern_type: str = "LITERAL"
    rule: str | None = None
    at: int = 0

    @property
    def level(self) -> str:
        return "DEBUG" if self.allowed else "INFO"

    @property
    def key(self) -> tuple[str, str | None, str, str, str, str]:
        return (*self[:5], self.pattern_type)


def write_events(directory: Path, events: Sequence[Event]) -> Path:
    """Write a table with one run, which has ``events``; return the directory."""
    times = [START + timedelta(milliseconds=event.at) for event in events]
    rows = [
        (time, event.allowed, *event.key, "Fetch", 1, event.rule, event.level, "audit.log", number)
        for number, (event, time) in enumerate(zip(events, times, strict=True))
    ]
    by_key: dict[tuple[str, str | None, str, str, str, str], dict[bool, list[Event]]] = {}
    for event in events:
        by_key.setdefault(event.key, {True: [], False: []})[event.allowed].append(event)
    tuples = [
        (*key, *_figures(verdicts[True]), *_figures(verdicts[False]))
        for key, verdicts in by_key.items()
    ]
    days = sorted({time.date() for time in times})
    for day in days or [START.date()]:
        of_day = [row for row, time in zip(rows, times, strict=True) if time.date() == day]
        _write(directory / "events" / RUN / f"day={day}" / "part-0.parquet", of_day, EVENTS)
    middle = len(tuples) // 2
    _write(directory / "tuples" / RUN / "part-0.parquet", tuples[:middle], TUPLES)
    _write(directory / "tuples" / RUN / "part-1.parquet", tuples[middle:], TUPLES)
    allowed_events = sum(event.allowed for event in events)
    figures = {
        "accepted": True, "lines": len(events), "blank_lines": 0, "events": len(events),
        "set_aside": 0, "reasons": {}, "allowed_events": allowed_events,
        "denied_events": len(events) - allowed_events, "tuples": len(tuples),
        "first_at": _text(min(times)) if times else None,
        "last_at": _text(max(times)) if times else None,
        "time_zone": "UTC", "inputs": ["audit.log"], "levels": {},
    }  # fmt: skip
    name = RUN.removeprefix("run=")
    run = {"id": name, "days": list(map(str, days)), "ingested": figures}
    commit = {
        "schema_version": 1, "number": 1, "salt": 1, "runs": [run], "tuples_run": name,
        "ingested": figures,
    }  # fmt: skip
    (directory / "commits").mkdir()
    (directory / "commits" / "00000001.json").write_text(json.dumps(commit))
    (directory / "ingest.json").write_text(json.dumps(figures))
    return directory


def damage_rows(file: Path) -> None:
    """Make the rows of a Parquet file unreadable; its end still says how many there are."""
    # Without statistics, a reader cannot skip the rows.
    pq.write_table(pq.read_table(file, partitioning=None), file, write_statistics=False)
    data = file.read_bytes()
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    file.write_bytes(data[:4] + b"\xff" * (end - 4) + data[end:])


def change_bytes_of_pages(file: Path, step: int) -> Iterator[int]:
    """Change one byte of a Parquet file's pages after another; the file is as before at the end."""
    data = file.read_bytes()
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for place in range(4, end, step):
        file.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        yield place
    file.write_bytes(data)


def _figures(events: Sequence[Event]) -> tuple[int, datetime | None, datetime | None, str | None]:
    """Return count, first and last time, and the last rule; of equally late ones, the greatest."""
    if not events:
        return 0, None, None, None
    times = [START + timedelta(milliseconds=event.at) for event in events]
    last = max(events, key=lambda event: (event.at, event.rule or ""))
    return len(events), min(times), max(times), last.rule


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _write(path: Path, rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)


def real_events(log_dir: Path) -> Iterator[Event]:
    """Yield the events of the real broker's audit log, in its order."""
    with lzma.open(log_dir / "kafka-authorizer.log.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            found = _LINE.fullmatch(line.rstrip("\n"))
            assert found is not None, line
            time, _, principal, verdict, operation, host, kind, pattern, name, _, _, rule = (
                found.groups()
            )
            at = datetime.fromisoformat(time).replace(tzinfo=UTC) - START
            kind = re.sub("(?<=[a-z])(?=[A-Z])", "_", kind).upper()
            question = (principal, host, operation, kind, name)
            at_ms = at // timedelta(milliseconds=1)
            yield Event(*question, verdict == "Allowed", pattern, rule, at_ms)
