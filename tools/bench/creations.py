"""createAcls and describeAcls over Kafka's protocol: the daemon and real Kafka brokers.

Each server is the only voter of its log, and answers once the change is committed. The daemon calls
fdatasync once for all waiting requests, then answers them. Kafka's leader appends a batch, advances
its high watermark, for which answers wait, and only then forces the log to disk
(KafkaRaftClient.flushLeaderLog). Before it appends, it waits for more records, 25 ms by default.
Few arrive, because a broker forwards all its clients' requests over one connection, one at a time.

All servers run at the same time and are asked in turn, first as fast as they answer, then at a rate
that the slowest serves.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from authorizerd.acl.model import AclFilter, PatternType
from authorizerd.protocol.framing import Frames
from authorizerd.protocol.kafka.acl_client import (
    encode_create_acls_request,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection
from tests.kafka_rig import rig as kafka
from tests.kafka_rig.broker import BrokerSettings, format_storage, running_broker
from tests.kafka_rig.rig import Rig
from tools.bench.figures import Absent, MeasurementError, Row, percentile_rows, row_of_rounds
from tools.bench.protocols import (
    ACLS_VERSION,
    CREATE_ACLS,
    DESCRIBE_ACLS,
    RESPONSE_HEAD_BYTES,
    count_described,
    post,
)
from tools.bench.run import Run
from tools.bench.sender import NUMBER, Plan, Report, send, send_together
from tools.bench.sets import allow
from tools.daemon_process import AUTHORIZERD, PATIENT, ready_daemon, serve_command
from tools.processes import capture_output

ANONYMOUS: Final = "User:ANONYMOUS"
LINGERS: Final = (("25 ms", None), ("0", 0))
"""How long Kafka's leader waits for more records: None is its default, 25 ms."""
_JVM_OPTIONS: Final = ("-Xms1g", "-Xmx3g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""As in kafka-server-start.sh, with more memory: a load creates hundreds of thousands of ACLs."""
_STEP_SECONDS: Final = 30.0
_FILL_RATE: Final = 20.0
_QUESTION: Final = (
    b'{"subject":{"type":"user","id":"bench-update"},"action":{"name":"READ"},'
    b'"resource":{"type":"topic","id":"described-0-0000000001"},"context":{"host":"127.0.0.1"}}'
)


def create_plan(
    address: str,
    prefix: str,
    seconds: float,
    rate: float = 0.0,
    clients: int = 1,
    bindings: int = 1,
) -> Plan:
    """Return a load of createAcls, each with ``bindings`` new ACLs."""
    names = (f"{prefix}-{number}-{NUMBER.decode()}" for number in range(bindings))
    body = encode_create_acls_request(
        ACLS_VERSION, [allow(name, "User:bench-update") for name in names]
    )
    request = _frame(ApiKey.CREATE_ACLS, body)
    return Plan(
        address=address, protocol=CREATE_ACLS, requests=[request], connections=clients,
        seconds=seconds, rate=rate,
    )  # fmt: skip


def describe_plan(address: str, seconds: float, principals: Sequence[str | None] = (None,)) -> Plan:
    """Return a load of describeAcls, one at a time: of principals, or of all ACLs."""
    filters = [AclFilter(pattern_type=PatternType.ANY, principal=each) for each in principals]
    bodies = [encode_describe_acls_request(ACLS_VERSION, each) for each in filters]
    requests = [_frame(ApiKey.DESCRIBE_ACLS, body) for body in bodies]
    return Plan(
        address=address, protocol=DESCRIBE_ACLS, requests=requests, connections=1, seconds=seconds
    )


def _frame(api_key: ApiKey, body: bytes) -> bytes:
    return KafkaClientConnection("bench", 1 << 30).frame_request(api_key, ACLS_VERSION, body)


@dataclass(frozen=True, slots=True)
class AclServer:
    """A running server; ``decision_http`` is the daemon's address for decisions, "" for Kafka."""

    address: str
    decision_http: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """``bindings`` of each request; latencies are measured at ``rate`` requests per second."""

    clients: int
    bindings: int
    rate: float

    def __str__(self) -> str:
        many = f"{self.bindings} binding{'s' * (self.bindings > 1)}"
        return f"createAcls, {many}, {self.clients} client{'s' * (self.clients > 1)}, fdatasync"


_LOADS: Final = {
    1: (_Load(clients=1, bindings=1, rate=8), _Load(clients=16, bindings=1, rate=8)),
    100: (_Load(clients=1, bindings=100, rate=10),),
}
"""The loads by the number of ACLs per request: each number has new servers."""

_Servers = Sequence[AclServer | Absent]
_Reports = list[Report | Absent]


def measure_creations(run: Run) -> Iterator[Row]:
    """Measure createAcls and describeAcls."""
    place, described = run.new_place("creations"), run.pick(10_000, 200)
    rig = Absent("not in a quick run") if run.is_quick else kafka.prepare()
    for bindings, loads in run.pick(_LOADS, {1: _LOADS[1][:1]}).items():
        with _running_servers(rig, place / str(bindings)) as servers:
            _in_turn(servers, lambda server: _fill(server, described))
            ours = servers[-1]
            assert isinstance(ours, AclServer)
            if bindings == 1:
                yield from _measure_describes(run, servers, described)
                calm = send(_probe_plan(ours, run.pick(6.0, 0.1)))
                yield from percentile_rows("AuthZEN decisions, no updates", calm.times_ms)
            for load in loads:
                yield from _measure_load(run, servers, load)
                plan = _plan_load(ours, load, run.pick(6.0, 0.1))
                probe, _ = send_together(_probe_plan(ours, plan.seconds), plan)
                yield from percentile_rows(f"AuthZEN decisions, during {load}", probe.times_ms)


def _measure_describes(run: Run, servers: _Servers, described: int) -> Iterator[Row]:
    # The first round warms up.
    _, *rounds = [
        _in_turn(servers, lambda it: send(describe_plan(it.address, run.pick(4.0, 0.1))))
        for _ in range(run.pick(4, 2))
    ]
    yield from _rows(f"describeAcls of {described:,} ACLs", rounds, rounds, {"answers": 1})


def _measure_load(run: Run, servers: _Servers, load: _Load) -> Iterator[Row]:
    seconds, warm_up, timed = run.pick((4.0, 2.0, 13.0), (0.1, 0.1, 0.1))
    _in_turn(servers, lambda server: send(_plan_load(server, load, warm_up)))
    counted = [
        _in_turn(servers, lambda server: send(_plan_load(server, load, seconds)))
        for _ in range(run.pick(2, 1))
    ]
    reports = _in_turn(servers, lambda server: send(_plan_load(server, load, timed, load.rate)))
    factors = {"requests": 1} | ({"bindings": load.bindings} if load.bindings > 1 else {})
    yield from _rows(f"{load}, latency at {load.rate:g}/s", counted, [reports], factors)


def _plan_load(server: AclServer, load: _Load, seconds: float, rate: float = 0.0) -> Plan:
    # Names that no other load has used.
    prefix = f"update-{time.monotonic_ns()}"
    return create_plan(server.address, prefix, seconds, rate, load.clients, load.bindings)


def _rows(
    what: str, counted: Sequence[_Reports], timed: Sequence[_Reports], factors: dict[str, int]
) -> Iterator[Row]:
    """Yield the rows of ours, the last server, beside each broker."""

    def times(place: int) -> Any:  # noqa: ANN401
        found = [reports[place] for reports in timed]
        if isinstance(found[0], Absent):
            return found[0]
        return [ms for report in found if isinstance(report, Report) for ms in report.times_ms]

    def rates(place: int, factor: int) -> Any:  # noqa: ANN401
        found = [reports[place] for reports in counted]
        if isinstance(found[0], Absent):
            return found[0]
        return [report.per_second * factor for report in found if isinstance(report, Report)]

    peer = f"Kafka {kafka.VERSION}"
    for place, (linger, _) in enumerate(LINGERS):
        where = f"{what} (Kafka: linger {linger}, force)"
        yield from percentile_rows(where, times(-1), peer, times(place))
        for metric, factor in factors.items():
            ours, theirs = rates(-1, factor), rates(place, factor)
            yield row_of_rounds(where, metric, "/s", ours, peer, theirs, more_is_better=True)


def _in_turn(servers: _Servers, measure: Callable[[AclServer], Any]) -> list[Any]:
    return [each if isinstance(each, Absent) else measure(each) for each in servers]


def _probe_plan(server: AclServer, seconds: float) -> Plan:
    """Return decisions that add little to the daemon's load."""
    address = server.decision_http
    request = post(address, "/access/v1/evaluation", _QUESTION)
    return Plan(address=address, requests=[request], connections=1, rate=200, seconds=seconds)


def _fill(server: AclServer, acls: int) -> None:
    """Create the first ACLs, and wait until all are visible.

    A broker applies what its controller committed a moment later.
    """
    send(create_plan(server.address, "described", acls / 100 / _FILL_RATE, _FILL_RATE, 1, 100))
    (request,) = describe_plan(server.address, 1.0).requests
    give_up = time.monotonic() + _STEP_SECONDS
    while (found := count_described(_ask(server.address, request))) != acls:
        if time.monotonic() > give_up:
            raise MeasurementError(f"expected {acls} ACLs, found {found}")
        time.sleep(0.1)


def _ask(address: str, request: bytes) -> bytes:
    """Return the body of an answer."""
    (host, _, port), frames = address.rpartition(":"), Frames()
    with socket.create_connection((host, int(port)), _STEP_SECONDS) as link:
        link.sendall(request)
        while (response := frames.next(1 << 30)) is None:
            frames.receive_data(link.recv(1 << 18))
    return bytes(response[RESPONSE_HEAD_BYTES:])


@contextmanager
def _running_servers(rig: Rig | kafka.Absent | Absent, place: Path) -> Iterator[_Servers]:
    """Run a broker for each of ``LINGERS``, then the daemon, until the block ends."""
    with ExitStack() as stack:
        servers: list[AclServer | Absent] = []
        for _, linger_ms in LINGERS:
            if isinstance(rig, Rig):
                servers.append(stack.enter_context(_broker(rig, place / f"{linger_ms}", linger_ms)))
            else:
                servers.append(Absent(rig.reason))
        yield [*servers, stack.enter_context(_daemon(place))]


@contextmanager
def _daemon(place: Path) -> Iterator[AclServer]:
    directory, log_dir, settings = place / "daemon", place / "log", {"super.users": ANONYMOUS}
    config = serve_command(directory, log_dir, settings)[0][2]
    capture_output([AUTHORIZERD, "format", "--config", config], timeout_seconds=_STEP_SECONDS)
    with ready_daemon(directory, log_dir, {**PATIENT, **settings}) as daemon:
        yield AclServer(daemon.listeners["PLAINTEXT"], daemon.decision_http)


@contextmanager
def _broker(rig: Rig, directory: Path, linger_ms: int | None) -> Iterator[AclServer]:
    settings = BrokerSettings(
        super_users=("User:admin", ANONYMOUS), linger_ms=linger_ms, audit_level="INFO",
        jvm_options=_JVM_OPTIONS,
    )  # fmt: skip
    formatted = format_storage(rig, directory, directory / "log")
    if formatted.exit_code:
        raise MeasurementError(f"kafka-storage: {formatted.stderr[:300]}")
    with running_broker(rig, directory, directory / "log", settings) as broker:
        yield AclServer(broker.plaintext)
