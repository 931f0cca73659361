"""DuckDB as the peer of replay: one regular expression parses the log, and a join is the what-if.

    python -m tools.bench.duckdb_peer LOG ACLS DIRECTORY
    python -m tools.bench.duckdb_peer whatif ACLS DIRECTORY

The first command ingests ``LOG``, and then applies the ACLs. The second one only applies them, to
what the first one has written.

``ACLS`` is a file with one ACL per line: principal, operation, name and pattern type, with tabs.
DuckDB uses as many threads as Spark has cores.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from authorizerd.acl.model import Acl, Operation, PatternType
from tools.bench.replay_spark import CORES

if TYPE_CHECKING:
    import duckdb

NAME: Final = f"DuckDB {version('duckdb')}"

_EVENTS: Final = "duckdb.parquet"
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

    ``cold_seconds`` is the first what-if, and ``warm_seconds`` the same one again.
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
    with _connect() as connection:
        begun = time.perf_counter()
        connection.execute(
            f"COPY ({_PARSED}) TO '{directory / _EVENTS}' (FORMAT parquet)",
            {"pattern": _LINE, "fields": list(_FIELDS), "log": str(log)},
        )
        parsed = time.perf_counter()
        _load(connection, acls, directory)
        # A line that the expression does not match has empty fields.
        counted = connection.execute("SELECT count(*) FROM events WHERE principal <> ''").fetchone()
        times: list[float] = []
        for _ in ("cold", "warm"):
            begun_what_if = time.perf_counter()
            denied = _count_denied(connection)
            times.append(time.perf_counter() - begun_what_if)
    assert counted is not None
    cold, warm = times
    return PeerReport(counted[0], parsed - begun, cold, warm, denied)


def _connect() -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect(config={"threads": CORES})


def _load(connection: duckdb.DuckDBPyConnection, acls: Path, directory: Path) -> None:
    """Make the events below ``directory`` and the ACLs known to queries."""
    connection.execute(f"CREATE VIEW events AS FROM '{directory / _EVENTS}'")
    connection.execute(
        "CREATE TABLE acls AS FROM read_csv($acls, delim='\\t', header=false, columns="
        "{'principal': 'VARCHAR', 'operation': 'VARCHAR', 'name': 'VARCHAR', "
        "'type': 'VARCHAR'})",
        {"acls": str(acls)},
    )


def _count_denied(connection: duckdb.DuckDBPyConnection) -> int:
    denied = connection.execute(_WHAT_IF).fetchone()
    assert denied is not None
    return int(denied[0])


def main(words: list[str]) -> None:
    if words[0] == "whatif":
        with _connect() as connection:
            _load(connection, *map(Path, words[1:3]))
            print(_count_denied(connection))
        return
    log, acls, directory = map(Path, words)
    sys.stdout.buffer.write(msgspec.json.encode(measure_duckdb(log, acls, directory)) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
