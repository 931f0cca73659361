"""What all clients of the fleet have: one thread, connections that it may lose, and a tally.

**Invariant:** each decision in an answer is given to the judge. Only a ``RefusedError`` and a
connection that may be cut off end an exchange without that, and both are counted.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import count
from random import Random
from ssl import SSLContext
from threading import Event, Thread
from typing import Any, Final, Generic, Protocol, TypeVar

from authorizerd.acl.model import Question
from tests.end_to_end.worker_processes import children
from tests.fleet.journal import Answer, Listing
from tests.fleet.universe import DAEMON
from tests.support.forked_command import StartedCommand
from tests.support.kafka_connection import KafkaConnection
from tests.support.stream_connection import StreamConnection

PASSWORD: Final = "secret of the fleet"
"""That of all users who log in with PLAIN at once."""
CLOSED_SHARE: Final = 0.02
"""How often a client closes its connection after an answer, and opens another one."""

Connection = TypeVar("Connection", bound="Closeable")


class WrongAnswerError(Exception):
    """An answer that no state and no fault explains."""


class RefusedError(Exception):
    """The daemon has refused a request for a reason that may occur: the text is what is counted."""


class Closeable(Protocol):
    def close(self) -> None: ...


class Judge(Protocol):
    """Compares answers with the states of the log, at once or later."""

    def begin(self) -> float:
        """Return a moment, just before a request is sent."""

    def take(self, told: Answer | Listing) -> None:
        """Compare what has just arrived, or raise WrongAnswerError if no state explains it."""


class Place:
    """A daemon, where clients connect.

    Attributes:
        process: that of the daemon; it may be another one each time.
        ready: the addresses of the daemon's ports, as its ready file has them.
        token: for the decision ports and the console, or None.
        user: who logs in to the listener PLAINTEXT, or None.
        context: of TLS, or None.
        ballast: the number of ACLs that do not change; None if there are none that count.
        may_refuse: whether the daemon may say that it cannot serve a request now.
        seconds_max: how long a client waits for an answer.
    """

    judge: Judge
    process: StartedCommand
    ready: Mapping[str, Any]
    token: str | None = None
    user: str | None = None
    context: SSLContext | None = None
    ballast: int | None = None
    may_refuse = False
    seconds_max: float

    @property
    def process_id(self) -> int:
        return self.process.pid

    @property
    def workers(self) -> list[int]:
        """The process ids of the workers, the oldest one first; none if the daemon has ended."""
        with suppress(FileNotFoundError, ProcessLookupError):
            return sorted(children(self.process_id))
        return []

    @property
    def http_headers(self) -> dict[str, str]:
        bearer = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        return {"Content-Type": "application/json", **bearer}

    def allows(self, status: int, text: str) -> str | None:
        """Return the reason for which this answer over HTTP may come, None if it may not."""

    def draw_question(self, chance: Random) -> Question:
        return DAEMON.draw_question(chance)

    def http(self) -> HTTPConnection:
        """Return a connection to the decision port that connects again after ``close``."""
        address = self.ready["decision_http"]
        if self.context is None:
            return HTTPConnection(address, timeout=self.seconds_max)
        return HTTPSConnection(address, timeout=self.seconds_max, context=self.context)

    def stream(self, token: str | None = None) -> StreamConnection:
        """Return a connection that has presented the place's token, or this one."""
        token = self.token if token is None else token
        return StreamConnection(
            self.ready["decision_stream"], token, self.context, seconds_max=self.seconds_max
        )

    def kafka(
        self,
        listener: str = "PLAINTEXT",
        context: SSLContext | None = None,
        user: str | None = None,
    ) -> KafkaConnection:
        """Return a connection to a listener; ``context`` may have a client's certificate."""
        address, seconds_max = self.ready["listeners"][listener], self.seconds_max
        if listener == "PLAINTEXT":
            user = user or self.user
            return KafkaConnection(address, user, PASSWORD, seconds_max=seconds_max)
        return KafkaConnection(address, context=context or self.context, seconds_max=seconds_max)


@dataclass
class Tally:
    """The results of one client's exchanges."""

    seconds: array[float] = field(default_factory=lambda: array("f"))
    """The time of each exchange that was answered."""
    cut: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    served: float = 0.0
    """When the last exchange began that was answered."""


_numbers: Final = count(1)


class Client(ABC):
    """A client that one thread drives.

    Attributes:
        name: what it is called in the report.
        pause_seconds: the mean time between two exchanges.
        has_worker: True if a worker may serve its connection.
        number: that of its newest connection; no other client's has it.
    """

    name: str
    pause_seconds: float
    has_worker = True

    def __init__(self, site: Place, random: Random) -> None:
        self.site = site
        self.random = random
        self.tally = Tally()
        self.number = next(_numbers)
        self.opened: list[Closeable] = []

    @abstractmethod
    def exchange(self) -> None:
        """Send a request, and give the answer to the judge.

        Raises:
            WrongAnswerError: the answer is wrong.
            RefusedError: there is none, for a reason that may occur.
            OSError, HTTPException: the connection has ended.
        """

    def close(self) -> None:
        """Close what is open. The next exchange opens a connection again."""
        self.number = next(_numbers)
        while self.opened:
            self.opened.pop().close()

    def attempt(self, may_be_cut: Callable[[Client], bool]) -> str | None:
        """Make one exchange, count what comes of it, and return what is wrong.

        ``may_be_cut``: whether the client's connection may have ended just now.
        """
        begun = time.monotonic()
        fault = None
        try:
            self.exchange()
            self.tally.seconds.append(time.monotonic() - begun)
            self.tally.served = begun
            if self.random.random() > CLOSED_SHARE:
                return None
        except WrongAnswerError as error:
            fault = str(error)
        except RefusedError as error:  # the daemon ends new connections that get only errors
            self.tally.refused[str(error)] += 1
        except Exception as error:  # noqa: BLE001 - who drives the client reports it
            # The blocking clients of the tests raise AssertionError if a connection ends.
            is_cut = isinstance(error, OSError | HTTPException | AssertionError)
            if is_cut and may_be_cut(self):
                self.tally.cut += 1
            else:
                fault = repr(error)
        self.close()
        return fault

    def judge(
        self, begun: float, offset: int | None, asked: Sequence[Question], decisions: Sequence[bool]
    ) -> None:
        answer = Answer(
            surface=self.name, connection=self.number, questions=tuple(asked),
            decisions=tuple(decisions), sent=begun, offset=offset,
        )  # fmt: skip
        self.site.judge.take(answer)


class Connected(Client, Generic[Connection]):
    """A client with one connection, which lasts for several exchanges."""

    @abstractmethod
    def connect(self) -> Connection:
        """Return a new connection."""

    @property
    def connection(self) -> Connection:
        if not self.opened:
            self._connection = self.connect()
            self.opened.append(self._connection)
        return self._connection


@contextmanager
def working(
    clients: Sequence[Client],
    report: Callable[[Client, str], None],
    may_be_cut: Callable[[Client], bool],
) -> Iterator[Sequence[Client]]:
    """Let clients work in threads until the block ends.

    Args:
        report: takes what is wrong; each thread calls it.
        may_be_cut: whether a client's connection may have ended just now.
    """
    ended = Event()

    def drive(client: Client) -> None:
        while not ended.wait(client.random.expovariate(1 / client.pause_seconds)):
            if (fault := client.attempt(may_be_cut)) is not None:
                report(client, fault)
        client.close()

    threads = [Thread(target=drive, args=(each,)) for each in clients]
    for thread in threads:
        thread.start()
    try:
        yield clients
    finally:
        ended.set()
        for thread in threads:
            thread.join()
