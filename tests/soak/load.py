"""The clients that only a soak has: each sends one kind of request, and checks each answer.

**Invariant:** every decision in an answer is compared with the history. Only these may end an
exchange without that, and all are counted: a worker that was killed a moment ago, a search that is
refused because others wait, a moment of the past that is no longer kept or not yet in the copy, and
a watch that cannot resume.
"""

from __future__ import annotations

import json
import socket
import struct
from contextlib import suppress
from http.client import HTTPConnection
from random import Random
from typing import Final
from urllib.parse import urlencode

from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from tests.daemon.opa_requests import PATH as OPA_PATH
from tests.daemon.opa_requests import asked as opa_asked
from tests.fleet.client import Client, RefusedError, WrongAnswerError
from tests.fleet.clients import (
    EVALUATION,
    Batches,
    Descriptions,
    Evaluations,
    Explanations,
    HttpClient,
    StreamQuestions,
)
from tests.fleet.universe import DAEMON
from tests.soak.sites import Site
from tests.support.acl_events import AclCopy, EventReader, shown
from tests.support.certificates import connect_tls
from tests.support.daemon_process import connect
from tests.support.requests import evaluation_of

_USERS, _TOPICS, _OPERATIONS = DAEMON.askers, DAEMON.topics, DAEMON.asked_operations
_OK: Final = 200
_GONE: Final = 410


class OpaQuestions(HttpClient):
    """The questions of Kafka's OPA plugin. Answers have no offset; the token is in the URL."""

    name, pause_seconds = "opa", 0.06

    def exchange(self) -> None:
        question = DAEMON.draw_question(self.random)
        while question.host is None:
            question = DAEMON.draw_question(self.random)
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
        begun = self.site.judge.begin()
        answer = self.post(path, body)
        self.judge(begun, None, [question], [answer["result"]])


class ActionSearches(HttpClient):
    """What may a user do to a topic? The result must be complete, and nothing more."""

    name, pause_seconds = "search action", 0.4

    def exchange(self) -> None:
        user, topic = self.random.choice(_USERS), self.random.choice(_TOPICS)
        body = evaluation_of(Question(user, "10.0.0.2", Operation.READ, ResourceType.TOPIC, topic))
        del body["action"]
        begun = self.site.judge.begin()
        answer = self.post("/access/v1/search/action", body)
        found = {each["name"] for each in answer["results"]}
        asked = [
            Question(user, "10.0.0.2", each, ResourceType.TOPIC, topic) for each in _OPERATIONS
        ]
        decisions = [each.name.lower() in found for each in _OPERATIONS]
        self.judge(begun, answer["context"]["offset"], asked, decisions)


class SubjectSearches(HttpClient):
    """Who may do something to a topic? A user who is not listed may do what everyone may."""

    name, pause_seconds = "search subject", 0.6

    def exchange(self) -> None:
        operation, topic = self.random.choice(_OPERATIONS), self.random.choice(_TOPICS)
        asked = [
            Question(each, "10.0.0.2", operation, ResourceType.TOPIC, topic) for each in _USERS
        ]
        body = evaluation_of(asked[0])
        body["subject"] = {"type": "user"}
        begun = self.site.judge.begin()
        answer = self.post("/access/v1/search/subject", body)
        context, found = answer["context"], {f"User:{each['id']}" for each in answer["results"]}
        if context.get("everyone"):
            found |= {*_USERS} - {f"User:{each}" for each in context.get("everyone_except", ())}
        decisions = [user in found for user in _USERS]
        self.judge(begun, context["offset"], asked, decisions)


class Watches(HttpClient):
    """Keep a copy of all ACLs by a listing, and by watches that resume where the last one ended."""

    name, pause_seconds = "watch", 1.0
    site: Site
    _LISTED_SHARE = 0.1

    def __init__(self, site: Site, random: Random) -> None:
        super().__init__(site, random)
        self._copy: AclCopy | None = None

    def exchange(self) -> None:
        floor = self.site.judge.floor
        copy, self._copy = self._copy, None  # after an error, the copy is not used again
        if copy is None or self.random.random() < self._LISTED_SHARE:
            copy = AclCopy()
            copy.begin_with(self.send("GET", "/v1/acls"))
        else:
            self._follow(copy, floor)
        self._compare(floor, copy)
        self._copy = copy

    def _follow(self, copy: AclCopy, offset: float) -> None:
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

    def _compare(self, floor: float, copy: AclCopy) -> None:
        found = sorted(map(repr, (each for each in copy.acls.values() if _is_shown_hot(each))))

        def find_fault(acls: frozenset[Acl]) -> str | None:
            expected = sorted(repr(shown(each)) for each in acls)
            return None if found == expected else f"expected {expected}, found {found}"

        self.site.judge.check(floor, copy.offset, find_fault)


def _is_shown_hot(acl: dict[str, str]) -> bool:
    return not acl["resource_name"].startswith("ballast-")


class PastQuestions(HttpClient):
    """Questions about an earlier offset, whose answer is that of its state."""

    name, pause_seconds = "past", 0.5
    site: Site

    def exchange(self) -> None:
        history = self.site.judge
        offset = int(max(history.oldest.last, history.floor - self.random.randint(0, 300)))
        question = DAEMON.draw_question(self.random)
        answer = self.post(EVALUATION, evaluation_of(question, as_of=offset))
        self.judge(offset, offset, [question], [answer["decision"]])


class Pages(HttpClient):
    """The pages of the console."""

    name, pause_seconds, has_worker = "console", 1.0, False
    site: Site
    _TOPIC = {"resource_type": "TOPIC", "operation": "READ", "resource_name": _TOPICS[0]}

    def connect(self) -> HTTPConnection:
        return self.site.admin()

    def exchange(self) -> None:
        pages = [
            ("", {}),
            ("live", {}),
            ("who", self._TOPIC),
            ("what", {**self._TOPIC, "principal": _USERS[0]}),
            ("explain", {**self._TOPIC, "principal": _USERS[0]}),
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
    site: Site

    def connect(self) -> HTTPConnection:
        return self.site.admin()

    def exchange(self) -> None:
        for path in ("/metrics", "/readyz", "/healthz"):
            self.send("GET", path)


class WaitingStream(StreamQuestions):
    """Frames, some of which require the newest offset that is known."""

    site: Site

    def begin(self) -> tuple[float, int]:
        if self.random.random() < 0.1:
            return self.site.judge.promised, self.site.judge.promised
        return super().begin()


class SecureDescriptions(Descriptions):
    """The same over TLS."""

    name, pause_seconds, listener = "describe over TLS", 0.6, "SECURE"


class Nuisance(Client):
    """Clients that break off, hold half a request open, send nothing, or use the wrong protocol."""

    name, pause_seconds = "nuisance", 0.2
    site: Site
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
        is_plain = port in (ready["admin_http"], ready["listeners"]["PLAINTEXT"])
        is_rude = self.random.random() < 0.3
        context = None if is_plain or is_rude else self.site.context
        connection = connect(port) if context is None else connect_tls(port, context)
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
        question = DAEMON.draw_question(self.random)
        data = json.dumps(evaluation_of(question)).encode()
        begun = self.site.judge.begin()
        self.connection.putrequest("POST", EVALUATION)
        for name, value in self.site.http_headers.items():
            self.connection.putheader(name, value)
        self.connection.putheader("Content-Length", str(len(data)))
        self.connection.endheaders()
        for begin in range(0, len(data), 16):
            self.connection.send(data[begin : begin + 16])
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        self.judge(begun, answer["context"]["offset"], [question], [answer["decision"]])


CLIENTS: Final[tuple[type[Client], ...]] = (
    Evaluations, Batches, OpaQuestions, Explanations, ActionSearches, SubjectSearches,
    PastQuestions, Pages, Scrapes, WaitingStream, Descriptions, Nuisance, SlowEvaluations,
)  # fmt: skip
"""What asks every daemon."""
