"""The clients of a soak: each sends one kind of request, and checks each answer.

**Invariant:** every decision in an answer is compared with the history. Only these may end an
exchange without that, and all are counted: a worker that was killed a moment ago, a search that is
refused because others wait, a moment of the past that is no longer kept or not yet in the copy, and
a watch that cannot resume.
"""

from __future__ import annotations

import json
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection
from random import Random
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import urlencode

from authorizerd.acl.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Question,
    ResourceType,
)
from authorizerd.protocol.decisions.stream import ALLOWED, DENIED, StreamQuestion
from authorizerd.protocol.kafka.error_codes import ApiError
from tests.daemon.opa_requests import PATH as OPA_PATH
from tests.daemon.opa_requests import asked as opa_asked
from tests.oracles.scan import decide
from tests.soak.history import WrongAnswerError
from tests.soak.sites import Site
from tests.soak.universe import TOPIC_OPERATIONS, TOPICS, USERS, is_hot, make_question
from tests.support.acl_events import AclCopy, EventReader, shown
from tests.support.certificates import connect_tls
from tests.support.daemon_process import connect
from tests.support.kafka_connection import KafkaConnection
from tests.support.stream_connection import StreamConnection

_OK: Final = 200
_GONE: Final = 410

Connection = TypeVar("Connection", bound="Closeable")


class RefusedError(Exception):
    """The daemon has refused a request for a reason that may occur: the text is what is counted."""


class Closeable(Protocol):
    def close(self) -> None: ...


class Client(ABC):
    """A client that one thread drives.

    Attributes:
        name: what it is called in the report.
        pause_seconds: the mean time between two exchanges.
        has_worker: True if a worker may serve its connection.
    """

    name: str
    pause_seconds: float
    has_worker = True

    def __init__(self, site: Site, random: Random) -> None:
        self.site = site
        self.random = random
        self.opened: list[Closeable] = []

    @abstractmethod
    def exchange(self) -> None:
        """Send a request, and check the answer.

        Raises:
            WrongAnswerError: the answer is wrong.
            RefusedError: there is none, for a reason that may occur.
            OSError, HTTPException: the connection has ended.
        """

    def close(self) -> None:
        """Close what is open. The next exchange opens a connection again."""
        while self.opened:
            self.opened.pop().close()


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


class HttpClient(Connected[HTTPConnection]):
    """A client of the decision port."""

    def connect(self) -> HTTPConnection:
        return self.site.http()

    def send(self, method: str, path: str, body: object = None) -> bytes:
        """Return the body of the answer, which must have status 200."""
        data = None if body is None else json.dumps(body).encode()
        self.connection.request(method, path, data, self.site.http_headers)
        response = self.connection.getresponse()
        answer = response.read()
        if response.status != _OK:
            text = answer.decode(errors="replace").strip()
            if response.status == 503 and "search" in text:
                raise RefusedError("too many searches")
            if response.status == 400 and "too old" in text:
                raise RefusedError("no longer kept")
            if response.status == 503 and "the files of the log end" in text:
                raise RefusedError("not in the copy yet")
            raise WrongAnswerError(f"{path}: status {response.status}: {text[:300]}")
        return answer

    def post(self, path: str, body: object) -> Any:  # noqa: ANN401 - whatever JSON holds
        return json.loads(self.send("POST", path, body))


def as_evaluation(question: Question, **context: object) -> dict[str, Any]:
    """Return AuthZEN's document of a question."""
    if question.host is not None:
        context["host"] = question.host
    return {
        "subject": {"type": "user", "id": question.principal.removeprefix("User:")},
        "action": {"name": Operation(question.operation).name.lower()},
        "resource": {
            "type": ResourceType(question.resource_type).name.lower(),
            "id": question.resource_name,
        },
        "context": context,
    }


class Evaluations(HttpClient):
    """AuthZEN's single questions; one in five asks for an explanation, too."""

    name, pause_seconds = "evaluation", 0.03

    def exchange(self) -> None:
        question = make_question(self.random)
        more = {"explain": True} if self.random.random() < 0.05 else {}
        floor = self.site.history.floor
        answer = self.post("/access/v1/evaluation", as_evaluation(question, **more))
        context = answer["context"]
        self.site.history.check_decisions(
            floor, context["offset"], [question], [answer["decision"]]
        )
        if more and context["explanation"]["decision"] is not answer["decision"]:
            raise WrongAnswerError(f"{question}: the explanation contradicts the decision")


class Batches(HttpClient):
    """AuthZEN's batches: one offset for all items."""

    name, pause_seconds = "batch", 0.15

    def exchange(self) -> None:
        questions = [make_question(self.random) for _ in range(self.random.randint(2, 20))]
        floor = self.site.history.floor
        answer = self.post(
            "/access/v1/evaluations", {"evaluations": [as_evaluation(each) for each in questions]}
        )
        items = answer["evaluations"]
        offsets = {each["context"]["offset"] for each in items}
        if len(offsets) != 1:
            raise WrongAnswerError(f"a batch was decided at the offsets {sorted(offsets)}")
        decisions = [each["decision"] for each in items]
        self.site.history.check_decisions(floor, offsets.pop(), questions, decisions)


class OpaQuestions(HttpClient):
    """The questions of Kafka's OPA plugin. Answers have no offset; the token is in the URL."""

    name, pause_seconds = "opa", 0.06

    def exchange(self) -> None:
        question = make_question(self.random)
        while question.host is None:
            question = make_question(self.random)
        user = question.principal.removeprefix("User:")
        body = opa_asked(
            ("requestContext.principal", {"principalType": "User", "name": user}),
            ("requestContext.clientAddress", f"/{question.host}"),
            ("action.operation", Operation(question.operation).name),
            ("action.resourcePattern.resourceType", ResourceType(question.resource_type).name),
            ("action.resourcePattern.name", question.resource_name),
        )
        token = self.site.token
        path = OPA_PATH if token is None else f"{OPA_PATH}?{urlencode({'token': token})}"
        floor = self.site.history.floor
        answer = self.post(path, body)
        self.site.history.check_decisions(floor, None, [question], [answer["result"]])


class Explanations(HttpClient):
    """Explanations of single questions."""

    name, pause_seconds = "explain", 0.5

    def exchange(self) -> None:
        question = make_question(self.random)
        floor = self.site.history.floor
        answer = self.post("/v1/explain", as_evaluation(question))
        self.site.history.check_decisions(floor, answer["offset"], [question], [answer["decision"]])


class ActionSearches(HttpClient):
    """What may a user do to a topic? The result must be complete, and nothing more."""

    name, pause_seconds = "search action", 0.4

    def exchange(self) -> None:
        user, topic = self.random.choice(USERS), self.random.choice(TOPICS)
        body = as_evaluation(Question(user, "10.0.0.1", Operation.READ, ResourceType.TOPIC, topic))
        del body["action"]
        floor = self.site.history.floor
        answer = self.post("/access/v1/search/action", body)
        found = {each["name"] for each in answer["results"]}
        asked = [
            Question(user, "10.0.0.1", each, ResourceType.TOPIC, topic) for each in TOPIC_OPERATIONS
        ]
        decisions = [each.name.lower() in found for each in TOPIC_OPERATIONS]
        self.site.history.check_decisions(floor, answer["context"]["offset"], asked, decisions)


class SubjectSearches(HttpClient):
    """Who may do something to a topic? A user who is not listed may do what everyone may."""

    name, pause_seconds = "search subject", 0.6

    def exchange(self) -> None:
        operation, topic = self.random.choice(TOPIC_OPERATIONS), self.random.choice(TOPICS)
        asked = [Question(each, "10.0.0.1", operation, ResourceType.TOPIC, topic) for each in USERS]
        body = as_evaluation(asked[0])
        body["subject"] = {"type": "user"}
        floor = self.site.history.floor
        answer = self.post("/access/v1/search/subject", body)
        context, found = answer["context"], {f"User:{each['id']}" for each in answer["results"]}
        if context.get("everyone"):
            found |= {*USERS} - {f"User:{each}" for each in context.get("everyone_except", ())}
        decisions = [user in found for user in USERS]
        self.site.history.check_decisions(floor, context["offset"], asked, decisions)


class Watches(HttpClient):
    """Keep a copy of all ACLs by a listing, and by watches that resume where the last one ended."""

    name, pause_seconds = "watch", 1.0
    _LISTED_SHARE = 0.1

    def __init__(self, site: Site, random: Random) -> None:
        super().__init__(site, random)
        self._copy: AclCopy | None = None

    def exchange(self) -> None:
        floor = self.site.history.floor
        copy, self._copy = self._copy, None  # after an error, the copy is not used again
        if copy is None or self.random.random() < self._LISTED_SHARE:
            copy = AclCopy()
            copy.begin_with(self.send("GET", "/v1/acls"))
        else:
            self._follow(copy, floor)
        self._compare(floor, copy)
        self._copy = copy

    def _follow(self, copy: AclCopy, offset: int) -> None:
        """Apply the changes up to ``offset``, which are acknowledged, so they come at once."""
        path = f"/v1/watch?after={copy.offset}"
        self.connection.request("GET", path, headers=self.site.http_headers)
        response = self.connection.getresponse()
        if response.status == _GONE:
            self.close()
            raise RefusedError("the watch cannot resume")
        if response.status != _OK:
            raise WrongAnswerError(f"{path}: status {response.status}: {response.read()!r}")
        reader = EventReader()
        while copy.offset < offset:
            data = response.read1(1 << 16)
            if not data:
                raise ConnectionResetError("the watch has ended")
            for event in reader.receive(data):
                if event.name == "acls":
                    copy.apply(event)
        self.close()  # a watch has no end

    def _compare(self, floor: int, copy: AclCopy) -> None:
        found = sorted(map(repr, (each for each in copy.acls.values() if _is_shown_hot(each))))

        def find_fault(acls: frozenset[Acl]) -> str | None:
            expected = sorted(repr(shown(each)) for each in acls)
            return None if found == expected else f"expected {expected}, found {found}"

        self.site.history.check(floor, copy.offset, find_fault)


def _is_shown_hot(acl: dict[str, str]) -> bool:
    return not acl["resource_name"].startswith("ballast-")


class PastQuestions(HttpClient):
    """Questions about an earlier offset, which has exactly one right answer."""

    name, pause_seconds = "past", 0.5

    def exchange(self) -> None:
        history = self.site.history
        offset = max(history.oldest.offset, history.floor - self.random.randint(0, 300))
        state = history.state_at(offset)
        question = make_question(self.random)
        answer = self.post("/access/v1/evaluation", as_evaluation(question, as_of=offset))
        expected, _ = decide(state.acls, allow_everyone=False, question=question)
        if answer["decision"] is not expected:
            raise WrongAnswerError(f"expected {expected} for {question} as of {offset}: {answer}")


class Pages(HttpClient):
    """The pages of the console."""

    name, pause_seconds, has_worker = "console", 1.0, False
    _TOPIC = {"resource_type": "TOPIC", "operation": "READ", "resource_name": TOPICS[0]}

    def connect(self) -> HTTPConnection:
        return self.site.admin()

    def exchange(self) -> None:
        pages = [
            ("", {}),
            ("live", {}),
            ("who", self._TOPIC),
            ("what", {**self._TOPIC, "principal": USERS[0]}),
            ("explain", {**self._TOPIC, "principal": USERS[0]}),
            ("static/console.css", {}),
        ]
        if self.site.token is not None:  # without tokens, nobody may list ACLs
            pages += [
                ("acls", {"search": "hot"}),
                ("acls", {"search": "ballast-001", "sort": "resource_name"}),
            ]
        page, fields = self.random.choice(pages)
        self.send("GET", f"/console/{page}?{urlencode(fields)}")


class Scrapes(HttpClient):
    """Prometheus, and the probes of an orchestrator."""

    name, pause_seconds, has_worker = "metrics", 1.0, False

    def connect(self) -> HTTPConnection:
        return self.site.admin()

    def exchange(self) -> None:
        for path in ("/metrics", "/readyz", "/healthz"):
            self.send("GET", path)


class StreamQuestions(Connected[StreamConnection]):
    """Frames of the decision stream; some require the newest offset that is known."""

    name, pause_seconds = "stream", 0.05

    def connect(self) -> StreamConnection:
        return self.site.stream()

    def exchange(self) -> None:
        questions = [make_question(self.random) for _ in range(self.random.randint(1, 20))]
        floor = self.site.history.floor
        min_offset = -1
        if self.random.random() < 0.1:
            min_offset = floor = self.site.history.promised
        answer = self.connection.ask(
            *(as_stream_question(each) for each in questions), min_offset=min_offset
        )
        if answer.error_code or set(answer.decisions) - {ALLOWED, DENIED}:
            raise WrongAnswerError(f"error {answer.error_code}, decisions {answer.decisions!r}")
        decisions = [each == ALLOWED for each in answer.decisions]
        self.site.history.check_decisions(floor, answer.offset, questions, decisions)


def as_stream_question(question: Question) -> StreamQuestion:
    return (
        question.principal,
        question.host,
        question.operation,
        question.resource_type,
        question.resource_name,
    )


class Descriptions(Connected[KafkaConnection]):
    """Kafka's DescribeAcls: of one topic, or of everything."""

    name, pause_seconds, has_worker = "describe", 0.3, False
    listener = "PLAINTEXT"

    def connect(self) -> KafkaConnection:
        return self.site.kafka(self.listener)

    def exchange(self) -> None:
        is_whole = self.random.random() < 0.1
        name = None if is_whole else self.random.choice(TOPICS)
        pattern = PatternType.ANY if is_whole else PatternType.LITERAL
        wanted = AclFilter(resource_name=name, pattern_type=pattern)
        floor = self.site.history.floor
        found = self.connection.describe(wanted=wanted)
        if isinstance(found, ApiError):
            raise WrongAnswerError(f"DescribeAcls: {found}")
        self._check(floor, found, name)

    def _check(self, floor: int, found: Sequence[Acl], name: str | None) -> None:
        hot = {each for each in found if is_hot(each)}
        if name is None:
            ballast = sum(each.resource_name.startswith("ballast-") for each in found)
            if ballast != self.site.ballast:
                raise WrongAnswerError(f"expected {self.site.ballast} fixed ACLs, found {ballast}")

        def find_fault(acls: frozenset[Acl]) -> str | None:
            expected = {
                each
                for each in acls
                if name is None
                or (each.resource_name == name and each.pattern_type == PatternType.LITERAL)
            }
            return None if hot == expected else f"expected {expected}, found {hot}"

        self.site.history.check(floor, None, find_fault)


class SecureDescriptions(Descriptions):
    """The same over TLS."""

    name, pause_seconds, listener = "describe over TLS", 0.6, "SECURE"


class Nuisance(Client):
    """Clients that break off, hold half a request open, send nothing, or use the wrong protocol."""

    name, pause_seconds = "nuisance", 0.2
    _HELD_MAX = 12
    _BEGINNINGS = (
        b"",
        b"POST /access/v1/evaluation HTTP/1.1\r\nHost: localhost\r\nCont",
        b"\0\0\0\x40\0\x12",  # a frame of Kafka or of the stream
    )

    def exchange(self) -> None:
        ready = self.site.ready
        ports = [ready["decision_http"], ready["decision_stream"], ready["admin_http"]]
        port = self.random.choice([*ports, *ready["listeners"].values()])
        is_secure = self.site.context is not None and port not in (
            ready["admin_http"],
            ready["listeners"]["PLAINTEXT"],
        )
        is_rude = self.random.random() < 0.3
        if is_secure and not is_rude:
            assert self.site.context is not None
            connection: socket.socket = connect_tls(port, self.site.context)
        else:
            connection = connect(port)
        try:
            # The daemon may refuse garbage, and end the connection, before all of it is sent.
            with suppress(ConnectionError):
                connection.sendall(self.random.choice(self._BEGINNINGS))
        except BaseException:
            connection.close()
            raise
        if is_rude:  # the kernel then sends RST
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        else:
            self.opened.append(connection)
            if len(self.opened) > self._HELD_MAX:
                self.opened.pop(0).close()


class SlowEvaluations(HttpClient):
    """A question whose bytes arrive in small pieces."""

    name, pause_seconds = "slow evaluation", 0.5

    def exchange(self) -> None:
        question = make_question(self.random)
        data = json.dumps(as_evaluation(question)).encode()
        floor = self.site.history.floor
        self.connection.putrequest("POST", "/access/v1/evaluation")
        for name, value in self.site.http_headers.items():
            self.connection.putheader(name, value)
        self.connection.putheader("Content-Length", str(len(data)))
        self.connection.endheaders()
        for begin in range(0, len(data), 16):
            self.connection.send(data[begin : begin + 16])
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        self.site.history.check_decisions(
            floor, answer["context"]["offset"], [question], [answer["decision"]]
        )


CLIENTS: Final[tuple[type[Client], ...]] = (
    Evaluations,
    Batches,
    OpaQuestions,
    Explanations,
    ActionSearches,
    SubjectSearches,
    PastQuestions,
    Pages,
    Scrapes,
    StreamQuestions,
    Descriptions,
    Nuisance,
    SlowEvaluations,
)
"""What asks every daemon."""
