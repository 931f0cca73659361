"""DuckDB as the peer of replay: one regular expression parses the log, and a join is the what-if.

    python -m tools.bench.duckdb_peer ACLS DIRECTORY [LOG]

The command ingests ``LOG`` and applies the ACLs twice; without a log, it applies them once to what
it ingested before. ``ACLS`` is a file with one ACL per line: principal, operation, name and pattern
type, separated by tabs. DuckDB uses as many threads as Spark has cores.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.acl.model import Acl, Operation, PatternType
from tools.bench.replay_spark import CORES

NAME: Final = f"DuckDB {version('duckdb')}"

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
    "SELECT unnest(regexp_extract(line, $pattern, $fields)) FROM read_csv($log, "
    "columns={'line': 'VARCHAR'}, delim='\\x01', quote='', escape='', header=false, "
    "auto_detect=false)"
)
_ACLS: Final = (
    "CREATE TABLE acls AS FROM read_csv($acls, delim='\\t', header=false, columns="
    "{'principal': 'VARCHAR', 'operation': 'VARCHAR', 'name': 'VARCHAR', 'type': 'VARCHAR'})"
)
# This is enough for the set ``kind``, which has only ALLOWs for any host, and no literal ``*``.
_WHAT_IF: Final = """
WITH asked AS (
    SELECT principal, host, operation, resource_name, count(*) AS allowed_events
    FROM events WHERE decision = 'Allowed' GROUP BY ALL
), speaking AS (
    SELECT *, operation AS asked_operation FROM acls
    UNION ALL
    SELECT *, 'DESCRIBE' FROM acls WHERE operation IN ('READ', 'WRITE', 'DELETE', 'ALTER')
), literal AS (
    SELECT principal, asked_operation AS operation, name FROM speaking WHERE type = 'LITERAL'
), prefixed AS (
    SELECT principal, asked_operation AS operation, name FROM speaking WHERE type = 'PREFIXED'
)
SELECT coalesce(sum(allowed_events), 0) FROM asked
WHERE NOT EXISTS (FROM literal WHERE literal.principal = asked.principal
                  AND literal.operation = asked.operation AND literal.name = asked.resource_name)
  AND NOT EXISTS (FROM prefixed WHERE prefixed.principal = asked.principal
                  AND prefixed.operation = asked.operation
                  AND starts_with(asked.resource_name, prefixed.name))
"""


class PeerReport(msgspec.Struct, frozen=True):
    """Wall times in seconds, of the ingest and of each what-if; ``newly_denied`` counts events."""

    lines: int
    ingest_seconds: float
    whatif_seconds: list[float]
    newly_denied: int


def write_acls(path: Path, acls: Iterable[Acl]) -> None:
    """Write ACLs as ``measure_duckdb`` reads them."""
    with path.open("w") as file:
        for acl in acls:
            names = Operation(acl.operation).name, PatternType(acl.pattern_type).name
            print(acl.principal, names[0], acl.resource_name, names[1], sep="\t", file=file)


def measure_duckdb(acls: Path, directory: Path, log: Path | None = None) -> PeerReport:
    """Parse ``log`` into Parquet below ``directory``, then count what ``acls`` would deny."""
    import duckdb

    events, begun = directory / "duckdb.parquet", time.perf_counter()
    lines, denied, times = 0, 0, list[float]()
    with duckdb.connect(config={"threads": CORES}) as connection:

        def count(query: str) -> int:
            (counted,) = connection.execute(query).fetchone() or (0,)
            return int(counted)

        if log is not None:
            given: dict[str, Any] = {"pattern": _LINE, "fields": [*_FIELDS], "log": str(log)}
            connection.execute(f"COPY ({_PARSED}) TO '{events}' (FORMAT parquet)", given)
        ingest_seconds = time.perf_counter() - begun
        connection.execute(f"CREATE VIEW events AS FROM '{events}'")
        connection.execute(_ACLS, {"acls": str(acls)})
        if log is not None:
            # A line that the regular expression does not match has empty fields.
            lines = count("SELECT count(*) FROM events WHERE principal <> ''")
        for _ in range(1 if log is None else 2):
            begun = time.perf_counter()
            denied = count(_WHAT_IF)
            times.append(time.perf_counter() - begun)
    return PeerReport(lines, ingest_seconds, times, denied)


if __name__ == "__main__":
    measured = measure_duckdb(*map(Path, sys.argv[1:]))
    sys.stdout.buffer.write(msgspec.json.encode(measured) + b"\n")
