"""Sum up the events of a Parquet file by tuple (the request), answer and rule.

**Invariant:** the sums of the parts, summed again, are the sums of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow
import pyarrow.parquet as parquet

TUPLE: Final = (
    "principal", "host", "operation", "resource_type", "resource_name", "pattern_type",
)  # fmt: skip
SUMMED_BY: Final = (*TUPLE, "allowed", "rule")
SUMS: Final = (
    "principal string, host string, operation string, resource_type string, resource_name string, "
    "pattern_type string, allowed boolean, rule string, events long, first_at timestamp, "
    "last_at timestamp"
)


def sum_events(content: pyarrow.Buffer) -> Iterator[pyarrow.Table]:
    """Yield the sums of the events in a Parquet file, with ``SUMS``, row group by row group."""
    file = parquet.ParquetFile(pyarrow.BufferReader(content))
    for group in range(file.num_row_groups):
        # Spark already runs a task on every core, so Arrow must not add threads.
        events = file.read_row_group(group, columns=[*SUMMED_BY, "at"], use_threads=False)
        sums = events.group_by(list(SUMMED_BY), use_threads=False).aggregate(
            [([], "count_all"), ("at", "min"), ("at", "max")]
        )
        yield sums.rename_columns([*SUMMED_BY, "events", "first_at", "last_at"])
