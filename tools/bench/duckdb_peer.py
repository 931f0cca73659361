"""DuckDB as a peer of replay: one regular expression parses the logs, and a join is the what-if.

    python -m tools.bench.duckdb_peer ingest DIRECTORY LOGS
    python -m tools.bench.duckdb_peer whatif DIRECTORY ACLS

The first command parses the logs in a folder, the second one applies ACLs to what the first one
wrote, and writes ``counts.json``. DuckDB uses as many threads as Spark has cores.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from tools.bench.replay_sides import CORES, Counts, write_counts

_LINE: Final = (
    r"^\[([^\]]+)\] \w+ Principal = (.*) is (Allowed|Denied) operation = (\w+) from host = (\S+) "
    r"on resource = (\w+):LITERAL:(.*) for request = (\w+) with resourceRefCount = (\d+) "
    r"based on rule (.*) \(kafka\.authorizer\.logger\)$"
)
_FIELDS: Final = (
    "at", "principal", "decision", "operation", "host", "resource_type", "resource_name",
    "request", "reference_count", "rule",
)  # fmt: skip
# Read one column: lines contain no U+0001, so nothing splits them or counts as a quote.
_PARSED: Final = (
    "SELECT unnest(regexp_extract(line, $pattern, $fields)) FROM read_csv($logs, "
    "columns={'line': 'VARCHAR'}, delim='\\x01', quote='', escape='', header=false, "
    "auto_detect=false)"
)
_ACLS: Final = (
    "CREATE TABLE acls AS FROM read_csv($acls, delim='\\t', header=false, columns={"
    "'principal': 'VARCHAR', 'operation': 'VARCHAR', 'resource_type': 'VARCHAR', "
    "'pattern_type': 'VARCHAR', 'name': 'VARCHAR'})"
)
# A line that the regular expression does not match has empty fields.
_WHAT_IF: Final = """
WITH asked AS (
    SELECT principal, host, operation, resource_type, resource_name, count(*) AS events,
           count_if(decision = 'Allowed') AS allowed_events
    FROM events WHERE principal <> '' GROUP BY ALL
), judged AS (
    SELECT *, EXISTS (
        FROM acls WHERE pattern_type = 'LITERAL' AND acls.principal = asked.principal
        AND acls.operation = asked.operation AND acls.resource_type = asked.resource_type
        AND acls.name = asked.resource_name
    ) OR EXISTS (
        FROM acls WHERE pattern_type = 'PREFIXED' AND acls.principal = asked.principal
        AND acls.operation = asked.operation AND acls.resource_type = asked.resource_type
        AND starts_with(asked.resource_name, acls.name)
    ) AS is_allowed FROM asked
)
SELECT sum(events), count(*), coalesce(sum(allowed_events) FILTER (NOT is_allowed), 0) FROM judged
"""


def run(command: str, directory: Path, given: Path) -> None:
    """Run one of the commands."""
    import duckdb

    directory.mkdir(parents=True, exist_ok=True)
    events = directory / "events.parquet"
    with duckdb.connect(config={"threads": CORES}) as connection:
        if command == "ingest":
            names: dict[str, Any] = {"pattern": _LINE, "fields": [*_FIELDS]}
            names["logs"] = f"{given}/*.log"
            connection.execute(f"COPY ({_PARSED}) TO '{events}' (FORMAT parquet)", names)
            return
        connection.execute(f"CREATE VIEW events AS FROM '{events}'")
        connection.execute(_ACLS, {"acls": str(given)})
        counted = connection.execute(_WHAT_IF).fetchone() or (0, 0, 0)
    write_counts(directory, Counts(*map(int, counted)))


if __name__ == "__main__":
    run(sys.argv[1], *map(Path, sys.argv[2:]))
