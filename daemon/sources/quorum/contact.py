"""The contact with the quorum: which node to ask, and whether it answers as the leader.

**Invariant:** only answers of the leader of the newest known epoch are used, and only if the
request named this epoch.

Source: KIP-595; Kafka 4.3 KafkaRaftClient (maybeHandleCommonResponse, validateLeaderOnlyRequest).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from authorizerd.config.follow.settings import CLUSTER_ID, Server
from authorizerd.daemon.sources.quorum.errors import (
    GarbageError,
    PermanentFaultError,
    RestoredClusterError,
)
from authorizerd.daemon.sources.quorum.messages import (
    Connect,
    CountFailure,
    Disconnect,
    Effect,
    Wait,
)
from authorizerd.daemon.sources.quorum.route import NODES_MAX, UNKNOWN, Retries, Route
from authorizerd.kafka_client.address import Address
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.fetch import FetchAnswer, SnapshotAnswer

OLD_EPOCH_SECONDS: Final = 60.0
"""A node that claims for this long to lead an older epoch is not merely a deposed leader.

A deposed leader resigns within seconds, because no majority fetches from it.
"""

ELECTION_QUESTIONS: Final = 10
"""How often a node is asked for the new leader before another node is asked."""

FREE_REDIRECTIONS: Final = 3
"""How many consecutive nodes may name another leader before the daemon waits between them."""

LOG_CODES: Final = frozenset(
    (
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.SNAPSHOT_NOT_FOUND,
        ErrorCode.POSITION_OUT_OF_RANGE,
    )
)
"""Errors that a leader reports about its log."""

_ELSEWHERE: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.BROKER_NOT_AVAILABLE,
    )
)
"""Errors of a node that does not lead the requested epoch, or is shutting down."""

_REMEDIES: Final[dict[int, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "name controllers, not brokers",
    ErrorCode.UNKNOWN_TOPIC_ID: "name controllers, not brokers",
}

_Answer = FetchAnswer | SnapshotAnswer


class Contact:
    """Connect to the leader, and judge its answers.

    Args:
        servers: where to ask first.
        epoch: the last known epoch, or 0. random: returns a number from 0 to 1.

    Attributes:
        proven_epoch: the newest epoch that a majority is known to have had: records of it were
            committed, or its leader had a high watermark. Any node can announce a later epoch.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        *,
        epoch: int,
        random: Callable[[], float],
        named_cluster: str | None = None,
    ) -> None:
        self._named_cluster: Final = named_cluster
        self.route: Final = Route(servers, epoch=epoch)
        self.effects: Final[list[Effect]] = []
        self.now = 0.0
        self.target: Address | None = None
        self.is_connected = False
        self._retries: Final = Retries(random)
        self._request_epoch = 0
        self._is_leader = False
        self._is_doubted = False
        self._was_leader_found = False
        self._questions = 0
        self._redirections = 0
        self._claims: dict[Address, tuple[int, float]] = {}
        self.proven_epoch = epoch

    @property
    def leader(self) -> tuple[Address, int] | None:
        """The leader's address and epoch; None unless its last answer showed that it leads."""
        if self.target is None or not self._is_leader:
            return None
        return self.target, self.route.epoch

    def doubt_leader(self, address: Address) -> None:
        """Forget that ``address`` leads, until it answers a later request."""
        if address == self.target:
            self._is_leader, self._is_doubted = False, True

    def connect(self) -> Connect:
        """Return the connection to try next."""
        self.target = self.route.choose()
        return Connect(self.target)

    def begin_request(self) -> None:
        """Note that a request is sent with the newest known epoch."""
        self._request_epoch = self.route.epoch
        self._is_doubted = False

    def succeed(self) -> None:
        """Note that following made progress, so the next failure is retried quickly."""
        self._retries.succeed()
        self._redirections = 0

    def pause(self) -> Wait:
        """Return the wait before the next try."""
        return Wait(self.now + self._retries.next_delay())

    def count(self, reason: str, text: str) -> None:
        """Count a failed exchange with the node."""
        self.effects.append(CountFailure(reason, f"{self.target}: {text}"))

    def give_up(self, reason: str, text: str, *, is_silent: bool = False) -> Wait:
        """Count a failure, close the connection, and try another server after a pause.

        Args:
            is_silent: see ``Route.fail``.
        """
        self.count(reason, text)
        self.route.fail(self.target, is_silent=is_silent)
        self.disconnect()
        return self.pause()

    def disconnect(self) -> None:
        if self.is_connected:
            self.effects.append(Disconnect())
        self.is_connected = self._is_leader = False

    def judge(self, answer: _Answer) -> Wait | None:
        """Return None if the leader answered, without an error or with one of ``LOG_CODES``.

        Otherwise return what to do next.

        Raises:
            GarbageError: no quorum sends such an answer.
            PermanentFaultError: the node belongs to another or a restored cluster.
        """
        code = answer.error_code
        if code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            return self._on_other_cluster()
        epoch, is_new = answer.leader_epoch, answer.leader_epoch > self.route.epoch
        if self.route.learn(answer.leader_id, epoch, answer.endpoints):
            self._end_claims()
        elif epoch >= 0:
            return self._on_old_epoch(answer)
        if code in _ELSEWHERE or is_new:
            return self._redirect(code, is_new=is_new)
        if code and code not in LOG_CODES:
            return self.give_up(ApiError(code).name, describe_code(code))
        if epoch != self._request_epoch:
            raise GarbageError(f"expected epoch {self._request_epoch}, found {epoch}")
        self._is_leader = not self._is_doubted
        self._was_leader_found = True
        self._claims.clear()
        self._questions = 0
        self.route.note_leader()
        return None

    def _end_claims(self) -> None:
        """Forget which nodes claimed to lead older epochs, since a node answered in the newest.

        If nothing proves the newest epoch, only the node's own claim is forgotten.
        """
        if self.route.epoch == self.proven_epoch:
            self._claims.clear()
        elif self.target is not None:
            self._claims.pop(self.target, None)

    def _on_other_cluster(self) -> Wait:
        # A stray node that takes over an address must not stop a daemon that follows the right
        # cluster.
        if self._was_leader_found:
            code = ErrorCode.INCONSISTENT_CLUSTER_ID
            return self.give_up(code.name, describe_code(code))
        if self._named_cluster is not None:
            raise PermanentFaultError(
                f"{self.target}: expected cluster {self._named_cluster}, found another cluster: "
                f"correct {CLUSTER_ID}, or the servers in the configuration"
            )
        raise PermanentFaultError(
            f"{self.target}: this node belongs to another cluster than the daemon's copy of the "
            "log: correct the servers in the configuration. To follow the other cluster, stop the "
            "daemon, run `authorizerd reset-copy --config FILE`, and start it again"
        )

    def _on_old_epoch(self, answer: _Answer) -> Wait:
        """Leave a node that is behind, unless it has claimed to lead for a long time.

        In that case, the cluster was restored, or the newest epoch was announced falsely.
        """
        found = f"expected epoch {self.route.epoch}, found the older epoch {answer.leader_epoch}"
        name = ErrorCode.UNKNOWN_LEADER_EPOCH.name
        claimed = answer.endpoints.get(answer.leader_id)
        if claimed is None or Address(*claimed) != self.target:
            return self.give_up(name, found)
        epoch, since = self._claims.get(self.target, (UNKNOWN, self.now))
        if epoch != answer.leader_epoch:
            if len(self._claims) >= NODES_MAX:
                self._claims.clear()
            self._claims[self.target] = answer.leader_epoch, self.now
        elif self.now - since >= OLD_EPOCH_SECONDS:
            found = f"{found} for {OLD_EPOCH_SECONDS:.0f} s"
            if answer.leader_epoch < self.proven_epoch:
                raise RestoredClusterError(f"{self.target}: {found}")
            self.count(
                name, f"{found}, and no node leads the newer one: going back to the older epoch"
            )
            self.route.go_back(answer.leader_epoch)
            self.route.learn(answer.leader_id, answer.leader_epoch, answer.endpoints)
            self._claims.clear()
            return Wait(self.now)
        return self.give_up(name, found)

    def _redirect(self, code: int, *, is_new: bool) -> Wait | None:
        """Continue with the leader that the node named, or wait for an election."""
        if self.route.is_electing and code != ErrorCode.BROKER_NOT_AVAILABLE:
            return self._await_election(code)
        if not is_new and self.route.leader in (None, self.target):
            return self.give_up(ApiError(code).name, describe_code(code))
        self.route.forgive_leader()
        self._is_leader = False
        if self.route.leader != self.target:
            self.disconnect()
        if self._redirections < FREE_REDIRECTIONS:
            self._redirections += 1
            return Wait(self.now)
        return self.pause()

    def _await_election(self, code: int) -> Wait:
        """Ask the same node again soon: as long as it answers, it will learn who is elected."""
        self._questions += 1
        if self._questions % ELECTION_QUESTIONS == 0:  # the node may be cut off from the others
            return self.give_up(ApiError(code).name, describe_code(code))
        self.count(ApiError(code).name, describe_code(code))
        self._is_leader = False
        return Wait(self.now + self._retries.election_delay())


def describe_code(code: int) -> str:
    """Return an error code's text, and its remedy if there is one."""
    remedy = _REMEDIES.get(code)
    return str(ApiError(code)) + (f": {remedy}" if remedy else "")
