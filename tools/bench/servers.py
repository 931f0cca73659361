"""Servers that decide over HTTP: their APIs, a check of their answers, and loads of them.

**Invariant:** no side is timed before it has given the expected answers.
"""

from __future__ import annotations

import http.client
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, authorize, explain
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.acl.snapshot import AclSnapshot
from tests.daemon.opa_requests import PATH as PLUGIN_PATH
from tests.daemon.opa_requests import asked
from tests.support.daemon_process import ask as send_request
from tests.support.daemon_process import wait_until
from tests.support.requests import evaluation_of
from tools.bench.figures import Absent, MeasurementError, Row, pick_from
from tools.bench.loads import Extent, Load, Process, Target, compare
from tools.bench.protocols import post
from tools.bench.sender import NUMBER, Plan
from tools.bench.sets import QUESTIONS, AclSet
from tools.daemon_process import DaemonProcess
from tools.processes import ProcessError

SETTINGS: Final = AuthorizerSettings()
_TIMEOUT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """A server's API: ``one`` formats a question, ``many`` joins several."""

    name: str
    one_path: str
    one: Callable[[Question], Any]
    is_allowed: Callable[[Any], bool]
    many_path: str = ""
    many: Callable[[Sequence[Any]], Any] = list


def _format_as_plugin(question: Question) -> dict[str, Any]:
    """Return the question in the form of Kafka's OPA plugin."""
    principal_type, _, name = question.principal.partition(":")
    return asked(
        ("requestContext.principal", {"principalType": principal_type, "name": name}),
        ("requestContext.clientAddress", f"/{question.host}"),
        ("action.operation", Operation(question.operation).name),
        ("action.resourcePattern.resourceType", ResourceType(question.resource_type).name),
        ("action.resourcePattern.name", question.resource_name),
    )


AUTHZEN: Final = Api(
    name="AuthZEN",
    one_path="/access/v1/evaluation",
    one=evaluation_of,
    is_allowed=lambda answer: answer["decision"] is True,
    many_path="/access/v1/evaluations",
    many=lambda evaluations: {"evaluations": evaluations},
)
PLUGIN: Final = Api(
    name="OPA's shape",
    one_path=PLUGIN_PATH,
    one=_format_as_plugin,
    is_allowed=lambda answer: answer["result"] is True,
)


def is_allowed(snapshot: AclSnapshot, question: Question) -> bool:
    """Return our own decision, made in this process."""
    return authorize(snapshot, SETTINGS, *msgspec.structs.astuple(question))


def collect_answers(snapshot: AclSnapshot, questions: Sequence[Question]) -> str:
    """Return an A (allowed) or a D (denied) for each question; the explanations must agree."""
    given = ""
    for question in questions:
        allowed = is_allowed(snapshot, question)
        if explain(snapshot, SETTINGS, question).allowed != allowed:
            raise MeasurementError(f"authorize and explain differ on {question}")
        given += "A" if allowed else "D"
    return given


def check_agreement(ours: str, theirs: str, questions: Sequence[Question], name: str) -> None:
    """Raise MeasurementError at the first question with different answers."""
    for number, question in enumerate(questions):
        if ours[number : number + 1] != theirs[number : number + 1]:
            raise MeasurementError(
                f"{name} answers {theirs[number : number + 1]!r}, not {ours[number]}: {question}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server at ``host`` (``host:port``).

    ``token`` is the caller's; ``ca_file`` the CA's certificate of a server with TLS. With
    ``has_ids``, each request has a new X-Request-ID.
    """

    api: Api
    host: str
    process: Process
    token: str = ""
    ca_file: str = ""
    has_ids: bool = False

    def check(self, questions: Sequence[Question], expected: str) -> None:
        """Ask each question once, and compare the answers: an A or a D for each question."""
        given = ""
        with closing(connect(self.host, self.ca_file)) as connection:
            for question in questions:
                body = self.api.one(question)
                answer = ask(connection, self.api.one_path, body, self.token)[1]
                given += "A" if self.api.is_allowed(answer) else "D"
        check_agreement(expected, given, questions, self.api.name)

    def target(self, questions: Sequence[Question], load: Load) -> Target:
        """Return a load of this server."""
        requests = [*self._make_requests(questions, load.each)]
        plan = Plan(address=self.host, requests=requests, seconds=0, ca_file=self.ca_file)
        return Target(process=self.process, plan=plan, load=load)

    def _make_requests(self, questions: Sequence[Question], each: int) -> Iterator[bytes]:
        path = self.api.one_path if each == 1 else self.api.many_path
        request_id = NUMBER.decode() if self.has_ids else ""
        for start in range(0, len(questions), each):
            formatted = [self.api.one(question) for question in questions[start : start + each]]
            body = msgspec.json.encode(formatted[0] if each == 1 else self.api.many(formatted))
            yield post(self.host, path, body, self.token, request_id)


def server_of(daemon: DaemonProcess, *, api: Api = AUTHZEN, ca_file: str = "") -> Server:
    """Return a daemon as a server of AuthZEN."""
    process, token = Process(daemon.process_id), daemon.token
    return Server(api=api, host=daemon.decision_http, process=process, token=token, ca_file=ca_file)


def check_servers(
    acl_set: AclSet, questions: Sequence[Question], *servers: Server | Absent
) -> None:
    """Ask all servers the first questions, and check their answers against the set's ACLs."""
    first = questions[:QUESTIONS]
    expected = collect_answers(build(acl_set.added()), first)
    for server in servers:
        if isinstance(server, Server):
            server.check(first, expected)


def compare_servers(
    what: str, load: Load, extent: Extent, questions: Sequence[Question],
    sides: Mapping[str, Server], noun: str = "decisions",
    peers: Mapping[str, Server | Absent] | None = None,
) -> Iterator[Row]:  # fmt: skip
    """Measure our servers and the peers under the same load, in turn."""
    theirs = {
        name: pick_from(peer, lambda it: it.target(questions, load))
        for name, peer in (peers or {}).items()
    }
    ours = {words: server.target(questions, load) for words, server in sides.items()}
    return compare(f"{what}, {load}", extent, ours, noun, theirs)


def connect(host: str, ca_file: str = "") -> http.client.HTTPConnection:
    """Return a connection for HTTP, or for HTTPS if a CA file is given."""
    if not ca_file:
        return http.client.HTTPConnection(host, timeout=_TIMEOUT_SECONDS)
    context = ssl.create_default_context(cafile=ca_file)
    return http.client.HTTPSConnection(host, timeout=_TIMEOUT_SECONDS, context=context)


def ask(
    connection: http.client.HTTPConnection, path: str, body: object, token: str = ""
) -> tuple[float, Any]:
    """Return the time in ms of a POST, and its answer; raise ProcessError if it is refused."""
    encoded, headers = msgspec.json.encode(body), {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    began_ns = time.perf_counter_ns()
    answer = send_request(connection, "POST", path, encoded, headers)
    taken_ms = (time.perf_counter_ns() - began_ns) / 1e6
    if answer.status // 100 != 2:
        raise ProcessError(f"{connection.host}{path}: {answer.status} {answer.body[:80]!r}")
    return taken_ms, answer.json


def ask_once(host: str, path: str, body: object) -> tuple[float, Any]:
    """Return the time in ms of a POST on a new connection, and its answer."""
    with closing(connect(host)) as connection:
        connection.connect()
        return ask(connection, path, body)


def wait_until_healthy(
    host: str, path: str, process: subprocess.Popen[bytes], ca_file: str = ""
) -> None:
    """Wait until a GET of ``path`` is answered with 200; raise if the process ends."""

    def is_healthy() -> bool:
        if process.poll() is not None:
            raise ProcessError(f"{process.args!r}: exit code {process.returncode}")
        with suppress(OSError), closing(connect(host, ca_file)) as connection:
            return send_request(connection, "GET", path).status == http.client.OK
        return False

    wait_until(is_healthy, f"{process.args!r} is healthy", _TIMEOUT_SECONDS)
