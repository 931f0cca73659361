"""Clients that change ACLs: through the daemon, or in the cluster that it follows."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from typing import Final

from authorizerd.acl.model import Acl
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.chaos.clients import REFUSED, SECONDS_MAX, Client, Ports, UnexpectedAnswerError
from tests.chaos.journal import Journal, Outcome, Update
from tests.kafka_rig import broker
from tests.kafka_rig.cluster import Cluster
from tests.support.acls import acl, exact_filter
from tests.support.kafka_connection import KafkaConnection

_GROUP_MAX: Final = 3
_IN_DOUBT: Final = frozenset(
    (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR)
)
_OLD_SECONDS: Final = 40.0
_CLUSTER_PAUSE_SECONDS: Final = (0.3, 1.0)
_NOTHING: Final = exact_filter(acl("User:nobody", topic="nothing"))


class Updater(Client):
    """Create and delete groups of ACLs.

    Args:
        name: no other client may have it.
        pool: the ACLs of its groups; no other client changes them.

    ``shown_within`` is that of its updates.
    """

    shown_within = 0.0

    def __init__(
        self, ports: Ports, journal: Journal, chance: random.Random, name: str, pool: Sequence[Acl]
    ) -> None:
        super().__init__(ports, journal, chance)
        self._name = name
        self._free = [*pool]
        self._groups: dict[Acl, frozenset[Acl]] = {}
        self._doubtful: list[Acl] = []
        """Markers of groups of which it is not known whether they exist."""
        self._numbers = count()

    def work(self) -> None:
        with closing(self.connect()) as connection:
            while not self.ends.is_set():
                if self._doubtful:
                    self._delete(connection, self._doubtful[0])
                elif (old := self.find_old()) and (not self._free or self.chance.random() < 0.5):
                    self._delete(connection, self.chance.choice(old))
                else:
                    self._create(connection)
                self.pause()

    def find_old(self) -> list[Acl]:
        """Return the markers of the groups that may be deleted."""
        return [*self._groups]

    def judge(self, errors: Sequence[ApiError | None]) -> Outcome:
        """Return what the errors of all items say."""
        codes = {None if error is None else error.code for error in errors}
        if codes & _IN_DOUBT:
            return Outcome.IN_DOUBT
        if codes == {None}:
            return Outcome.ACKNOWLEDGED
        if codes <= REFUSED:
            return Outcome.REFUSED
        raise UnexpectedAnswerError(f"an update was answered by {errors}")

    def _create(self, connection: KafkaConnection) -> None:
        marker = acl("User:marker", topic=f"marker-{self._name}-{next(self._numbers)}")
        self.chance.shuffle(self._free)
        chosen = [self._free.pop() for _ in range(self.chance.randint(1, _GROUP_MAX)) if self._free]
        update = self._enter(marker, frozenset((*chosen, marker)), is_deletion=False)
        self._doubtful.append(marker)
        try:
            errors = connection.create(*chosen, marker)
            update.outcome = self.judge(errors)
        finally:
            update.answered = time.monotonic()
        if update.outcome is not Outcome.IN_DOUBT:
            self._doubtful.remove(marker)
        if update.outcome is Outcome.ACKNOWLEDGED:
            self.served = update.sent
        elif update.outcome is Outcome.REFUSED:
            self._forget(marker)

    def _delete(self, connection: KafkaConnection, marker: Acl) -> None:
        group = self._groups[marker]
        update = self._enter(marker, group, is_deletion=True)
        if marker not in self._doubtful:
            self._doubtful.append(marker)
        try:
            results = connection.delete(*map(exact_filter, sorted(group, key=marker.__eq__)))
            matches = [match for result in results for match in result.matches]
            update.found = frozenset(match.acl for match in matches)
            errors = [*(each.error for each in results), *(each.error for each in matches)]
            update.outcome = self.judge(errors)
        finally:
            update.answered = time.monotonic()
        if update.outcome is Outcome.ACKNOWLEDGED:
            self.served = update.sent
            self._doubtful.remove(marker)
            self._forget(marker)

    def _enter(self, marker: Acl, group: frozenset[Acl], *, is_deletion: bool) -> Update:
        self._groups[marker] = group
        update = Update(
            marker=marker,
            acls=group,
            is_deletion=is_deletion,
            sent=time.monotonic(),
            shown_within=self.shown_within,
        )
        self.journal.updates.append(update)
        return update

    def _forget(self, marker: Acl) -> None:
        self._free += self._groups.pop(marker) - {marker}


class ClusterUpdater(Updater):
    """Create and delete groups of ACLs at the active controller.

    It deletes no group that a broker may not have yet: a broker that learns of a creation and of
    its deletion at once applies neither, but it may show what was changed between them.

    Args:
        shown_within: how long after an acknowledgement the daemon may decide without the update.
    """

    def __init__(
        self,
        ports: Ports,
        journal: Journal,
        chance: random.Random,
        pool: Sequence[Acl],
        cluster: Cluster,
        shown_within: float,
    ) -> None:
        super().__init__(ports, journal, chance, "cluster", pool)
        self._cluster = cluster
        self._created: dict[Acl, float] = {}
        self.shown_within = shown_within

    def connect(self, user: str = broker.ADMIN) -> KafkaConnection:
        """Connect to the active controller, after a pause."""
        self.pause()
        password = self._cluster.settings.node.users[user]
        nodes = [each for each in self._cluster.controllers if each.process.can_answer]
        self.chance.shuffle(nodes)
        for node in nodes:
            connection = KafkaConnection(node.address, user, password, seconds_max=SECONDS_MAX)
            try:
                [result] = connection.delete(_NOTHING)
                if result.error is None:
                    return connection
            except BaseException:
                connection.close()
                raise
            connection.close()
        raise ConnectionRefusedError("no controller is active")

    def pause(self) -> None:
        self.ends.wait(self.chance.uniform(*_CLUSTER_PAUSE_SECONDS))

    def find_old(self) -> list[Acl]:
        now, found = time.monotonic(), super().find_old()
        self._created = {each: self._created.get(each, now) for each in found}
        return [each for each in found if self._created[each] < now - _OLD_SECONDS]

    def judge(self, errors: Sequence[ApiError | None]) -> Outcome:
        """Return what the errors of all items say.

        Raises:
            ConnectionAbortedError: the controller is no longer active, so the outcome is in doubt.
        """
        if any(error is not None and error.code == ErrorCode.NOT_CONTROLLER for error in errors):
            raise ConnectionAbortedError("the controller is no longer active")
        return super().judge(errors)
