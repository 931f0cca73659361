"""Sum up the events that a task reads by tuple (the request), answer and rule.

**Invariant:** the sums of the parts, summed again, are the sums of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow

from authorizerd.replay.ingest.parse.columns import EventReader

TUPLE: Final = (
    "principal", "host", "operation", "resource_type", "resource_name", "pattern_type",
)  # fmt: skip
SUMMED_BY: Final = (*TUPLE, "allowed", "rule")
SUMS: Final = (
    "principal string, host string, operation string, resource_type string, resource_name string, "
    "pattern_type string, allowed boolean, rule string, events long, first_at timestamp, "
    "last_at timestamp"
)

_ROWS_A_BATCH: Final = 50_000
_MERGED: Final = 16
"""Merging the sums of so many batches costs little, and memory for them is bounded."""


class TextSums:
    """Sums up events by the numbers that ``reader`` gives their texts: cheaper than by tuple."""

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader
        self._parts: list[pyarrow.Table] = []

    def add(self, at: pyarrow.TimestampArray, numbers: pyarrow.Int64Array) -> None:
        """Add the lines that the reader has read last; ``at`` is null for those without event."""
        lines = pyarrow.table([numbers, at], ["number", "at"])
        events = lines if not at.null_count else lines.filter(at.is_valid())
        self._parts.append(_sum(events, ([], "count_all"), ("at", "min"), ("at", "max")))
        if len(self._parts) > _MERGED:
            self._parts = [self._merge()]

    def take(self) -> Iterator[pyarrow.RecordBatch]:
        """Yield ``SUMS`` of what was added, and forget it; before the reader forgets its texts."""
        if self._parts:
            sums = self._merge()
            self._parts = []
            values = self._reader.look_up(sums["number"].combine_chunks())
            texts = pyarrow.Table.from_batches([values]).select([*SUMMED_BY])
            for name in ("events", "first_at", "last_at"):
                texts = texts.append_column(name, sums[name])
            yield from texts.to_batches(_ROWS_A_BATCH)

    def _merge(self) -> pyarrow.Table:
        parts = pyarrow.concat_tables(self._parts)
        return _sum(parts, ("events", "sum"), ("first_at", "min"), ("last_at", "max"))


def _sum(rows: pyarrow.Table, *figures: tuple[str | list[str], str]) -> pyarrow.Table:
    sums = rows.group_by("number", use_threads=False).aggregate(list(figures))
    return sums.rename_columns(["number", "events", "first_at", "last_at"])
