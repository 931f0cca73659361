"""The figures of a run, from sums of its rows.

**Invariant:** the sums of parts, merged, are those of the run, whichever engine summed them up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import NamedTuple

from authorizerd.acl.audit.recorded.event import Reason
from authorizerd.replay.ingest.commit import NO_ROWS, Content, Digest
from authorizerd.replay.ingest.contents import add_digests
from authorizerd.replay.ingest.report import Ingested, count_lines

BLANK = "blank"
"""The value that ``set_aside`` has instead of a reason for a blank line."""


class Group(NamedTuple):
    """The events of a file with one level and day, or its lines set aside for one reason.

    ``begins`` and ``ends`` are the ``sequence`` of the first and of the last row; ``first`` and
    ``last_head`` are the hashes of their beginnings, None without an event; ``last`` is the hash of
    the last row. Times are in milliseconds since 1970.
    """

    file: str
    level: str | None
    day: str | None
    reason: str | None
    rows: int
    digest: Digest
    begins: int
    ends: int
    last: int
    first: int | None = None
    last_head: int | None = None
    allowed: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


def group_of_level(level: str, rows: int, allowed: int, first_ms: int, last_ms: int) -> Group:
    """Return the events of some files and days with one level."""
    return Group(
        "", level, None, None, rows, NO_ROWS, 0, 0, 0,
        allowed=allowed, first_ms=first_ms, last_ms=last_ms,
    )  # fmt: skip


class RunSummary(NamedTuple):
    """A run's figures (without ``tuples``), its days, and the content of each of its files.

    ``newest`` is the time of the newest event of each file that has one.
    """

    run: str
    ingested: Ingested
    days: tuple[str, ...]
    contents: tuple[Content, ...]
    newest: Mapping[str, int]


def merge_groups(groups: Iterable[Group]) -> list[Group]:
    """Return one group for each file, level, day and reason, in the order of the rows."""
    alike: defaultdict[tuple[str | None, ...], list[Group]] = defaultdict(list)
    for group in groups:
        alike[group[:4]].append(group)
    merged = [reduce(_merge, some) for some in alike.values()]
    return sorted(merged, key=lambda group: group.begins)


def _merge(one: Group, other: Group) -> Group:
    earlier, later = sorted((one, other), key=lambda group: group.begins)
    return one._replace(
        rows=one.rows + other.rows,
        digest=add_digests(one.digest, other.digest),
        begins=earlier.begins,
        ends=later.ends,
        last=later.last,
        first=earlier.first,
        last_head=later.last_head,
        allowed=one.allowed + other.allowed,
        first_ms=_first(one.first_ms, other.first_ms),
        last_ms=_last(one.last_ms, other.last_ms),
    )


def _first(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)


def _last(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


def summarize(
    run: str, groups: Iterable[Group], time_zone: str, inputs: tuple[str, ...]
) -> RunSummary:
    """Return what a run contains."""
    merged = merge_groups(groups)
    newest: dict[str, int] = {}
    for group in merged:
        if group.last_ms is not None:
            newest[group.file] = max(group.last_ms, newest.get(group.file, group.last_ms))
    return RunSummary(
        run,
        make_figures(merged, time_zone, inputs),
        tuple(sorted({group.day for group in merged if group.day is not None})),
        tuple(_contents(run, merged)),
        newest,
    )


def make_figures(groups: Iterable[Group], time_zone: str, inputs: tuple[str, ...]) -> Ingested:
    """Return the figures of a run, without ``tuples``."""
    levels, reasons = Counter[str](), Counter[str]()
    merged = list(groups)
    for group in merged:
        if group.reason is None:
            assert group.level is not None, "an event has a level"
            levels[group.level] += group.rows
        else:
            reasons[group.reason] += group.rows
    damaged = (group.file for group in merged if group.reason == Reason.BROKEN_ARCHIVE)
    return count_lines(
        levels=levels,
        blank_lines=reasons.pop(BLANK, 0),
        reasons=reasons,
        allowed=sum(group.allowed for group in merged),
        first_ms=_first(*(group.first_ms for group in merged)),
        last_ms=_last(*(group.last_ms for group in merged)),
        time_zone=time_zone,
        inputs=inputs,
        damaged=tuple(sorted(damaged)),
    )


def _contents(run: str, groups: Iterable[Group]) -> Iterator[Content]:
    """Yield the content of each file, in the order in which the run read them."""
    of_file: defaultdict[str, list[Group]] = defaultdict(list)
    for group in groups:
        if group.reason != BLANK:
            of_file[group.file].append(group)
    for file, some in of_file.items():
        last = max(some, key=lambda group: group.ends)
        yield Content(
            file=file,
            rows=sum(group.rows for group in some),
            digest=reduce(add_digests, (group.digest for group in some)),
            first=next((group.first for group in some if group.reason is None), None),
            last=last.last,
            last_head=last.last_head,
            run=run,
        )
