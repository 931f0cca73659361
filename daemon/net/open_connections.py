"""The slots of one endpoint: which connections have one, and which are evicted for a new one.

**Invariant:** only an authenticated peer becomes safe from eviction. A stranger's connection may be
evicted whenever it waits for its peer, however many requests it has sent. New connections first
evict connections of their own network: no network takes slots from one that has fewer.

A full endpoint ends, in this order:

1. The oldest connection without an answer, in the network with the most such connections.
2. A connection of a stranger, roughly the one that has been quiet the longest, in the network with
   the most connections. This comes before 1 if the new connection's network has more connections
   than any network in 1.
3. The connection of a known peer that has been idle for IDLE_SECONDS_MIN.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Final

import trio

from authorizerd.daemon.net.arrivals import Arrival
from authorizerd.daemon.net.connection import Connection, Phase

IDLE_SECONDS_MIN: Final = 10.0
"""A known peer's connection must be idle for this long before another may replace it."""
STALL_SECONDS_MIN: Final = 1.0
"""Time after which a stranger's stalled connection may be ended, even during an answer, or in order
to free memory."""
EXEMPT: Final = (Phase.ANSWERING, Phase.STREAMING)
"""The phases in which a connection does not wait for its peer, so it is neither late nor idle."""
_LOOKED_AT_MAX: Final = 1024
_COMPARED_MAX: Final = 64

Guest = Connection | Arrival


class _Strangers:
    """The strangers of one network: those with an answered request, and those without."""

    __slots__ = ("answered", "unanswered")

    def __init__(self) -> None:
        self.unanswered: dict[Guest, None] = {}  # in order of arrival
        self.answered: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self.unanswered) + len(self.answered)


class OpenConnections:
    """The open connections of one endpoint, and its arrivals: everything with a slot.

    Args:
        end: ends an evicted connection, and frees its slot.
    """

    def __init__(self, end: Callable[[Guest], None]) -> None:
        self.open: Final[dict[Connection, None]] = {}
        self.taken = 0
        self._end = end
        self._strangers: dict[str | None, _Strangers] = {}
        self._idle: deque[Connection] = deque()
        self._by_source: Counter[str] = Counter()

    def count(self, source: str) -> int:
        """Return the number of connections of ``source``."""
        return self._by_source[source]

    def add(self, newcomer: Guest) -> None:
        """Give ``newcomer`` a slot."""
        self._strangers.setdefault(newcomer.network, _Strangers()).unanswered[newcomer] = None
        if newcomer.source is not None:
            self._by_source[newcomer.source] += 1
        self.taken += 1
        if isinstance(newcomer, Connection):
            self.open[newcomer] = None

    def replace(self, arrival: Arrival, connection: Connection) -> None:
        """Give the slot of ``arrival`` to its connection."""
        unanswered = self._strangers[arrival.network].unanswered
        del unanswered[arrival]
        unanswered[connection] = None
        self.open[connection] = None

    def establish(self, connection: Connection, *, is_known: bool) -> None:
        """Note that a request of the peer was answered, or that the peer authenticated."""
        strangers = self._strangers[connection.network]
        strangers.unanswered.pop(connection, None)
        if not is_known:
            strangers.answered[connection] = None
        elif not strangers:
            del self._strangers[connection.network]

    def remove(self, guest: Guest) -> bool:
        """Free the slot of ``guest``; return False if it no longer had one."""
        strangers = self._strangers.get(guest.network)
        if isinstance(guest, Connection):
            if guest not in self.open:
                return False
            del self.open[guest]
            if strangers is not None:
                strangers.answered.pop(guest, None)
        elif strangers is None or guest not in strangers.unanswered:
            return False
        if strangers is not None:
            strangers.unanswered.pop(guest, None)
            if not strangers:
                del self._strangers[guest.network]
        if guest.source is not None:
            self._by_source[guest.source] -= 1
            if not self._by_source[guest.source]:
                del self._by_source[guest.source]
        self.taken -= 1
        return True

    def note_idle(self, idle: Sequence[Connection]) -> None:
        """Replace the list of known peers' connections that may be evicted if they are still
        idle."""
        self._idle = deque(idle[:_LOOKED_AT_MAX])

    def evict(self, network: str | None) -> bool:
        """End one connection for a newcomer from ``network``; return False if none may be ended."""
        victim = self._find_stranger(network)
        while victim is None and self._idle:
            oldest = self._idle.popleft()
            victim = oldest if self._is_stalled(oldest, IDLE_SECONDS_MIN) else None
        if victim is None:
            return False
        self._end(victim)
        return True

    def evict_within(self, network: str | None) -> bool:
        """End one connection of a stranger in ``network``; return False if none may be ended."""
        strangers = self._strangers.get(network)
        victim = None if strangers is None else self._find_within(strangers)
        if victim is None:
            return False
        self._end(victim)
        return True

    def _find_stranger(self, network: str | None) -> Guest | None:
        quiet, most = None, 0
        for stranger in self._strangers.values():
            if len(stranger) > most and stranger.unanswered:
                found = next(filter(self._gives_way, stranger.unanswered), None)
                if found is not None:
                    quiet, most = found, len(stranger)
        if quiet is not None and most >= len(self._strangers.get(network, ())):
            return quiet
        for stranger in sorted(self._strangers.values(), key=len, reverse=True):
            found = self._find_within(stranger)
            if found is not None:
                return found
        return None

    def _find_within(self, strangers: _Strangers) -> Guest | None:
        """Return the oldest waiting connection without an answer, or else roughly the quietest
        one."""
        oldest = next(filter(self._gives_way, strangers.unanswered), None)
        if oldest is not None:
            return oldest
        # Check a few connections, and different ones next time.
        compared = list(islice(strangers.answered, _COMPARED_MAX))
        for each in compared:
            del strangers.answered[each]
            strangers.answered[each] = None
        waiting = filter(self._gives_way, compared)
        return min(waiting, key=lambda each: each.since, default=None)

    def _gives_way(self, guest: Guest) -> bool:
        if isinstance(guest, Arrival):
            return True
        return guest.is_waiting or self._is_stalled(guest, STALL_SECONDS_MIN)

    def _is_stalled(self, connection: Connection, least_s: float) -> bool:
        """Return True if an open connection has waited a long time for its peer."""
        return (
            connection in self.open
            and connection.phase not in EXEMPT
            and connection.since + least_s <= trio.current_time()
        )

    def free_memory(self, newcomer: Connection, hold: Callable[[], bool]) -> bool:
        """End stalled connections that hold memory until ``hold`` succeeds; return its result."""
        strangers = chain.from_iterable(
            chain(stranger.unanswered, stranger.answered) for stranger in self._strangers.values()
        )
        holders = [
            connection
            for connection in chain(islice(strangers, _LOOKED_AT_MAX), self._idle)
            if isinstance(connection, Connection)
            and connection is not newcomer
            and connection.reservation.exceeds_free_bytes
            and self._is_stalled(
                connection,
                IDLE_SECONDS_MIN if connection.is_established else STALL_SECONDS_MIN,
            )
        ]
        for connection in holders:
            self._end(connection)
            if hold():
                return True
        return False
