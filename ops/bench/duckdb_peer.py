"""DuckDB as the peer of replay: one regular expression parses the log, and a join is the what-if.

    python -m ops.bench.duckdb_peer LOG ACLS DIRECTORY

``ACLS`` is a file with one ACL per line: principal, operation, name and pattern type, separated by
tabs. DuckDB uses as many threads as Spark has cores.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import duckdb
import msgspec

from authorizerd.acl.model import Acl, Operation, PatternType
from ops.bench.replay_jobs import CORES

NAME: Final = f"DuckDB {duckdb.__version__}"

_LINE: Final = (
    r"^\[([^\]]+)\] \w+ Principal = (.*) is (Allowed|Denied) operation = (\w+) from host = (\S+) "
    r"on resource = (\w+):LITERAL:(.*) for request = (\w+) with resourceRefCount = (\d+) "
    r"based on rule (.*) \(kafka\.authorizer\.logger\)$"
)
_FIELDS: Final = (
    "at", "principal", "decision", "operation", "host", "resource_type", "resource_name",
    "request", "reference_count", "rule",
)  # fmt: skip
# One column: lines contain no U+0001, so nothing splits them or counts as a quote.
_PARSED: Final = (
    "SELECT unnest(regexp_extract(line, $pattern, $fields)) FROM read_csv($log, "
    "columns={'line': 'VARCHAR'}, delim='\\x01', quote='', escape='', header=false, "
    "auto_detect=false)"
)
# Enough for the set ``kind``: it has only ALLOW, for any host, and no literal ``*``.
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
    """Wall times in seconds; ``newly_denied`` counts events.

    ``cold_seconds`` is the first what-if, ``warm_seconds`` the same one again.
    """

    lines: int
    ingest_seconds: float
    cold_seconds: float
    warm_seconds: float
    newly_denied: int


def write_acls(path: Path, acls: Iterable[Acl]) -> None:
    """Write ACLs as ``measure_duckdb`` reads them."""
    path.write_text(
        "".join(
            f"{acl.principal}\t{Operation(acl.operation).name}\t{acl.resource_name}\t"
            f"{PatternType(acl.pattern_type).name}\n"
            for acl in acls
        )
    )


def measure_duckdb(log: Path, acls: Path, directory: Path) -> PeerReport:
    """Parse ``log`` into Parquet below ``directory``, then count what ``acls`` would deny."""
    events = directory / "duckdb.parquet"
    with duckdb.connect(config={"threads": CORES}) as connection:
        begun = time.perf_counter()
        connection.execute(
            f"COPY ({_PARSED}) TO '{events}' (FORMAT parquet)",
            {"pattern": _LINE, "fields": list(_FIELDS), "log": str(log)},
        )
        parsed = time.perf_counter()
        connection.execute(f"CREATE VIEW events AS FROM '{events}'")
        # A line that the expression does not match has empty fields.
        counted = connection.execute("SELECT count(*) FROM events WHERE principal <> ''").fetchone()
        connection.execute(
            "CREATE TABLE acls AS FROM read_csv($acls, delim='\\t', header=false, columns="
            "{'principal': 'VARCHAR', 'operation': 'VARCHAR', 'name': 'VARCHAR', "
            "'type': 'VARCHAR'})",
            {"acls": str(acls)},
        )
        times: list[float] = []
        for _ in ("cold", "warm"):
            begun_what_if = time.perf_counter()
            denied = connection.execute(_WHAT_IF).fetchone()
            times.append(time.perf_counter() - begun_what_if)
    assert counted is not None
    assert denied is not None
    cold, warm = times
    return PeerReport(counted[0], parsed - begun, cold, warm, int(denied[0]))


if __name__ == "__main__":
    report = measure_duckdb(*map(Path, sys.argv[1:4]))
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
