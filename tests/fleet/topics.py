"""Clients of Kafka's Metadata: a user sees only the topics that it may describe."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from random import Random
from ssl import SSLContext
from typing import Final

from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.fleet.client import Client, Connected, RefusedError, WrongAnswerError
from tests.fleet.ports import Ports
from tests.fleet.universe import DAEMON
from tests.support.acls import question
from tests.support.kafka_connection import KafkaConnection

_DECISIONS: Final[Mapping[int, bool]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: True,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: False,
}


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
    site: Ports

    def connect(self) -> KafkaConnection:
        self._user = self.random.choice(DAEMON.askers)
        return self.site.kafka(user=self._user)

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
    site: Ports

    def __init__(
        self,
        site: Ports,
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
        with closing(self.site.kafka_tls(self._certificates[user])) as connection:
            ask_topics(self, connection, user)
        try:
            with closing(self.site.kafka_tls(self._expired)) as connection:
                answer = connection.metadata(*DAEMON.topics)
        except (OSError, AssertionError):
            self.refused += 1
        else:
            raise WrongAnswerError(f"with an expired certificate: {answer}")
