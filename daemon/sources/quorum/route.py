"""Decide which node to ask next, and when: the leader if known, else every known server in turn.

**Invariant:** an epoch has one leader, and only ``go_back`` returns to an earlier epoch.

Source: KIP-595, KIP-853; Kafka 4.3 KafkaRaftClient (maybeTransition, pollFollowerAsObserver).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from authorizerd.config.follow.settings import Server
from authorizerd.daemon.sources.quorum.errors import GarbageError
from authorizerd.kafka_client.address import Address
from authorizerd.protocol.kafka.fetch import Endpoints
from authorizerd.protocol.records.voters import Voters

NODES_MAX: Final = 64
"""Maximum number of remembered controllers: a quorum has only a few voters."""

UNKNOWN: Final = -1

LEADER_FAILURES_MAX: Final = 2
"""After this many consecutive failures, a leader that others still name counts as down."""

FIRST_SECONDS: Final = 0.05
SECONDS_MAX: Final = 1.0
JITTER: Final = 0.2
DOUBLINGS_MAX: Final = 10

ELECTION_SECONDS: Final = 0.1
"""The pause before asking a node again that does not know the new leader yet."""


class Route:
    """Remembers the leader, its epoch and the controllers' addresses.

    Args:
        servers: where to ask first, and again whenever no known controller answers.
        epoch: the last known epoch, or 0.
    """

    def __init__(self, servers: Sequence[Server], *, epoch: int = 0) -> None:
        self._servers: Final = tuple(Address(server.host, server.port) for server in servers)
        self._nodes: dict[int, Address] = {
            server.node_id: Address(server.host, server.port)
            for server in servers
            if server.node_id is not None
        }
        self._turn = 0
        self._is_leader_failed = False
        self._leader_failures = 0
        self._skipped: Address | None = None
        self.epoch = epoch
        self.leader_id = UNKNOWN

    def learn(self, leader_id: int, epoch: int, endpoints: Endpoints) -> bool:
        """Learn the leader from an answer. Return False if the answer is out of date.

        Raises:
            GarbageError: the answer names a different leader for the same epoch.
        """
        if epoch < self.epoch:
            return False
        if epoch == self.epoch and self.leader_id >= 0 <= leader_id != self.leader_id:
            raise GarbageError(
                f"epoch {epoch}: expected leader {self.leader_id}, found leader {leader_id}"
            )
        before = self.epoch, self.leader
        if epoch > self.epoch:
            self.epoch, self.leader_id = epoch, UNKNOWN
        if leader_id >= 0:
            self.leader_id = leader_id
        self.add_nodes({node: Address(*endpoint) for node, endpoint in endpoints.items()})
        if (self.epoch, self.leader) != before:
            self.forgive_leader()
            self._leader_failures, self._skipped = 0, None
        return True

    def go_back(self, epoch: int) -> None:
        """Forget a later epoch: it was announced, but nobody leads it."""
        self.epoch, self.leader_id = epoch, UNKNOWN

    def add_nodes(self, nodes: Mapping[int, Address]) -> None:
        """Remember the controllers' addresses; beyond the maximum, forget the oldest."""
        for node_id, address in nodes.items():
            self._nodes.pop(node_id, None)
            self._nodes[node_id] = address
        for node_id in list(self._nodes)[:-NODES_MAX]:
            del self._nodes[node_id]

    @property
    def leader(self) -> Address | None:
        """The leader's address, or None if the leader or its address is unknown."""
        return self._nodes.get(self.leader_id)

    def choose(self) -> Address:
        """Return the leader's address, or the next server's if the leader has failed.

        A leader that has just failed is skipped once.
        """
        if self.leader is not None and not self._is_leader_failed:
            return self.leader
        candidates = list(dict.fromkeys((*self._servers, *self._nodes.values())))
        chosen = self._take_turn(candidates)
        if chosen == self._skipped:
            self._skipped = None
            chosen = self._take_turn(candidates)
        return chosen

    def _take_turn(self, candidates: Sequence[Address]) -> Address:
        self._turn += 1
        return candidates[(self._turn - 1) % len(candidates)]

    @property
    def is_electing(self) -> bool:
        """True if the nodes that answer know no leader, or name one that is down."""
        is_down = self._is_leader_failed and self._leader_failures >= LEADER_FAILURES_MAX
        return self.leader_id < 0 or (self.leader is not None and is_down)

    def fail(self, address: Address | None, *, is_silent: bool = False) -> None:
        """Note that a node failed: another server is asked before the leader is tried again.

        Args:
            is_silent: True if it did not answer in time. A retry would take as long again.
        """
        self._is_leader_failed = True
        if address is not None and address == self.leader:
            self._leader_failures += LEADER_FAILURES_MAX if is_silent else 1
            self._skipped = address

    def forgive_leader(self) -> None:
        """Try the leader next, even if it has failed."""
        self._is_leader_failed = False

    def note_leader(self) -> None:
        """Note that the leader answered."""
        self._is_leader_failed, self._leader_failures, self._skipped = False, 0, None


def choose_addresses(voters: Voters, leader: Address) -> Mapping[int, Address]:
    """Return the voters' addresses at the listener through which the leader was reached.

    The leader's answers name only the leader, but a cluster may replace every address that the
    daemon knows. Voters without this listener are left out. If no voter has the leader's address,
    the result is empty.

    Source: KIP-853.
    """
    names = {
        name
        for listeners in voters.values()
        for name, endpoint in listeners.items()
        if Address(*endpoint) == leader
    }
    return {
        node_id: Address(*listeners[name])
        for node_id, listeners in voters.items()
        for name in listeners
        if name in names
    }


class Retries:
    """Counts the attempts since the last success.

    Args:
        random: returns a number from 0 to 1.
    """

    def __init__(self, random: Callable[[], float]) -> None:
        self._random: Final = random
        self.count = 0

    def succeed(self) -> None:
        self.count = 0

    def next_delay(self) -> float:
        """Return the seconds to wait before the next attempt."""
        delay = min(FIRST_SECONDS * (1 << min(self.count, DOUBLINGS_MAX)), SECONDS_MAX)
        self.count += 1
        return self._spread(delay)

    def election_delay(self) -> float:
        """Return the seconds to wait for news of an election. They do not grow."""
        return self._spread(ELECTION_SECONDS)

    def _spread(self, seconds: float) -> float:
        return seconds * (1 + JITTER * (2 * self._random() - 1))
