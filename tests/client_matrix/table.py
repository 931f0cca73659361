"""The matrix as a text table: a row for each client and protocol, a column for each call.

**Invariant:** an outcome other than "ok" is explained below the table, by the number in its cell.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from tests.client_matrix.calls import AdminClient, Call, Protocol
from tests.client_matrix.checks import NOT_OFFERED, OK

_ABSENT: Final = "not run"
_WIDTH: Final = 98


@dataclass(slots=True)
class Matrix:
    """Outcomes by client, protocol and call, and the clients' notes and versions."""

    versions: dict[str, str] = field(default_factory=dict)
    outcomes: dict[tuple[str, Protocol, Call], str] = field(default_factory=dict)
    notes: dict[tuple[str, Call], str] = field(default_factory=dict)

    def add_client(self, name: str, version: str, client: type[AdminClient]) -> None:
        """Add a client; its rows come in the order in which clients are added."""
        self.versions[name] = version
        self.notes |= {(name, call): note for call, note in client.notes.items()}

    def record(self, client: str, protocol: Protocol, call: Call, outcome: str) -> None:
        self.outcomes[client, protocol, call] = outcome

    def lines(self) -> list[str]:
        """Return the table as aligned Markdown, followed by the remarks."""
        remarks = _Remarks()
        rows: list[Sequence[str]] = [("client", "protocol", *Call)]
        for client, protocol in product(self.versions, Protocol):
            if any((client, protocol, call) in self.outcomes for call in Call):
                cells = [self._cell(client, protocol, call, remarks) for call in Call]
                rows.append((client, protocol, *cells))
        texts = [f"{number}. {text}." for text, number in remarks.numbers.items()]
        return [*_aligned(rows), "", *texts]

    def _cell(self, client: str, protocol: Protocol, call: Call, remarks: _Remarks) -> str:
        outcome = self.outcomes.get((client, protocol, call), _ABSENT)
        if outcome.startswith(NOT_OFFERED):
            return f"not offered ({remarks.number(outcome.removeprefix(NOT_OFFERED))})"
        if outcome == _ABSENT:
            return outcome
        if outcome != OK:
            return f"ERROR ({remarks.number(outcome)})"
        note = self.notes.get((client, call))
        return outcome if note is None else f"{outcome} ({remarks.number(note)})"


@dataclass(slots=True)
class _Remarks:
    """Remarks below the table, each with a number."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers) + 1)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
        for row in rows
    ]
    ruler = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return [lines[0], ruler, *lines[1:]]


_OPENING: Final = """\
# Conformance

This page shows which operations common admin clients can perform on the daemon. It was written on
{date} by `make conformance WRITE=1`. `make conformance` prints the same table, and fails if a
cell is an error. The clients that need no JVM also run in `make test`.

A cell is **ok** if the operation succeeded, the same client then saw its effect, and the daemon
refused the operation to a user without the right:

- **ACLs:** literal and prefixed ACLs are created, described with filters of the pattern types
  LITERAL, PREFIXED, ANY and MATCH, and deleted. A deletion reports what it deleted and leaves the
  other ACLs. Without ALTER on the cluster, nothing is created or deleted; without DESCRIBE,
  nothing is described.
- **Authorized operations** (KIP-430) of the cluster, a topic and a group are correct for a super
  user, for a user with DESCRIBE only, and for a user without any right.
- **Configs:** a config of the node is set with IncrementalAlterConfigs, described with the source
  DYNAMIC_BROKER_CONFIG, and reset to its default. Without ALTER_CONFIGS it is not set, and
  without DESCRIBE_CONFIGS it is not described.
- **Quorum:** it consists of this node. Without DESCRIBE on the cluster, it is not described.

The daemon has no groups, and knows only the topics in its log: two in this run. With
SASL_PLAINTEXT, the mechanism is PLAIN. Numbers in the table refer to the exceptions below it.

`tests/conformance` also compares the output of kafka-acls and kafka-configs for the daemon with
their output for a broker. For kafka-acls, only the order of its lists may differ. For
kafka-configs, a key's default, the reason for rejecting a value, and keys that only one side has
may differ.

{versions}

{table}
"""


def document(matrix: Matrix, date: str) -> str:
    """Return docs/conformance.md."""
    versions = ", ".join(f"{name} {version}" for name, version in matrix.versions.items())
    origin = "kafka-acls, kafka-configs and the Java AdminClient are part of Apache Kafka."
    return _OPENING.format(
        date=date,
        versions=textwrap.fill(f"Versions: {versions}. {origin}", _WIDTH),
        table="\n".join(matrix.lines()),
    )
