"""Clients that change ACLs and ask, all the time, and enter in the journal what they were told.

A client whose connection breaks, or that waits too long, connects again. What it knows for certain
is only what it was told.
"""

from __future__ import annotations

import json
import random
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from itertools import count
from ssl import SSLContext
from threading import Event
from typing import Final

from authorizerd.acl.model import Operation, Question
from authorizerd.protocol.decisions.stream import ALLOWED, DENIED, NOT_READY
from authorizerd.protocol.decisions.stream import Answer as StreamAnswer
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.chaos.journal import Answer, Journal, Listing
from tests.support.acls import acl, question
from tests.support.daemon_process import ask
from tests.support.kafka_connection import KafkaConnection
from tests.support.requests import stream_question
from tests.support.stream_connection import StreamConnection

SECONDS_MAX: Final = 3.0
"""How long a client waits for an answer."""
RETRY_SECONDS: Final = 0.1
ADMIN: Final = "admin"
PASSWORD: Final = "secret of the chaos"
USERS: Final = [f"u{number}" for number in range(4)]
TOPICS: Final = [f"t{number}" for number in range(6)]
OPERATIONS: Final = ("READ", "WRITE", "DESCRIBE")
POOL: Final = [
    *(acl(f"User:{user}", "READ", topic=topic) for user in USERS for topic in TOPICS),
    *(
        acl(f"User:{user}", "READ", topic=topic, deny=True)
        for user in USERS
        for topic in TOPICS[:3]
    ),
    *(acl(f"User:{user}", "WRITE", topic="t", pattern="PREFIXED") for user in USERS),
    acl("User:*", "DESCRIBE", topic="*"),
    acl("User:*", "ALL", topic="t5", deny=True),
    acl("User:*", "WRITE", topic="t4"),
]
"""The ACLs that come and go: together they decide each question differently."""

QUESTIONS: Final = [
    question(f"User:{user}", operation, topic=topic, host="127.0.0.1")
    for user in USERS
    for topic in TOPICS
    for operation in OPERATIONS
]
_EVALUATIONS: Final = "/access/v1/evaluations"
_FRAME: Final = 12
_FRAMES_MAX: Final = 20
"""How many a client sends without an answer."""
_PAUSE_SECONDS: Final = 0.02
REFUSED: Final = frozenset(
    (
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.AUTHORIZER_NOT_READY,
    )
)


class UnexpectedAnswerError(Exception):
    """An answer that no fault explains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Where the daemon listens, as ``host:port``. ``token`` opens the decision ports."""

    kafka: str
    tls: str
    http: str
    stream: str
    token: str

    @property
    def numbers(self) -> list[int]:
        """The port numbers."""
        addresses = (self.kafka, self.tls, self.http, self.stream)
        return [int(each.rpartition(":")[2]) for each in addresses]


class Client(ABC):
    """Work until ``ends`` is set, and connect again after each break.

    ``served`` is when the last request was sent that was answered well. ``counts`` has breaks and
    refusals, ``wrong`` the answers that no fault explains.
    """

    def __init__(self, ports: Ports, journal: Journal, chance: random.Random) -> None:
        self.served = 0.0
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.ports = ports
        self.journal = journal
        self.chance = chance
        self.ends = Event()

    def run(self) -> None:
        while not self.ends.is_set():
            try:
                self.work()
            except UnexpectedAnswerError as error:
                self.wrong.append(str(error))
            except (OSError, HTTPException, AssertionError):
                self.counts["connections that broke"] += 1
            self.ends.wait(RETRY_SECONDS)

    @abstractmethod
    def work(self) -> None:
        """Connect, and work until ``ends`` is set; raise an error if the connection breaks."""

    def pause(self) -> None:
        self.ends.wait(self.chance.uniform(0, _PAUSE_SECONDS))

    def connect(self, user: str = ADMIN) -> KafkaConnection:
        return KafkaConnection(self.ports.kafka, user, PASSWORD, seconds_max=SECONDS_MAX)


class StreamAsker(Client):
    """Ask questions over the decision stream; send some before earlier ones are answered."""

    def work(self) -> None:
        connection = StreamConnection(self.ports.stream, self.ports.token, seconds_max=SECONDS_MAX)
        with closing(connection):
            number = new_number()
            waiting: deque[tuple[float, list[Question]]] = deque()
            while not self.ends.is_set():
                if len(waiting) < _FRAMES_MAX:
                    asked = self.chance.sample(QUESTIONS, _FRAME)
                    waiting.append((time.monotonic(), asked))
                    connection.send(*map(stream_question, asked))
                self.pause()
                for answer in connection.answers():
                    self._enter(answer, number, *waiting.popleft())
                if waiting and waiting[0][0] < time.monotonic() - SECONDS_MAX:
                    raise TimeoutError

    def _enter(
        self, answer: StreamAnswer, number: int, sent: float, asked: Sequence[Question]
    ) -> None:
        answered = time.monotonic()
        if answer.error_code or NOT_READY in answer.decisions:
            self.counts["refused over the stream"] += 1
            return
        if not {*answer.decisions} <= {ALLOWED, DENIED}:
            raise UnexpectedAnswerError(f"the stream has answered {answer}")
        self.served = sent
        self.journal.answers.append(
            Answer(
                surface="the stream",
                connection=number,
                questions=tuple(asked),
                decisions=tuple(each == ALLOWED for each in answer.decisions),
                sent=sent,
                answered=answered,
                offset=answer.offset,
            )
        )


class HttpAsker(Client):
    """Ask questions over AuthZEN, one by one or several in a request."""

    def work(self) -> None:
        with closing(HTTPConnection(self.ports.http, timeout=SECONDS_MAX)) as connection:
            number = new_number()
            while not self.ends.is_set():
                self._ask(connection, number, self.chance.sample(QUESTIONS, 3))
                self.pause()

    def _ask(self, connection: HTTPConnection, number: int, asked: Sequence[Question]) -> None:
        body = json.dumps({"evaluations": [*map(_evaluation, asked)]}).encode()
        sent = time.monotonic()
        answer = ask(connection, "POST", _EVALUATIONS, body, _headers(self.ports.token))
        answered = time.monotonic()
        if answer.status == 503:
            self.counts["refused over HTTP"] += 1
            return
        if answer.status != 200:
            raise UnexpectedAnswerError(f"HTTP has answered {answer}")
        self.served = sent
        for one, evaluated in zip(asked, answer.json["evaluations"], strict=True):
            self.journal.answers.append(
                Answer(
                    surface="HTTP",
                    connection=number,
                    questions=(one,),
                    decisions=(evaluated["decision"],),
                    sent=sent,
                    answered=answered,
                    offset=evaluated["context"]["offset"],
                )
            )


class KafkaAsker(Client):
    """Ask for the metadata of topics as a user, who sees only those that it may describe."""

    _DECISIONS: Final[Mapping[int, bool]] = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: True,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: False,
    }

    def work(self) -> None:
        user = self.chance.choice(USERS)
        with closing(self.connect(user)) as connection:
            number = new_number()
            while not self.ends.is_set():
                self.ask(connection, number, user)
                self.pause()

    def ask(self, connection: KafkaConnection, number: int, user: str) -> None:
        sent = time.monotonic()
        topics = connection.metadata(*TOPICS).topics
        answered = time.monotonic()
        if {each.error_code for each in topics} == {ErrorCode.AUTHORIZER_NOT_READY}:
            self.counts["refused over Kafka"] += 1
            return
        if not all(each.error_code in self._DECISIONS for each in topics):
            raise UnexpectedAnswerError(f"Metadata was answered by {topics}")
        self.served = sent
        self.journal.answers.append(
            Answer(
                surface="Kafka",
                connection=number,
                questions=tuple(
                    question(f"User:{user}", "DESCRIBE", topic=each.name, host="127.0.0.1")
                    for each in topics
                ),
                decisions=tuple(self._DECISIONS[each.error_code] for each in topics),
                sent=sent,
                answered=answered,
            )
        )


class TlsAsker(KafkaAsker):
    """Ask over TLS, with a new connection and one of several client certificates each time.

    Args:
        certificates: a client's TLS context for each user.
        expired: a context with a certificate that has expired, which must never be accepted.
    """

    def __init__(
        self,
        ports: Ports,
        journal: Journal,
        chance: random.Random,
        certificates: Mapping[str, SSLContext],
        expired: SSLContext,
    ) -> None:
        super().__init__(ports, journal, chance)
        self._certificates = certificates
        self._expired = expired

    def work(self) -> None:
        while not self.ends.is_set():
            user = self.chance.choice(USERS)
            with closing(self._connect_tls(self._certificates[user])) as connection:
                self.ask(connection, new_number(), user)
            self._demand_a_refusal()
            self.pause()

    def _demand_a_refusal(self) -> None:
        try:
            with closing(self._connect_tls(self._expired)) as connection:
                answer = connection.metadata(*TOPICS)
        except (OSError, AssertionError):
            self.counts["requests with an expired certificate"] += 1
        else:
            raise UnexpectedAnswerError(f"with an expired certificate: {answer}")

    def _connect_tls(self, context: SSLContext) -> KafkaConnection:
        return KafkaConnection(self.ports.tls, context=context, seconds_max=SECONDS_MAX)


class Lister(Client):
    """List all ACLs."""

    def work(self) -> None:
        with closing(self.connect()) as connection:
            while not self.ends.is_set():
                sent = time.monotonic()
                acls = connection.describe()
                if isinstance(acls, ApiError):
                    if acls.code not in REFUSED:
                        raise UnexpectedAnswerError(f"DescribeAcls was answered by {acls}")
                    self.counts["refused listings"] += 1
                else:
                    listing = Listing(acls=frozenset(acls), sent=sent, answered=time.monotonic())
                    self.journal.listings.append(listing)
                    self.served = sent
                self.ends.wait(self.chance.uniform(0, 0.5))


class Intruder(Client):
    """Ask over HTTP and the stream with a wrong token, which must never be accepted."""

    def work(self) -> None:
        while not self.ends.is_set():
            sent = time.monotonic()
            wrong = f"{self.ports.token[:-1]}{'B' if self.ports.token[-1] == 'A' else 'A'}"
            self._demand_a_refusal_over_http(wrong)
            self._demand_a_refusal_over_the_stream(wrong)
            self.served = sent
            self.ends.wait(self.chance.uniform(0, 0.5))

    def _demand_a_refusal_over_http(self, token: str) -> None:
        body = json.dumps({"evaluations": [_evaluation(QUESTIONS[0])]}).encode()
        with closing(HTTPConnection(self.ports.http, timeout=SECONDS_MAX)) as connection:
            answer = ask(connection, "POST", _EVALUATIONS, body, _headers(token))
        if answer.status != 401:
            raise UnexpectedAnswerError(f"with a wrong token, HTTP has answered {answer}")
        self.counts["requests with a wrong token"] += 1

    def _demand_a_refusal_over_the_stream(self, token: str) -> None:
        connection = StreamConnection(self.ports.stream, token, seconds_max=SECONDS_MAX)
        connection.close()
        if not connection.greeting.error_code:
            raise UnexpectedAnswerError("the stream has accepted a wrong token")
        self.counts["requests with a wrong token"] += 1


_numbers = count(1)


def new_number() -> int:
    """Return a number for a connection that no other has."""
    return next(_numbers)


def _headers(token: str) -> dict[str, str]:
    return {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}


def _evaluation(asked: Question) -> dict[str, object]:
    return {
        "subject": {"type": "user", "id": asked.principal.removeprefix("User:")},
        "action": {"name": Operation(asked.operation).name},
        "resource": {"type": "topic", "id": asked.resource_name},
        "context": {"host": asked.host},
    }
