"""Count the lines of logs in Arrow, in a process for each core.

**Invariant:** the counts are those of ``tallies``, which needs no pyarrow: every line is an event,
blank, or set aside under its reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from authorizerd.acl.audit.recorded.event import Reason
from authorizerd.management.plan.traffic import TrafficFile
from authorizerd.replay.errors import NeedsSparkError, TrafficError
from authorizerd.replay.ingest.parse.columns import get_reader, split_blocks
from authorizerd.replay.ingest.parse.logs import DamagedArchiveError
from authorizerd.replay.local.files import LogReader
from authorizerd.replay.local.parts import Part, plan_tasks
from authorizerd.replay.local.sums import TextSums, merge_parts, select_parts
from authorizerd.replay.local.table import TUPLES_MAX, list_tuples
from authorizerd.replay.local.tallies import Counted, Summand, Tally
from authorizerd.replay.plans import IngestPlan, LineLayout
from authorizerd.replay.processes import CORES, do_tasks
from authorizerd.replay.recorded.tuples import RecordedTuple


class Work(NamedTuple):
    """The parts that one task reads; earlier events than ``since_ms`` do not count."""

    parts: Sequence[Part]
    layout: LineLayout
    since_ms: int | None


class CountedParts(NamedTuple):
    """The sums of the lines in some parts of logs, as ``TextSums`` has them.

    ``newest`` is the time of the newest event of each log that has one, even before the window.
    """

    sums: list[pa.Table]
    damaged: list[str]
    newest: dict[str, int]


class Logs(NamedTuple):
    """The counts of the lines of logs, as ``tallies`` has them, their tuples and files."""

    tallies: list[tuple[Counted, Tally]]
    damaged: list[str]
    tuples: list[RecordedTuple]
    files: tuple[TrafficFile, ...]
    newest: dict[str, int]


def read_logs(paths: Sequence[Path], logs: IngestPlan, since_ms: int | None) -> Logs:
    """Return what the files at ``paths`` contain, read as a plan says.

    Raises:
        NeedsSparkError: there are too many distinct requests for one process.
        TrafficError: a file cannot be read.
        ValueError: the time zone is unknown.
    """
    layout = logs.layout
    get_reader(layout)  # an unknown time zone is an error without a line, too
    regular = [path for path in paths if path.is_file()]
    files: dict[Path, TrafficFile] = {}
    try:
        works = [Work(parts, layout, since_ms) for parts in plan_tasks(regular, CORES)]
        # hashlib lets other threads run, and this process would only wait.
        with ThreadPoolExecutor(1) as hashing:
            described = hashing.map(describe, regular)
            counted = list(do_tasks(count_parts, works))
            files.update(zip(regular, described, strict=True))
    except OSError as error:
        raise TrafficError(f"{error.filename}: {error.strerror}") from error
    for path in paths:
        if path not in files:  # a pipe, which can be read only once
            reader = LogReader(path)
            counted.append(_count([(str(path), reader.blocks())], layout, since_ms))
            files[path] = reader.file
    sums = [each for one in counted for each in one.sums]
    tuples = merge_parts(map(select_parts, sums))
    if len(tuples) > TUPLES_MAX:
        raise NeedsSparkError(
            f"more than {TUPLES_MAX:,} distinct requests, too many for the memory of one process"
        )
    damaged = sorted({path for one in counted for path in one.damaged})
    tally_damage = ((Reason.BROKEN_ARCHIVE, Tally(1)) for _ in damaged)
    return Logs(
        [*chain.from_iterable(map(_list_tallies, sums)), *tally_damage],
        damaged,
        list_tuples(tuples),
        tuple(files[path] for path in paths),
        # Of the parts of a log, the one with the newest event comes last, and wins.
        dict(sorted(chain.from_iterable(one.newest.items() for one in counted), key=itemgetter(1))),
    )


def describe(path: Path) -> TrafficFile:
    """Return the size of a file, and its digest. Blocks.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return TrafficFile(path=str(path), bytes=file.tell(), sha256=digest.hexdigest())


def count_parts(work: Work) -> CountedParts:
    """Count the lines of a task."""
    blocks = ((str(part.path), part.read_blocks()) for part in work.parts)
    return _count(blocks, work.layout, work.since_ms)


def _count(
    logs: Iterable[tuple[str, Iterator[memoryview]]], layout: LineLayout, since_ms: int | None
) -> CountedParts:
    reader = get_reader(layout)
    sums = TextSums(reader)
    damaged, newest = [], dict[str, int]()
    for path, blocks in logs:
        try:
            for lines in split_blocks(blocks):
                at, numbers = reader.find(lines)
                if at.null_count < len(at):
                    last_ms = pc.max(at).value // 1000
                    newest[path] = max(last_ms, newest.get(path, last_ms))
                if since_ms is not None:
                    begin = pa.scalar(since_ms, pa.timestamp("ms", "UTC"))
                    within = pc.fill_null(pc.greater_equal(at, begin), fill_value=True)
                    at, numbers = at.filter(within), numbers.filter(within)
                sums.add(at, numbers)
        except DamagedArchiveError:
            damaged.append(path)
    return CountedParts(sums.take(), damaged, newest)


def _list_tallies(sums: pa.Table) -> Iterator[tuple[Counted, Tally]]:
    """Yield what ``sum_lines`` needs of the sums of lines."""
    figures = [("events", "sum"), ("first_at", "min"), ("last_at", "max")]
    sums = sums.set_column(*_as_ms(sums, "first_at")).set_column(*_as_ms(sums, "last_at"))
    for row in sums.group_by(["level", "allowed", "reason"]).aggregate(figures).to_pylist():
        if row["reason"] is None:
            counted = Summand("", None, "", "", "", "", row["allowed"], None, row["level"])
            yield counted, Tally(row["events_sum"], row["first_at_min"], row["last_at_max"])
        else:
            reason = Reason(row["reason"]) if row["reason"] else None
            yield reason, Tally(row["events_sum"])


def _as_ms(sums: pa.Table, name: str) -> tuple[int, str, pa.ChunkedArray]:
    milliseconds = sums[name].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    return sums.column_names.index(name), name, milliseconds
