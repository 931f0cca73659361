"""The matrix of clients, protocols and calls as two text tables.

The first has a row for each call and a column for each client, the second a row for each protocol.

**Invariant:** the tables show every outcome. An outcome other than "ok" is explained below them, by
the number in its cell. An outcome that one protocol does not share with the others is shown with
the name of the protocol.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
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
        self.versions[name] = version
        self.notes |= {(name, call): note for call, note in client.notes.items()}

    def record(self, client: str, protocol: Protocol, call: Call, outcome: str) -> None:
        self.outcomes[client, protocol, call] = outcome

    def lines(self) -> list[str]:
        """Return the tables as aligned Markdown, followed by the remarks."""
        remarks = _Remarks()
        calls = [
            [call, *(self._cell(name, call, remarks) for name in self.versions)] for call in Call
        ]
        protocols = [
            [protocol, *(self._count(name, protocol) for name in self.versions)]
            for protocol in Protocol
        ]
        texts = [f"{number}. {text}." for text, number in remarks.numbers.items()]
        return [
            *_aligned([("call", *self.versions), *calls]),
            "",
            *_aligned([("protocol", *self.versions), *protocols]),
            "",
            *texts,
        ]

    def _cell(self, client: str, call: Call, remarks: _Remarks) -> str:
        """Return the outcome of all protocols, or each outcome with its protocols."""
        protocols: dict[str, list[str]] = {}
        for protocol in Protocol:
            outcome = self.outcomes.get((client, protocol, call), _ABSENT)
            protocols.setdefault(outcome, []).append(protocol)
        texts = {outcome: self._text(client, call, outcome, remarks) for outcome in protocols}
        if len(texts) == 1:
            return "".join(texts.values())
        return "; ".join(
            f"{text} over {' and '.join(protocols[outcome])}" for outcome, text in texts.items()
        )

    def _text(self, client: str, call: Call, outcome: str, remarks: _Remarks) -> str:
        if outcome.startswith(NOT_OFFERED):
            return f"no call ({remarks.number(outcome.removeprefix(NOT_OFFERED))})"
        if outcome == _ABSENT:
            return outcome
        if outcome != OK:
            return f"ERROR ({remarks.number(outcome)})"
        note = self.notes.get((client, call))
        return outcome if note is None else f"{outcome} ({remarks.number(note)})"

    def _count(self, client: str, protocol: Protocol) -> str:
        """Return how many of the calls that the client offers are ok."""
        outcomes = [self.outcomes.get((client, protocol, call), _ABSENT) for call in Call]
        offered = [outcome for outcome in outcomes if not outcome.startswith(NOT_OFFERED)]
        return f"{offered.count(OK)} of {len(offered)} ok"


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

To learn whether the daemon decides as Kafka does, read [what was compared with each
release](#what-was-compared-with-each-release) and [the differences](#differences-from-kafka).

The tables show which operations common admin clients can perform on the daemon, and over which
security protocols. They were written on {date} by `make conformance WRITE=1`. `make conformance`
prints the same tables, and fails if an operation fails. The clients that need no JVM also run in
`make test`.

Each client makes each call over each protocol: {cells} cells. The first table shows the outcome of
each call; unless it names a protocol, the outcome is the same over all. The second table shows
how many of the calls that a client offers succeeded over each protocol. A number in brackets refers
to the remarks below the tables. **no call** means that the client does not offer the operation.

A call is **ok** if the operation succeeded, the same client then saw its effect, and the daemon
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
- **SCRAM credentials** are added, replaced, described and deleted. Without ALTER on the cluster,
  nothing is changed; without DESCRIBE, nothing is described.

The daemon has no groups, and knows only the topics in its log: two in this run. The user is
anonymous over PLAINTEXT and over SSL without a client certificate. With client auth required, it is
the name in the client's certificate. With SASL_PLAINTEXT and SASL_SSL, it logs in with the
mechanism after the protocol; SCRAM's credentials are in the log. Clients verify the server's
certificate and host name.

`tests/conformance` also compares the output of kafka-acls and kafka-configs for the daemon with
their output for a broker. For kafka-acls, only the order of its lists may differ. For
kafka-configs, a key's default, the reason for rejecting a value, keys that only one side has, and
the order of users and mechanisms may differ. [Differences from Kafka](#differences-from-kafka)
lists what differs in the answers themselves.

{versions}

{table}
"""


def document(matrix: Matrix, date: str) -> str:
    """Return docs/conformance.md."""
    versions = ", ".join(f"{name} {version}" for name, version in matrix.versions.items())
    origin = "kafka-acls, kafka-configs and the Java AdminClient are part of Apache Kafka."
    return _OPENING.format(
        date=date,
        cells=len(matrix.versions) * len(Protocol) * len(Call),
        versions=textwrap.fill(f"Versions: {versions}. {origin}", _WIDTH),
        table="\n".join(matrix.lines()),
    )
