"""Servers that decide over HTTP: check their answers, then measure their rate and their latencies.

**Invariant:** the sides of a comparison get the same questions, warm-ups, rates and samples, in
turn, and no side is timed before it has given the expected answers. Questions are distinct: each
load continues with the question after the last one that the server was asked.
"""

from __future__ import annotations

import http.client
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, authorize, explain
from authorizerd.acl.model import Operation, Question, ResourceType
from authorizerd.acl.snapshot import AclSnapshot
from tools.bench.figures import Absent, MeasurementError, Row, percentile_rows, row_of_rounds
from tools.bench.protocols import post
from tools.bench.sender import NUMBER, Plan, send
from tools.bench.wrk import measure_rate, name_generator
from tools.daemon_process import DaemonProcess
from tools.processes import ProcessError, cpu_seconds

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


def _format(question: Question) -> dict[str, Any]:
    kind = ResourceType(question.resource_type).name.lower()
    return {
        "subject": {"type": "user", "id": question.principal.removeprefix("User:")},
        "action": {"name": Operation(question.operation).name},
        "resource": {"type": kind, "id": question.resource_name},
        "context": {"host": question.host},
    }


def _format_as_plugin(question: Question) -> dict[str, Any]:
    """Return the question as Kafka's OPA plugin sends it."""
    principal_type, _, name = question.principal.partition(":")
    return {
        "input": {
            "requestContext": {
                "clientAddress": f"/{question.host}",
                "header": {"name": {"clientId": "bench", "correlationId": 5, "requestApiKey": 1}},
                "listenerName": "PLAINTEXT",
                "principal": {"principalType": principal_type, "name": name},
                "securityProtocol": "PLAINTEXT",
            },
            "action": {
                "resourcePattern": {
                    "resourceType": ResourceType(question.resource_type).name,
                    "name": question.resource_name,
                    "patternType": "LITERAL",
                    "unknown": False,
                },
                "operation": Operation(question.operation).name,
                "resourceReferenceCount": 1,
                "logIfAllowed": True,
                "logIfDenied": True,
            },
        }
    }


AUTHZEN: Final = Api(
    name="AuthZEN",
    one_path="/access/v1/evaluation",
    one=_format,
    is_allowed=lambda answer: answer["decision"] is True,
    many_path="/access/v1/evaluations",
    many=lambda evaluations: {"evaluations": evaluations},
)
PLUGIN: Final = Api(
    name="OPA's shape",
    one_path="/v1/data/kafka/authz/allow",
    one=_format_as_plugin,
    is_allowed=lambda answer: answer["result"] is True,
)


def collect_answers(snapshot: AclSnapshot, questions: Sequence[Question]) -> str:
    """Return an A (allowed) or a D (denied) for each question.

    Raises:
        MeasurementError: the decision and its explanation differ.
    """
    given = ""
    for question in questions:
        allowed = authorize(snapshot, SETTINGS, *msgspec.structs.astuple(question))
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
class Load:
    """``each`` questions in a request. Latencies are measured at ``rate`` requests per second."""

    connections: int
    each: int = 1
    rate: float = 1000.0

    def __str__(self) -> str:
        plural = "" if self.connections == 1 else "s"
        return f"{self.each} a request, {self.connections} connection{plural}"


@dataclass(slots=True, kw_only=True)
class Server:
    """A running server at ``host`` (``host:port``).

    ``token`` is the caller's; ``ca_file`` the CA's certificate of a server with TLS. With
    ``has_ids``, each request has a new X-Request-ID.
    """

    api: Api
    host: str
    process_id: int
    token: str = ""
    ca_file: str = ""
    has_ids: bool = False
    _asked: int = field(default=0, init=False)
    _requests: dict[tuple[int, int], list[bytes]] = field(default_factory=dict, init=False)

    def check(self, questions: Sequence[Question], expected: str) -> None:
        """Ask each question once, and compare the answers: an A or a D for each question."""
        given = ""
        with closing(connect(self.host, self.ca_file)) as connection:
            for question in questions:
                body, headers = msgspec.json.encode(self.api.one(question)), dict(_JSON)
                if self.token:
                    headers["Authorization"] = f"Bearer {self.token}"
                connection.request("POST", self.api.one_path, body, headers)
                answer = msgspec.json.decode(connection.getresponse().read())
                given += "A" if self.api.is_allowed(answer) else "D"
        check_agreement(expected, given, questions, self.api.name)

    def plan(self, questions: Sequence[Question], load: Load, seconds: float, **more: Any) -> Plan:  # noqa: ANN401
        """Return a load that goes on after the last one."""
        key = id(questions), load.each
        if key not in self._requests:
            self._requests[key] = [*self._make_requests(questions, load.each)]
        plan = Plan(
            address=self.host,
            requests=self._requests[key],
            seconds=seconds,
            connections=load.connections,
            first=self._asked // load.each,
            ca_file=self.ca_file,
        )
        return msgspec.structs.replace(plan, **more)

    def _make_requests(self, questions: Sequence[Question], each: int) -> Iterator[bytes]:
        path = self.api.one_path if each == 1 else self.api.many_path
        request_id = NUMBER.decode() if self.has_ids else ""
        for start in range(0, len(questions), each):
            formatted = [self.api.one(question) for question in questions[start : start + each]]
            body = msgspec.json.encode(formatted[0] if each == 1 else self.api.many(formatted))
            yield post(self.host, path, body, self.token, request_id)

    def count(
        self, questions: Sequence[Question], load: Load, seconds: float
    ) -> tuple[float, float, int]:
        """Return decisions per second, per second of the server's CPU, and refused requests."""
        before = cpu_seconds(self.process_id)
        rate = measure_rate(self.plan(questions, load, seconds))
        used = cpu_seconds(self.process_id) - before
        # Those that were in flight at the end may also have been answered.
        self._asked += (rate.requests + rate.refused + load.connections) * load.each
        # A quick run may use less than one clock tick of CPU time.
        per_cpu = rate.requests * load.each / used if used else 0.0
        return rate.per_second * load.each, per_cpu, rate.refused

    def time(self, questions: Sequence[Question], load: Load, seconds: float) -> list[float]:
        """Return the latencies in ms at the load's rate."""
        report = send(self.plan(questions, load, seconds, rate=load.rate))
        self._asked += report.asked * load.each
        return report.times_ms


_JSON: Final = {"Content-Type": "application/json"}


def server_of(daemon: DaemonProcess, **more: Any) -> Server:  # noqa: ANN401
    """Return a daemon as a server of AuthZEN."""
    known = {"api": AUTHZEN, "host": daemon.decision_http, "process_id": daemon.process_id}
    return Server(**{**known, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The rounds and seconds of a rate, the warm-up before it, and the seconds of latencies."""

    rounds: int
    seconds: float
    warm_up: float
    timed: float


@dataclass(slots=True)
class _Measured:
    """Decisions per second and per CPU-second in each round, refusals, and all latencies."""

    rates: list[float] = field(default_factory=list)
    per_cpu: list[float] = field(default_factory=list)
    times_ms: list[float] = field(default_factory=list)
    refused: int = 0


def name_load(what: str, load: Load, extent: Extent) -> str:
    """Return what rows call a load."""
    return f"{what}, {load}, latency at {load.rate:g}/s{name_generator(extent.seconds)}"


def compare_loads(
    what: str, load: Load, extent: Extent, questions: Sequence[Question],
    sides: Sequence[tuple[str, Server]], peer: str = "", theirs: Server | Absent | None = None,
) -> Iterator[Row]:  # fmt: skip
    """Measure our servers, by the words that rows add for each, and a peer, in turn."""
    peers = [theirs] if isinstance(theirs, Server) else []
    servers = [*(server for _, server in sides), *peers]
    measured = [_Measured() for _ in servers]
    # A percentile of 99 needs 1,000 samples, unless that takes long.
    enough = min(12.0, 1100 / load.rate) if extent.warm_up else 0.0
    timed = max(extent.timed, enough)
    for server in servers if extent.warm_up else ():
        server.count(questions, load, extent.warm_up)
    for _ in range(extent.rounds):
        for server, figures in zip(servers, measured, strict=True):
            rate, per_cpu, refused = server.count(questions, load, extent.seconds)
            figures.rates.append(rate)
            figures.per_cpu.append(per_cpu)
            figures.refused += refused
        for server, figures in zip(servers, measured, strict=True):
            figures.times_ms += server.time(questions, load, timed / extent.rounds)
    other = measured[-1] if peers else theirs
    assert not isinstance(other, Server)
    for (words, _), ours in zip(sides, measured, strict=False):
        yield from _rows(name_load(what, load, extent) + words, ours, peer, other)


def _rows(
    what: str, ours: _Measured, peer: str, theirs: _Measured | Absent | None
) -> Iterator[Row]:
    def of_peer(pick: Callable[[_Measured], list[float]]) -> list[float] | Absent | None:
        return pick(theirs) if isinstance(theirs, _Measured) else theirs

    rates, per_cpu = of_peer(lambda it: it.rates), of_peer(lambda it: it.per_cpu)
    for metric, figures, other in (
        ("decisions", ours.rates, rates),
        ("decisions per CPU-second", ours.per_cpu, per_cpu),
    ):
        yield row_of_rounds(what, metric, "/s", figures, peer, other, more_is_better=True)
    yield from percentile_rows(what, ours.times_ms, peer, of_peer(lambda it: it.times_ms))
    if ours.refused:
        yield Row(what=what, metric="refused", unit="", ours=ours.refused)


def connect(host: str, ca_file: str = "") -> http.client.HTTPConnection:
    """Return a connection for HTTP, or for HTTPS if a CA file is given."""
    if not ca_file:
        return http.client.HTTPConnection(host, timeout=_TIMEOUT_SECONDS)
    context = ssl.create_default_context(cafile=ca_file)
    return http.client.HTTPSConnection(host, timeout=_TIMEOUT_SECONDS, context=context)


def ask_once(host: str, path: str, body: object) -> tuple[float, Any]:
    """Return the time in ms of a POST on a new connection, and its answer.

    Raises:
        ProcessError: the answer is not a success.
    """
    with closing(connect(host)) as connection:
        connection.connect()
        encoded = msgspec.json.encode(body)
        began_ns = time.perf_counter_ns()
        try:
            connection.request("POST", path, encoded, _JSON)
            answer = connection.getresponse()
            text = answer.read()
        except OSError as error:
            raise ProcessError(f"{host}{path}: {error!r}") from error
        taken_ms = (time.perf_counter_ns() - began_ns) / 1e6
    if answer.status // 100 != 2:
        raise ProcessError(f"{host}{path}: {answer.status} {text[:80]!r}")
    return taken_ms, msgspec.json.decode(text)


def wait_until_healthy(
    host: str, path: str, process: subprocess.Popen[bytes], ca_file: str = ""
) -> None:
    """Wait until a GET of ``path`` is answered with 200.

    Raises:
        ProcessError: the process ended, or the time limit was exceeded.
    """
    give_up = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < give_up and process.poll() is None:
        with closing(connect(host, ca_file)) as connection:
            try:
                connection.request("GET", path)
                if connection.getresponse().status == http.client.OK:
                    return
            except OSError:
                time.sleep(0.05)
    raise ProcessError(f"{Path(str(process.args)).name} did not become healthy")
