"""Sum up events by tuple, in Arrow: lines by their texts, events of a table, and parts of tuples.

**Invariant:** the sums of parts, summed again, are the sums of the whole, and equal those of Spark
(``ingest.sums``). Of equally late rules, the greatest one is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero, dataset

from authorizerd.replay.ingest.parse.columns import SCHEMA, EventReader
from authorizerd.replay.ingest.schemas import ANSWERS, PARTS, SUMMED_BY, TUPLE, TUPLES
from authorizerd.replay.recorded.parquet_files import FORMAT

_AT: Final = SCHEMA.field("at").type
_MERGED: Final = 16
"""The number of batches whose sums are merged at once: this costs little, and bounds memory."""
_FIGURES: Final = ("allowed", "events", "first_at", "last_at")


class TextSums:
    """Sums up the lines of a reader by the numbers of their texts, which is cheaper than by tuple.

    If the reader begins with new texts, so do the sums.
    """

    def __init__(self, reader: EventReader) -> None:
        self._reader = reader
        self._texts = reader.texts
        self._parts: list[pa.Table] = []
        self._taken: list[pa.Table] = []

    def add(self, at: pa.TimestampArray, numbers: pa.Int64Array) -> None:
        """Add lines that the reader has just read.

        ``at`` is null for lines without an event. Those without a number are not counted.
        """
        if self._reader.texts is not self._texts:
            self._taken.append(self._name())
            self._texts, self._parts = self._reader.texts, []
        lines = pa.table([numbers, at], ["number", "at"])
        if numbers.null_count:
            lines = lines.filter(numbers.is_valid())
        self._parts.append(_sum(lines, ([], "count_all"), ("at", "min"), ("at", "max")))
        if len(self._parts) > _MERGED:
            self._parts = [self._merge()]

    def take(self) -> list[pa.Table]:
        """Return the sums of all lines.

        The columns are those of an event's values, ``reason`` (None for an event), ``events``,
        ``first_at`` and ``last_at``.
        """
        return [*self._taken, self._name()]

    def _name(self) -> pa.Table:
        sums = self._merge() if self._parts else _NO_SUMS
        values = self._texts.name(sums["number"].combine_chunks())
        texts = pa.Table.from_batches([values])
        for name in ("events", "first_at", "last_at"):
            texts = texts.append_column(name, sums[name])
        return texts

    def _merge(self) -> pa.Table:
        parts = pa.concat_tables(self._parts)
        return _sum(parts, ("events", "sum"), ("first_at", "min"), ("last_at", "max"))


_NO_SUMS: Final = pa.schema(
    {"number": pa.int64(), "events": pa.int64(), "first_at": _AT, "last_at": _AT}
).empty_table()


def _sum(rows: pa.Table, *figures: tuple[str | list[str], str]) -> pa.Table:
    sums = rows.group_by("number", use_threads=False).aggregate(list(figures))
    return sums.rename_columns(_NO_SUMS.column_names)


def select_parts(sums: pa.Table) -> pa.Table:
    """Return the parts of tuples in a table of ``TextSums``."""
    return sums.filter(pc.is_null(sums["reason"])).select(PARTS.names)


def sum_file(file: Path, since_ms: int | None = None) -> pa.Table:
    """Return the parts of the tuples of the events in a file, on all cores; reads batch by batch.

    Raises:
        OSError, pyarrow.ArrowException: it cannot be read.
    """
    events = dataset.dataset(str(file), format=FORMAT)
    figures = [
        ("at", f"hash_{function}", None, name)
        for function, name in (("count", "events"), ("min", "first_at"), ("max", "last_at"))
    ]
    scan = {"columns": [*SUMMED_BY, "at"]}
    steps = [("aggregate", acero.AggregateNodeOptions(figures, keys=list(SUMMED_BY)))]
    if since_ms is not None:
        within = pc.field("at") >= pa.scalar(since_ms, pa.timestamp("ms", "UTC"))
        scan["filter"] = within
        steps.insert(0, ("filter", acero.FilterNodeOptions(within)))  # a scan skips row groups only
    steps.insert(0, ("scan", acero.ScanNodeOptions(events, **scan)))
    declarations = [acero.Declaration(name, options) for name, options in steps]
    sums = acero.Declaration.from_sequence(declarations).to_table()
    return sums.select(PARTS.names).cast(PARTS)


def merge_parts(parts: Iterable[pa.Table]) -> pa.Table:
    """Return each tuple once, with the figures of its allowed and of its denied events."""
    # Numbers in place of texts, of which few are distinct.
    rows = pa.concat_tables([_encode(PARTS.empty_table()), *map(_encode, parts)])
    rows = rows.unify_dictionaries().combine_chunks()
    texts, numbers = {}, {}
    for name in (*TUPLE, "rule"):
        coded = rows[name].combine_chunks()
        texts[name], numbers[name] = coded.dictionary, coded.indices
    # The number of a rule is its place in the order of the texts; 0 stands for none.
    texts["rule"], ranks = texts["rule"].sort(), pc.rank(texts["rule"], tiebreaker="dense")
    numbers["rule"] = pc.fill_null(ranks.take(numbers["rule"]), 0)
    # In this order, the last rule of an answer is that of its last event.
    order = pc.sort_indices(
        pa.table([rows["last_at"], numbers["rule"]], ["at", "rule"]),
        [("at", "ascending"), ("rule", "ascending")],
    )
    rows = pa.table(numbers | {name: rows[name] for name in _FIGURES}).take(order)
    figures: list[tuple[str, str]] = []
    columns = {name: rows[name] for name in TUPLE}
    for answer, value in ANSWERS.items():
        is_answer = pc.equal(rows["allowed"], value)
        for name, function in (
            ("events", "sum"), ("first_at", "min"), ("last_at", "max"), ("rule", "last")
        ):  # fmt: skip
            columns[f"{answer}_{name}"] = pc.if_else(is_answer, rows[name], None)
            figures.append((f"{answer}_{name}", function))
    sums = pa.table(columns).group_by(list(TUPLE), use_threads=False).aggregate(figures)
    merged = {name: texts[name].take(sums[name]) for name in TUPLE}
    for name, function in figures:
        column = sums[f"{name}_{function}"]
        if name.endswith("_events"):
            column = pc.fill_null(column, 0)
        elif name.endswith("_rule"):
            places = pc.subtract(column.cast(pa.int64()), 1)
            column = texts["rule"].take(pc.if_else(pc.less(places, 0), None, places))
        merged[name] = column
    return pa.table(merged).select(TUPLES.names).cast(TUPLES)


def _encode(part: pa.Table) -> pa.Table:
    """Return a part with dictionary arrays in place of texts."""
    columns = (
        column.dictionary_encode() if column.type == pa.string() else column
        for column in part.select(PARTS.names).columns
    )
    return pa.table(list(columns), PARTS.names)


def split_tuples(tuples: pa.Table) -> list[pa.Table]:
    """Return the parts of tuples: one for the allowed events, and one for the denied events."""
    parts = []
    for answer, value in ANSWERS.items():
        some = tuples.filter(pc.greater(tuples[f"{answer}_events"], 0))
        columns = {name: some[name] for name in TUPLE}
        columns["allowed"] = pa.repeat(value, len(some))
        for name in ("rule", "events", "first_at", "last_at"):
            columns[name] = some[f"{answer}_{name}"]
        parts.append(pa.table(columns).cast(PARTS))
    return parts
