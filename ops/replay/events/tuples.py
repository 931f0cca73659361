"""What a Parquet file of events says in sum of each tuple: who asked what, and what was answered.

Law: the sums of parts, summed again, are the sums of the whole.
"""

from __future__ import annotations

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


def sum_events(content: pyarrow.Buffer) -> pyarrow.Table:
    """Return the rows of ``SUMS`` of the events in a Parquet file."""
    events = parquet.read_table(
        pyarrow.BufferReader(content), columns=[*SUMMED_BY, "at"], use_threads=False
    )
    sums = events.group_by(list(SUMMED_BY), use_threads=False).aggregate(
        [([], "count_all"), ("at", "min"), ("at", "max")]
    )
    return sums.rename_columns([*SUMMED_BY, "events", "first_at", "last_at"])
