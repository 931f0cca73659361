"""Sum up the rows of a run in groups, in Arrow, so that all engines give the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from authorizerd.replay.ingest.commit import Digest
from authorizerd.replay.ingest.parse.hashes import RowHashes, halve
from authorizerd.replay.ingest.summary import Group

HEAD: Final = ("at", "allowed", "principal", "host", "operation")
"""The beginning of an event, by which one that was cut is recognized."""
OF_EVENTS: Final = ("file", "sequence", "hash", "level", "day", *HEAD)
OF_ASIDE: Final = ("file", "sequence", "hash", "reason")


def group_rows(rows: pa.RecordBatch, hashes: RowHashes) -> Iterator[Group]:
    """Yield the groups of rows, which are in the order of ``sequence``.

    Args:
        rows: events with the columns ``OF_EVENTS``, or lines set aside with ``OF_ASIDE``.
    """
    are_events = "day" in rows.schema.names
    keys = ["file", "level", "day"] if are_events else ["file", "reason"]
    columns: dict[str, pa.Array] = {name: rows[name] for name in keys}
    columns["row"] = pa.array(range(len(rows)), pa.int64())
    columns["low"], columns["high"] = halve(rows["hash"])
    figures = [([], "count_all"), ("low", "sum"), ("high", "sum"), ("row", "min"), ("row", "max")]
    if are_events:
        columns |= {"allowed": rows["allowed"], "at": rows["at"].cast(pa.int64())}
        figures += [("allowed", "sum"), ("at", "min"), ("at", "max")]
    sums = pa.table(columns).group_by(keys, use_threads=False).aggregate(figures)
    for row in sums.to_pylist():
        first, last = row["row_min"], row["row_max"]
        group = Group(
            row["file"],
            row.get("level"),
            str(row["day"]) if are_events else None,
            row.get("reason"),
            row["count_all"],
            (row["low_sum"], row["high_sum"]),
            begins=rows["sequence"][first].as_py(),
            ends=rows["sequence"][last].as_py(),
            last=rows["hash"][last].as_py(),
        )
        if are_events:
            group = group._replace(
                first=hash_head(hashes, rows, first),
                last_head=hash_head(hashes, rows, last),
                allowed=row["allowed_sum"],
                first_ms=row["at_min"] // 1000,
                last_ms=row["at_max"] // 1000,
            )
        yield group


def hash_head(hashes: RowHashes, rows: pa.RecordBatch | pa.Table, row: int) -> int:
    """Return the hash of an event's beginning."""
    at, *values = (rows[name][row] for name in HEAD)
    return hashes.of_head(at.value, *(value.as_py() for value in values))


def digest_rows(rows: pa.Table) -> Digest:
    """Return the digest of at least one row; see ``commit.Content``."""
    low, high = (pc.sum(half).as_py() for half in halve(rows["hash"].combine_chunks()))
    return low, high
