"""The columns of an events table, with Spark's names of their types.

**Invariant:** each column of an event has the type of ``parse.columns``, stated only there.
"""

from __future__ import annotations

from typing import Final

import pyarrow

from authorizerd.replay.ingest.parse.columns import SCHEMA

TUPLE: Final = (
    "principal", "host", "operation", "resource_type", "resource_name", "pattern_type",
)  # fmt: skip
SUMMED_BY: Final = (*TUPLE, "allowed", "rule")
EVENT_COLUMNS: Final = tuple(SCHEMA.names[SCHEMA.get_field_index("at") :])

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
_FIGURES: Final = {"events": "long", "first_at": "timestamp", "last_at": "timestamp"}


def describe_columns(schema: pyarrow.Schema) -> str:
    """Return Spark's description of columns, such as ``principal string, allowed boolean``."""
    return ", ".join(f"{field.name} {_TYPES[str(field.type)]}" for field in schema)


def _describe(*names: str, **more: str) -> str:
    """Return the description of columns of an event, and of others by their types."""
    types = pyarrow.schema(map(SCHEMA.field, names))
    others = (f"{name} {kind}" for name, kind in more.items())
    return ", ".join([describe_columns(types), *others])


ROWS_SCHEMA: Final = _describe(*SCHEMA.names)
"""The columns of lines: of events, and of those that are set aside."""
EVENTS_SCHEMA: Final = _describe(*EVENT_COLUMNS, file="string", sequence="long")
ASIDE_SCHEMA: Final = "line string, reason string, file string, sequence long, hash long"
SUMS_SCHEMA: Final = _describe(*SUMMED_BY, **_FIGURES)
"""The columns of parts of tuples."""
TUPLES_SCHEMA: Final = _describe(
    *TUPLE,
    **{
        f"{answer}_{name}": kind
        for answer in ("allowed", "denied")
        for name, kind in {**_FIGURES, "rule": "string"}.items()
    },
)
