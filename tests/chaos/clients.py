"""The clients that only chaos has.

Some change ACLs, through the daemon or in the cluster that it follows. Others ask Kafka's Metadata:
a user sees only the topics that it may describe.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import count
from random import Random
from ssl import SSLContext
from typing import Final

from authorizerd.acl.model import Acl
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.chaos.supervised_daemon import SupervisedDaemon
from tests.fleet.client import Client, Connected, RefusedError, WrongAnswerError
from tests.fleet.clients import UNSERVED
from tests.fleet.journal import Outcome, Update
from tests.fleet.universe import DAEMON
from tests.kafka_rig import broker
from tests.kafka_rig.cluster import Cluster
from tests.support.acls import acl, exact_filter, question
from tests.support.kafka_connection import KafkaConnection

_GROUP_MAX: Final = 3
_IN_DOUBT: Final = frozenset(
    (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR)
)
_OLD_SECONDS: Final = 40.0
_NOTHING: Final = exact_filter(acl("User:nobody", topic="nothing"))
_DECISIONS: Final[Mapping[int, bool]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: True,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: False,
}


class Updater(Connected[KafkaConnection]):
    """Create and delete groups of ACLs.

    Args:
        name: no other client may have it.
        pool: the ACLs of its groups; no other client changes them.

    ``shown_within`` is that of its updates.
    """

    name, pause_seconds, has_worker = "change", 0.01, False
    shown_within = 0.0
    site: SupervisedDaemon

    def __init__(
        self, site: SupervisedDaemon, random: Random, name: str, pool: Sequence[Acl]
    ) -> None:
        super().__init__(site, random)
        self._name = name
        self._free = [*pool]
        self._groups: dict[Acl, frozenset[Acl]] = {}
        self._doubtful: list[Acl] = []
        """Markers of groups of which it is not known whether they exist."""
        self._numbers = count()

    def connect(self) -> KafkaConnection:
        return self.site.kafka()

    def exchange(self) -> None:
        connection = self.connection
        if self._doubtful:
            outcome = self._delete(connection, self._doubtful[0])
        elif (old := self.find_old()) and (not self._free or self.random.random() < 0.5):
            outcome = self._delete(connection, self.random.choice(old))
        else:
            outcome = self._create(connection)
        if outcome is not Outcome.ACKNOWLEDGED:
            raise RefusedError(f"update {outcome.value}")

    def find_old(self) -> list[Acl]:
        """Return the markers of the groups that may be deleted."""
        return [*self._groups]

    def outcome_of(self, errors: Sequence[ApiError | None]) -> Outcome:
        """Return what the errors of all items say."""
        codes = {None if error is None else error.code for error in errors}
        if codes & _IN_DOUBT:
            return Outcome.IN_DOUBT
        if codes == {None}:
            return Outcome.ACKNOWLEDGED
        if codes <= UNSERVED:
            return Outcome.REFUSED
        raise WrongAnswerError(f"an update was answered by {errors}")

    def _create(self, connection: KafkaConnection) -> Outcome:
        marker = acl("User:marker", topic=f"marker-{self._name}-{next(self._numbers)}")
        self.random.shuffle(self._free)
        chosen = [self._free.pop() for _ in range(self.random.randint(1, _GROUP_MAX)) if self._free]
        update = self._enter(marker, frozenset((*chosen, marker)), is_deletion=False)
        self._doubtful.append(marker)
        try:
            errors = connection.create(*chosen, marker)
            update.outcome = self.outcome_of(errors)
        finally:
            update.answered = time.monotonic()
        if update.outcome is not Outcome.IN_DOUBT:
            self._doubtful.remove(marker)
        if update.outcome is Outcome.REFUSED:
            self._forget(marker)
        return update.outcome

    def _delete(self, connection: KafkaConnection, marker: Acl) -> Outcome:
        group = self._groups[marker]
        update = self._enter(marker, group, is_deletion=True)
        if marker not in self._doubtful:
            self._doubtful.append(marker)
        try:
            results = connection.delete(*map(exact_filter, sorted(group, key=marker.__eq__)))
            matches = [match for result in results for match in result.matches]
            update.found = frozenset(match.acl for match in matches)
            errors = [*(each.error for each in results), *(each.error for each in matches)]
            update.outcome = self.outcome_of(errors)
        finally:
            update.answered = time.monotonic()
        if update.outcome is Outcome.ACKNOWLEDGED:
            self._doubtful.remove(marker)
            self._forget(marker)
        return update.outcome

    def _enter(self, marker: Acl, group: frozenset[Acl], *, is_deletion: bool) -> Update:
        self._groups[marker] = group
        update = Update(
            marker=marker, acls=group, is_deletion=is_deletion, sent=time.monotonic(),
            shown_within=self.shown_within,
        )  # fmt: skip
        self.site.judge.updates.append(update)
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

    name, pause_seconds = "change in the cluster", 0.65

    def __init__(
        self,
        site: SupervisedDaemon,
        random: Random,
        pool: Sequence[Acl],
        cluster: Cluster,
        shown_within: float,
    ) -> None:
        super().__init__(site, random, "cluster", pool)
        self._cluster = cluster
        self._created: dict[Acl, float] = {}
        self.shown_within = shown_within

    def connect(self) -> KafkaConnection:
        """Connect to the active controller."""
        user, password = broker.ADMIN, self._cluster.settings.node.users[broker.ADMIN]
        nodes = [each for each in self._cluster.controllers if each.process.can_answer]
        self.random.shuffle(nodes)
        for node in nodes:
            connection = KafkaConnection(
                node.address, user, password, seconds_max=SupervisedDaemon.seconds_max
            )
            try:
                [result] = connection.delete(_NOTHING)
                if result.error is None:
                    return connection
            except BaseException:
                connection.close()
                raise
            connection.close()
        raise ConnectionRefusedError("no controller is active")

    def find_old(self) -> list[Acl]:
        now, found = time.monotonic(), super().find_old()
        self._created = {each: self._created.get(each, now) for each in found}
        return [each for each in found if self._created[each] < now - _OLD_SECONDS]

    def outcome_of(self, errors: Sequence[ApiError | None]) -> Outcome:
        """Return what the errors of all items say; ConnectionAbortedError leaves it in doubt."""
        if any(error is not None and error.code == ErrorCode.NOT_CONTROLLER for error in errors):
            raise ConnectionAbortedError("the controller is no longer active")
        return super().outcome_of(errors)


def ask_topics(client: Client, connection: KafkaConnection, user: str) -> None:
    """Ask for the metadata of all topics as this user, and judge the answer."""
    begun = client.site.judge.begin()
    topics = connection.metadata(*DAEMON.topics).topics
    if {each.error_code for each in topics} == {ErrorCode.AUTHORIZER_NOT_READY}:
        raise RefusedError("metadata: not ready")
    if not all(each.error_code in _DECISIONS for each in topics):
        raise WrongAnswerError(f"Metadata was answered by {topics}")
    client.judge(
        begun,
        None,
        [question(user, "DESCRIBE", topic=each.name, host="127.0.0.1") for each in topics],
        [_DECISIONS[each.error_code] for each in topics],
    )


class Topics(Connected[KafkaConnection]):
    """Metadata for a user who has logged in."""

    name, pause_seconds, has_worker = "metadata", 0.1, False
    site: SupervisedDaemon

    def connect(self) -> KafkaConnection:
        self._user = self.random.choice(DAEMON.askers)
        return self.site.kafka(user=self._user.removeprefix("User:"))

    def exchange(self) -> None:
        connection = self.connection  # it chooses the user
        ask_topics(self, connection, self._user)


class CertifiedTopics(Client):
    """The same over TLS, with a new connection and one of several certificates each time.

    Args:
        certificates: a client's TLS context for each user.
        expired: a context with a certificate that has expired, which must never be accepted.
    """

    name, pause_seconds, has_worker = "metadata over TLS", 0.1, False
    site: SupervisedDaemon

    def __init__(
        self,
        site: SupervisedDaemon,
        random: Random,
        certificates: Mapping[str, SSLContext],
        expired: SSLContext,
    ) -> None:
        super().__init__(site, random)
        self._certificates = certificates
        self._expired = expired
        self.refused = 0
        """How often the expired certificate was refused."""

    def exchange(self) -> None:
        user = self.random.choice(DAEMON.askers)
        with closing(self.site.kafka("SECURE", self._certificates[user])) as connection:
            ask_topics(self, connection, user)
        try:
            with closing(self.site.kafka("SECURE", self._expired)) as connection:
                answer = connection.metadata(*DAEMON.topics)
        except (OSError, AssertionError):
            self.refused += 1
        else:
            raise WrongAnswerError(f"with an expired certificate: {answer}")
