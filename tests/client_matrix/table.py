"""The matrix as a text table: a row for each client and protocol, a column for each operation.

**Invariant:** an outcome other than "ok" is explained below the table, by the number in its cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from tests.client_matrix.checks import NOT_OFFERED, OK
from tests.client_matrix.deeds import AdminClient, Deed, Protocol

_ABSENT: Final = "not run"


@dataclass(slots=True)
class Matrix:
    """The outcomes of cells by client, protocol and deed, and the clients' notes and versions."""

    versions: dict[str, str] = field(default_factory=dict)
    outcomes: dict[tuple[str, Protocol, Deed], str] = field(default_factory=dict)
    notes: dict[tuple[str, Deed], str] = field(default_factory=dict)

    def add_client(self, name: str, version: str, client: type[AdminClient]) -> None:
        """Add a row for a client; rows keep the order of these calls."""
        self.versions[name] = version
        self.notes |= {(name, deed): note for deed, note in client.notes.items()}

    def record(self, client: str, protocol: Protocol, deed: Deed, outcome: str) -> None:
        self.outcomes[client, protocol, deed] = outcome

    def lines(self) -> list[str]:
        """Return the table, as Markdown that reads well on a terminal, and what it refers to."""
        said = _Remarks()
        rows: list[Sequence[str]] = [("client", "protocol", *Deed)]
        for client, protocol in product(self.versions, Protocol):
            if any((client, protocol, deed) in self.outcomes for deed in Deed):
                cells = [self._cell(client, protocol, deed, said) for deed in Deed]
                rows.append((client, protocol, *cells))
        remarks = [f"{number}. {text}." for text, number in said.numbers.items()]
        return [*_aligned(rows), "", *remarks]

    def _cell(self, client: str, protocol: Protocol, deed: Deed, said: _Remarks) -> str:
        outcome = self.outcomes.get((client, protocol, deed), _ABSENT)
        if outcome.startswith(NOT_OFFERED):
            return f"not offered ({said.number(outcome.removeprefix(NOT_OFFERED))})"
        if outcome == _ABSENT:
            return outcome
        if outcome != OK:
            return f"ERROR ({said.number(outcome)})"
        note = self.notes.get((client, deed))
        return outcome if note is None else f"{outcome} ({said.number(note)})"


@dataclass(slots=True)
class _Remarks:
    """Texts, each with its number."""

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

Admin clients that people use, run against the daemon on {date}. `make conformance` prints this
table, and fails where a cell is an error; `make conformance WRITE=1` writes this file. What needs
no JVM is a part of `make test`.

A cell is **ok** if what was done shows afterwards to the client that did it, and who lacks the
right is refused:

- ACLs, literal and prefixed, are created, described by LITERAL, PREFIXED, ANY and MATCH, and
  deleted; a deletion reports what it deleted, and leaves the rest. Without ALTER on the cluster
  nothing is created or deleted, and without DESCRIBE nothing is described.
- Authorized operations (KIP-430) of the cluster, a topic and a group are those of a super user, of
  who may DESCRIBE alone, and of who may do nothing.
- A config of the node is set by IncrementalAlterConfigs, described with source
  DYNAMIC_BROKER_CONFIG, and taken back to its default. Without ALTER_CONFIGS it is not set, and
  without DESCRIBE_CONFIGS not described.
- The quorum is this node; without DESCRIBE on the cluster it is not told of.

The daemon has no groups, and no topics but those that a log names: the log of this run names two.
With SASL_PLAINTEXT the mechanism is PLAIN. What is excepted stands below the table, by number.

`tests/conformance` also compares what kafka-acls and kafka-configs print of the daemon with what
they print of a broker: for kafka-acls all but the order of its lists; for kafka-configs all but a
key's default, the reason why it does not take a value, and keys that one side alone has.

Versions: {versions}. kafka-acls, kafka-configs and the Java AdminClient are Apache Kafka's.

{table}
"""


def document(matrix: Matrix, date: str) -> str:
    """Return docs/conformance.md."""
    versions = ", ".join(f"{name} {version}" for name, version in matrix.versions.items())
    return _OPENING.format(date=date, versions=versions, table="\n".join(matrix.lines()))
