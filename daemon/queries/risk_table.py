"""The rows of the page *Risks*: the ACLs that an auditor would question, and unused grants.

**Invariant:** an ACL counts as unused only if a ``usage.json`` says so. Without such a file, or if
the file does not name the ACL, its use is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from authorizerd.acl.model import PatternType, PermissionType
from authorizerd.acl.risks import Level, find_risks
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.text.named_acl import NamedAcl, name_acl
from authorizerd.daemon.queries.tables import Cells, TablePage, make_page
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.queries import RisksQuestion
from authorizerd.protocol.usage import UNUSED, Usage, UsageError, UsageWindow

RISK_COLUMNS: Final = MappingProxyType(
    {
        "level": "Level",
        "risk": "Risk",
        "principal": "Principal",
        "allows": "What",
        "resource_name": "Name",
        "host": "Host",
        "why": "Why",
        "used": "Last use",
    }
)
UNUSED_KIND: Final = "no recorded use"
_UNUSED_SENTENCE: Final = "no request used this ACL while allowed requests were recorded"
_NOT_KNOWN: Final = "not known"
_NONE: Final = "none recorded"
_DATE_CHARACTERS: Final = len("2026-11-30")
USAGE_BYTES_MAX: Final = 256 * 1024 * 1024


class RiskTable(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the rows, and the numbers of all of them.

    Attributes:
        counts: the number of ACLs by kind and level.
        acls: the number of ACLs with a row.
        window: the time in which use was recorded; None if nothing is known about it, and
            ``problem`` may say why.
    """

    page: TablePage
    counts: dict[str, dict[str, int]]
    acls: int
    total: int
    window: UsageWindow | None
    problem: str


class _Risks:
    """Lists the rows, and counts them."""

    def __init__(self, question: RisksQuestion, snapshot: AclSnapshot, usage: Usage | None) -> None:
        self._question: Final = question
        self._snapshot: Final = snapshot
        self._usage: Final = usage
        self.counts: Final[Counter[tuple[str, str]]] = Counter()
        self.acls = 0

    def list_rows(self) -> Iterator[Cells]:
        """Yield the rows of the kind that is asked for; count those of every kind."""
        for acl in self._snapshot.acls.values():
            found = [
                (each.kind.value, each.level.value, each.sentence)
                for each in find_risks(acl, self._snapshot, self._question.settings)
            ]
            if self._usage is None and not found:
                continue
            named = name_acl(acl)
            used = None if self._usage is None else self._usage.find(named)
            if used == UNUSED and acl.permission_type == PermissionType.ALLOW:
                found.append((UNUSED_KIND, Level.MEDIUM.value, _UNUSED_SENTENCE))
            self.acls += bool(found)
            for kind, level, sentence in found:
                self.counts[kind, level] += 1
                if self._question.kind in ("", kind):
                    yield _make_cells(named, kind, level, sentence, used)


def list_risks(question: RisksQuestion, snapshot: AclSnapshot) -> RiskTable:
    """Return the page that a question asks for."""
    usage, problem = None, ""
    if question.usage_file is not None:
        try:
            usage = _read_usage(Path(question.usage_file))
        except (OSError, UsageError) as error:
            problem = f"{getattr(error, 'strerror', None) or error}"
    risks = _Risks(question, snapshot, usage)
    rows, total = make_page(risks.list_rows(), question.view)
    counts: dict[str, dict[str, int]] = {}
    for (kind, level), count in risks.counts.most_common():
        counts.setdefault(kind, {})[level] = count
    return RiskTable(
        page=TablePage(rows=rows, total=total, offset=snapshot.offset),
        counts=counts,
        acls=risks.acls,
        total=len(snapshot.acls),
        window=None if usage is None else usage.window,
        problem=problem,
    )


def _read_usage(path: Path) -> Usage:
    with DISK.open(path) as file:  # a pipe would block
        data = file.read(USAGE_BYTES_MAX + 1)
    if len(data) > USAGE_BYTES_MAX:
        raise UsageError(f"expected at most {USAGE_BYTES_MAX:,} bytes, found more")
    return Usage(data)


def _make_cells(named: NamedAcl, kind: str, level: str, sentence: str, used: str | None) -> Cells:
    prefix = " (prefix)" if named.pattern_type == PatternType.PREFIXED.name else ""
    return (
        level,
        kind,
        named.principal,
        f"{named.permission_type} {named.operation} {named.resource_type}{prefix}",
        named.resource_name,
        named.host,
        sentence,
        _NOT_KNOWN if used is None else used[:_DATE_CHARACTERS] or _NONE,
    )
