from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
from hypothesis import given
from hypothesis import strategies as st

from ops.replay.events.tuples import SUMMED_BY, sum_events

Row = dict[str, Any]

SCHEMA = pyarrow.schema(
    [
        *((name, pyarrow.string()) for name in SUMMED_BY[:6]),
        ("allowed", pyarrow.bool_()),
        ("rule", pyarrow.string()),
        ("level", pyarrow.string()),
        ("at", pyarrow.timestamp("us", "UTC")),
    ]
)
texts = st.sampled_from(("a", "b", ""))
rows = st.fixed_dictionaries(
    {
        "principal": texts,
        "host": st.none() | texts,
        "operation": st.just("READ"),
        "resource_type": st.just("TOPIC"),
        "resource_name": texts,
        "pattern_type": st.just("LITERAL"),
        "allowed": st.booleans(),
        "rule": st.none() | texts,
        "level": texts,
        "at": st.integers(0, 5),
    }
)


def summed(events: list[Row]) -> list[Row]:
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist(events, SCHEMA), sink)
    sums = sum_events(sink.getvalue())
    for place, name in enumerate(sums.column_names):
        if name.endswith("_at"):
            sums = sums.set_column(place, name, sums[name].cast("int64"))
    found: list[Row] = sums.to_pylist()
    return found


@given(st.lists(rows, max_size=30))
def test_a_file_says_the_same_in_sum(events: list[Row]) -> None:
    """Nulls are values like others; a level is no part of a tuple."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for event in events:
        groups[tuple(event[name] for name in SUMMED_BY)].append(event["at"])
    expected = {key: (len(times), min(times), max(times)) for key, times in groups.items()}
    found = summed(events)
    assert len(found) == len(expected)
    assert {
        tuple(row[name] for name in SUMMED_BY): (row["events"], row["first_at"], row["last_at"])
        for row in found
    } == expected
