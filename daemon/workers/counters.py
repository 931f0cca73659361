"""The counters of all workers, reported as plain numbers and summed.

**Invariant:** a sum never decreases. When a worker ends, the sum keeps its last reported counts,
except open connections, watches and current failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Final, TypeVar

from authorizerd.actors.audit_log import AuditStatistics
from authorizerd.actors.daemon_authorizer import DecisionCounts
from authorizerd.daemon.logging.queue import LogStatistics
from authorizerd.daemon.net.connection_statistics import ConnectionStatistics

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_DECISIONS: Final = "decisions"
_AUDIT: Final = "audit"
_LOG: Final = "log"
WATCH: Final = "watch"
_CURRENT: Final = ("connections_open", "failing", "refusing", "watchers_open")
_SEPARATOR: Final = "/"
AUDIT_REFUSING: Final = f"{_AUDIT}{_SEPARATOR}refusing"
"""The name of the counter that is 1 while a worker refuses decisions because it cannot audit."""

Statistics = TypeVar("Statistics", bound="DataclassInstance")


def collect_counters(
    decisions: Mapping[str, DecisionCounts],
    servers: Mapping[str, ConnectionStatistics],
    audit: AuditStatistics | None,
    log: LogStatistics,
    watch: DataclassInstance | None = None,
) -> dict[str, int]:
    """Return every counter of one worker by its name."""
    counters: dict[str, int] = {}
    for surface, counts in decisions.items():
        _add(counters, f"{_DECISIONS}{_SEPARATOR}{surface}", counts)
    for name, statistics in servers.items():
        _add(counters, name, statistics)
    if audit is not None:
        _add(counters, _AUDIT, audit)
    _add(counters, _LOG, log)
    if watch is not None:
        _add(counters, WATCH, watch)
    return counters


def _add(counters: dict[str, int], name: str, counted: DataclassInstance) -> None:
    for field in fields(counted):
        counters[f"{name}{_SEPARATOR}{field.name}"] = getattr(counted, field.name)


class Totals:
    """The counters of all workers, including those that have ended."""

    def __init__(self) -> None:
        self._ended: Counter[str] = Counter()

    def retire(self, counters: Mapping[str, int]) -> None:
        """Keep the counts of an ended worker."""
        # Open connections, watches and current failures end with the worker: they are not kept.
        self._ended.update(
            {name: count for name, count in counters.items() if not name.endswith(_CURRENT)}
        )

    def sum(self, running: Iterable[Mapping[str, int]]) -> Sums:
        """Return the sums of the ended workers and of the ``running`` ones."""
        # Use a copy, so that running workers do not count as ended.
        total = Counter(self._ended)
        for counters in running:
            # ``update`` adds counts; the operator ``+`` would also drop counts of 0.
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

    def statistics(self, kind: type[Statistics], name: str) -> Statistics:
        """Return the sums of one server's statistics."""
        return kind(
            **{
                field.name: self._counters.get(f"{name}{_SEPARATOR}{field.name}", 0)
                for field in fields(kind)
            }
        )
