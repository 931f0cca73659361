"""The ports of a daemon that faults end again and again; clients give up soon there."""

from __future__ import annotations

from dataclasses import dataclass
from http.client import HTTPConnection
from random import Random
from ssl import SSLContext
from typing import Final

from authorizerd.acl.model import Question
from tests.fleet.journal import Journal
from tests.fleet.universe import DAEMON
from tests.support.acls import question
from tests.support.kafka_connection import KafkaConnection
from tests.support.stream_connection import StreamConnection

SECONDS_MAX: Final = 3.0
"""How long a client waits for an answer."""
ADMIN: Final = "admin"
PASSWORD: Final = "secret of the chaos"
QUESTIONS: Final = [
    question(user, operation, topic=topic, host="127.0.0.1")
    for user in DAEMON.askers
    for topic in DAEMON.topics
    for operation in ("READ", "WRITE", "DESCRIBE")
]


@dataclass(kw_only=True)
class Ports:
    """Where the daemon listens, as ``host:port``. ``token`` opens the decision ports."""

    plain: str
    secure: str
    decision_http: str
    decision_stream: str
    token: str | None
    judge: Journal
    ballast: int | None = None
    may_refuse: bool = True

    @property
    def numbers(self) -> list[int]:
        """The port numbers."""
        addresses = (self.plain, self.secure, self.decision_http, self.decision_stream)
        return [int(each.rpartition(":")[2]) for each in addresses]

    @property
    def http_headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}

    def allows(self, status: int, text: str) -> str | None:
        return "HTTP: not ready" if status == 503 else None

    def http(self) -> HTTPConnection:
        return HTTPConnection(self.decision_http, timeout=SECONDS_MAX)

    def stream(self, token: str | None = None) -> StreamConnection:
        return StreamConnection(self.decision_stream, token or self.token, seconds_max=SECONDS_MAX)

    def kafka(self, listener: str = "PLAINTEXT", user: str = f"User:{ADMIN}") -> KafkaConnection:
        name = user.removeprefix("User:")
        return KafkaConnection(self.plain, name, PASSWORD, seconds_max=SECONDS_MAX)

    def kafka_tls(self, context: SSLContext) -> KafkaConnection:
        return KafkaConnection(self.secure, context=context, seconds_max=SECONDS_MAX)

    def draw_question(self, chance: Random) -> Question:
        return chance.choice(QUESTIONS)
