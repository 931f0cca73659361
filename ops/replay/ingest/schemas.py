"""The columns of an events table, for Arrow and, as texts with its names of types, for Spark.

**Invariant:** each column of an event has the type of ``parse.columns``, stated only there.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from authorizerd.replay.ingest.parse.columns import SCHEMA

TUPLE: Final = (
    "principal", "host", "operation", "resource_type", "resource_name", "pattern_type",
)  # fmt: skip
SUMMED_BY: Final = (*TUPLE, "allowed", "rule")
EVENT_COLUMNS: Final = tuple(SCHEMA.names[SCHEMA.get_field_index("at") :])
ANSWERS: Final = {"allowed": True, "denied": False}

_FIGURES: Final = [
    pa.field("events", pa.int64()),
    *(SCHEMA.field("at").with_name(name) for name in ("first_at", "last_at")),
]
_PLACE: Final = [pa.field("file", pa.string()), pa.field("sequence", pa.int64())]

EVENTS: Final = pa.schema([*map(SCHEMA.field, EVENT_COLUMNS), *_PLACE])
ASIDE: Final = pa.schema(
    [pa.field("line", pa.string()), SCHEMA.field("reason"), *_PLACE, SCHEMA.field("hash")]
)
PARTS: Final = pa.schema([*map(SCHEMA.field, SUMMED_BY), *_FIGURES])
"""The columns of parts of tuples."""
TUPLES: Final = pa.schema(
    [
        *map(SCHEMA.field, TUPLE),
        *(
            field.with_name(f"{answer}_{field.name}")
            for answer in ANSWERS
            for field in (*_FIGURES, SCHEMA.field("rule"))
        ),
    ]
)

_TYPES: Final = {
    "binary": "binary",
    "bool": "boolean",
    "date32[day]": "date",
    "double": "double",
    "int32": "int",
    "int64": "long",
    "string": "string",
    "timestamp[us, tz=UTC]": "timestamp",
}


def describe_columns(schema: pa.Schema) -> str:
    """Return Spark's description of columns, such as ``principal string, allowed boolean``."""
    return ", ".join(f"{field.name} {_TYPES[str(field.type)]}" for field in schema)


ROWS_SCHEMA: Final = describe_columns(SCHEMA)
"""The columns of lines: of events, and of those that are set aside."""
EVENTS_SCHEMA: Final = describe_columns(EVENTS)
ASIDE_SCHEMA: Final = describe_columns(ASIDE)
TUPLES_SCHEMA: Final = describe_columns(TUPLES)
