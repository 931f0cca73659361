"""The counters of all workers, reported as plain numbers and summed.

**Invariant:** a sum never decreases. When a worker ends, its last reported counts stay in the sum;
only its open connections and current failures are removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol, TypeVar

from authorizerd.actors.audit_log import AuditStatistics
from authorizerd.actors.decider import DecisionCounts
from authorizerd.daemon.logging.queue import LogStatistics

_DECISIONS: Final = "decisions"
_AUDIT: Final = "audit"
_LOG: Final = "log"
_OF_THE_LIVING: Final = ("connections_open", "failing")
_SEPARATOR: Final = "/"

Statistics = TypeVar("Statistics")


class Counted(Protocol):
    """A server; ``statistics`` is a dataclass of integers."""

    @property
    def statistics(self) -> Any: ...  # noqa: ANN401 - each kind of server has its own


def counters_of(
    decisions: Mapping[str, DecisionCounts],
    servers: Mapping[str, Counted],
    audit: AuditStatistics | None,
    log: LogStatistics,
) -> dict[str, int]:
    """Return every counter of one worker by its name."""
    counters: dict[str, int] = {}
    for surface, counts in decisions.items():
        _add(counters, f"{_DECISIONS}{_SEPARATOR}{surface}", counts)
    for name, server in servers.items():
        _add(counters, name, server.statistics)
    if audit is not None:
        _add(counters, _AUDIT, audit)
    _add(counters, _LOG, log)
    return counters


def _add(counters: dict[str, int], name: str, counted: Any) -> None:  # noqa: ANN401 - as above
    for field in fields(counted):
        counters[f"{name}{_SEPARATOR}{field.name}"] = getattr(counted, field.name)


class Totals:
    """The counters of all workers, including dead ones."""

    def __init__(self) -> None:
        self._dead: Counter[str] = Counter()

    def retire(self, counters: Mapping[str, int]) -> None:
        """Keep the counts of a worker that has ended."""
        self._dead.update(
            {name: count for name, count in counters.items() if not name.endswith(_OF_THE_LIVING)}
        )

    def sum(self, living: Iterable[Mapping[str, int]]) -> Sums:
        total = Counter(self._dead)
        for counters in living:
            total.update(counters)
        return Sums(total)


class Sums:
    """One reading of all counters."""

    def __init__(self, counters: Mapping[str, int]) -> None:
        self._counters = counters

    @property
    def decisions(self) -> dict[str, DecisionCounts]:
        """Return the counts by surface."""
        names = (name.split(_SEPARATOR) for name in self._counters)
        surfaces = dict.fromkeys(name[1] for name in names if name[0] == _DECISIONS)
        return {
            surface: self.statistics(DecisionCounts, f"{_DECISIONS}{_SEPARATOR}{surface}")
            for surface in surfaces
        }

    @property
    def audit(self) -> AuditStatistics:
        return self.statistics(AuditStatistics, _AUDIT)

    @property
    def log(self) -> LogStatistics:
        return self.statistics(LogStatistics, _LOG)

    def server(self, kind: type[Any], name: str) -> Counted:
        """Return the servers of one name in all workers, as one."""
        return _Server(self.statistics(kind, name))

    def statistics(self, kind: type[Statistics], name: str) -> Statistics:
        """Return the sums of one server's statistics."""
        counted: Any = kind
        return kind(
            **{
                field.name: self._counters.get(f"{name}{_SEPARATOR}{field.name}", 0)
                for field in fields(counted)
            }
        )


@dataclass(frozen=True, slots=True)
class _Server:
    statistics: Any
