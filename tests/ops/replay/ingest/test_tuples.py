from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.replay.ingest.tuples import sum_events

Row = dict[str, Any]

ASKED = ("principal", "host", "operation", "resource_type", "resource_name", "pattern_type")
SUMMED_BY = (*ASKED, "allowed", "rule")
TEXT = pyarrow.string()
FIELDS = [*((name, TEXT) for name in ASKED), ("allowed", pyarrow.bool_()), ("rule", TEXT)]
SCHEMA = pyarrow.schema([*FIELDS, ("level", TEXT), ("at", pyarrow.timestamp("us", "UTC"))])
texts = st.sampled_from(("a", "b", ""))
rows = st.fixed_dictionaries(
    {
        "principal": texts, "host": st.none() | texts, "operation": st.just("READ"),
        "resource_type": st.just("TOPIC"), "resource_name": texts,
        "pattern_type": st.just("LITERAL"), "allowed": st.booleans(), "rule": st.none() | texts,
        "level": texts, "at": st.integers(0, 5),
    }
)  # fmt: skip


def summed(events: list[Row], row_group_size: int) -> list[Row]:
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.Table.from_pylist(events, SCHEMA)
    parquet.write_table(table, sink, row_group_size=row_group_size)
    sums = pyarrow.concat_tables(list(sum_events(sink.getvalue())))
    for place, name in enumerate(sums.column_names):
        if name.endswith("_at"):
            sums = sums.set_column(place, name, sums[name].cast("int64"))
    found: list[Row] = sums.to_pylist()
    return found


def totals(found: list[Row]) -> dict[tuple[object, ...], tuple[int, int, int]]:
    """Return the sums of rows, which may already be sums."""
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in found:
        groups[tuple(row[name] for name in SUMMED_BY)].append(row)
    return {
        key: (
            sum(row.get("events", 1) for row in rows),
            min(row["first_at"] if "first_at" in row else row["at"] for row in rows),
            max(row["last_at"] if "last_at" in row else row["at"] for row in rows),
        )
        for key, rows in groups.items()
    }


@given(st.lists(rows, min_size=1, max_size=30))
def test_sums_of_a_file_equal_its_events(events: list[Row]) -> None:
    whole = summed(events, row_group_size=100)
    assert totals(whole) == totals(events)
    assert len(whole) == len(totals(events))
    assert totals(summed(events, row_group_size=7)) == totals(events)


def test_no_events_give_no_sums() -> None:
    assert summed([], row_group_size=7) == []
