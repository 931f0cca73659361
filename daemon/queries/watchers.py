"""The watchers of one process: their slots, and counts of how they ended.

**Invariant:** there are never more watchers than ``authorizerd.watch.max.connections``, and at most
half of them belong to one principal, so that one caller cannot lock all others out.

Why not ``daemon.queries.admission``? A watch lasts for days and never waits for its turn, and each
worker serves its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from authorizerd.actors.acl_journal import AclJournal
from authorizerd.config.configuration import Configuration

Ending: TypeAlias = Literal["closed", "slow", "expired", "forbidden", "not_ready"]
"""Why a watch ended; see ``WatchStatistics``."""


@dataclass(slots=True)
class WatchStatistics:
    """The counters of the watches of one process.

    ``watchers_ended_closed`` counts watches that the client closed, or that ended with the daemon.
    ``slow`` counts watches whose client did not read, ``expired`` watches that fell behind the
    journal, ``forbidden`` watches that lost their right, and ``not_ready`` watches that ended
    because rights could not be decided.
    """

    watchers_open: int = 0
    watchers_refused: int = 0
    events_sent: int = 0
    watchers_ended_closed: int = 0
    watchers_ended_slow: int = 0
    watchers_ended_expired: int = 0
    watchers_ended_forbidden: int = 0
    watchers_ended_not_ready: int = 0


class Watchers:
    """The slots of watchers, and the journal that they follow.

    Args:
        connections_max: the maximum number of watchers; with 0, nobody may watch.
    """

    def __init__(self, journal: AclJournal, connections_max: int) -> None:
        self.journal: Final = journal
        self.statistics: Final = WatchStatistics()
        self._connections_max: Final = connections_max
        self._each_max: Final = (connections_max + 1) // 2
        self._by_principal: Counter[str] = Counter()

    def enter(self, principal: str) -> bool:
        """Take a slot for a watcher; return False if there is none for this principal."""
        statistics = self.statistics
        if (
            statistics.watchers_open >= self._connections_max
            or self._by_principal[principal] >= self._each_max
        ):
            statistics.watchers_refused += 1
            return False
        statistics.watchers_open += 1
        self._by_principal[principal] += 1
        return True

    def leave(self, principal: str, ending: Ending) -> None:
        """Release a watcher's slot, and count why it has ended."""
        statistics = self.statistics
        statistics.watchers_open -= 1
        name = f"watchers_ended_{ending}"
        setattr(statistics, name, getattr(statistics, name) + 1)
        self._by_principal[principal] -= 1
        if not self._by_principal[principal]:
            del self._by_principal[principal]


def new_watchers(configuration: Configuration, *, serves: bool) -> Watchers:
    """Return the watchers of one process.

    Args:
        serves: False if other processes serve the decision ports: then no changes are kept.
    """
    journal = AclJournal(configuration.watch_journal_bytes if serves else 0)
    return Watchers(journal, configuration.watch_max_connections)
