"""createAcls and describeAcls over Kafka's protocol: the daemon and a real Kafka broker.

Each server is the only voter of its log, and answers once the change is committed. The daemon calls
fdatasync once for all waiting requests, then answers them. Kafka's leader appends a batch, advances
its high watermark, for which answers wait, and only then forces the log to disk
(KafkaRaftClient.flushLeaderLog). Before it appends, it waits for more records, 25 ms by default.
Few arrive, because a broker forwards all its clients' requests over one connection, one at a time.

All servers run at the same time and are asked in turn. Each load begins with a warm-up that counts
for nothing. During ours, a client asks for decisions: no other figure includes that work.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from authorizerd.protocol.errors import DecodeError
from tests.kafka_rig import rig as kafka
from tests.kafka_rig.broker import BrokerSettings, format_storage, running_broker
from tests.kafka_rig.rig import Rig, RigError
from tools.bench.closed_loop import LoadError, LoadReport, summarize
from tools.bench.daemon_process import AUTHORIZERD, PATIENT, ready_daemon, serve_command
from tools.bench.decision_probe import Probe, ask_while, make_line, open_probe
from tools.bench.figures import Absent, Line
from tools.bench.kafka_load import BEGUN, Client, Describes, create_acls
from tools.bench.processes import ProcessError, capture_output
from tools.bench.rounds import Rounds, compare, compare_latencies, measure_in_turn

ANONYMOUS: Final = "User:ANONYMOUS"
LINGERS: Final = (("25 ms", None), ("0", 0))
"""How long Kafka's leader waits for more records: None is its default, 25 ms."""

_SETTINGS: Final = {"super.users": ANONYMOUS}
_JVM_OPTIONS: Final = ("-Xms1g", "-Xmx3g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""As in kafka-server-start.sh, with more memory: a load creates hundreds of thousands of ACLs."""

_SMALL, _LARGE = 1, 100
_STEP_SECONDS: Final = 30.0
_ERRORS: Final = (LoadError, DecodeError, HTTPException, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationLoad:
    """The number of clients, and of ACLs per request."""

    clients: int
    bindings: int

    def __str__(self) -> str:
        return f"{_counted(self.bindings, 'binding')}, {_counted(self.clients, 'client')}"


LOADS: Final = {
    _SMALL: (
        CreationLoad(clients=1, bindings=_SMALL),
        CreationLoad(clients=16, bindings=_SMALL),
    ),
    _LARGE: (CreationLoad(clients=1, bindings=_LARGE),),
}
"""The loads by the number of ACLs per request: each number has new servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationPlan:
    """The seconds of each round, and of the warm-up before the first.

    ``described`` ACLs, a multiple of 100, are created before all loads.
    """

    rounds: int
    seconds: float
    warm_up: float
    described: int
    is_beside_kafka: bool


FULL: Final = CreationPlan(
    rounds=3, seconds=10.0, warm_up=3.0, described=10_000, is_beside_kafka=True
)
QUICK: Final = CreationPlan(
    rounds=1, seconds=0.1, warm_up=0.1, described=200, is_beside_kafka=False
)


@dataclass(frozen=True, slots=True)
class AclServer:
    """A running server; ``address`` is that of a Kafka listener.

    ``decision_http`` is the daemon's address for decisions, or "" for Kafka.
    """

    name: str
    address: str
    decision_http: str = ""

    @property
    def is_peer(self) -> bool:
        return not self.decision_http


def measure_creations(directory: Path, plan: CreationPlan) -> Iterator[Line]:
    """Yield the lines; files are written below ``directory`` and removed afterwards.

    Raises:
        ProcessError: the daemon failed. If Kafka fails, it is only left out.
    """
    rig = kafka.prepare() if plan.is_beside_kafka else Absent("not in a quick run")
    with TemporaryDirectory(dir=directory, prefix="updates-") as name:
        for bindings, loads in LOADS.items():
            with _running_servers(rig, Path(name, str(bindings))) as servers:
                yield from _measure_servers(servers, loads, plan)


def _measure_servers(
    servers: Sequence[AclServer | Absent], loads: Sequence[CreationLoad], plan: CreationPlan
) -> Iterator[Line]:
    """Yield the lines of each load, after those of describeAcls if the loads are small."""
    filled = measure_in_turn(1, servers, lambda server: _fill(server, plan))
    # A peer that failed once is not measured again.
    ready = [
        found if isinstance(found, Absent) else server
        for server, found in zip(servers, filled, strict=True)
    ]
    if loads[0].bindings == _SMALL:
        described = measure_in_turn(plan.rounds, ready, partial(_describe, plan=plan))
        what = f"describeAcls of {plan.described:,} ACLs"
        yield from _lines(what, described, "answers")
        yield _probe_calm(ready[-1], plan)
    for load in loads:
        warm = measure_in_turn(1, ready, partial(_warm_up, load=load, plan=plan))
        ours = warm[-1]
        assert isinstance(ours, list)
        yield make_line(f"during createAcls, {load}", ours[0])
        created = measure_in_turn(plan.rounds, ready, partial(_create, load=load, plan=plan))
        yield from _lines(f"createAcls, {load}, fdatasync", created, "requests", load.bindings)


def _lines(
    what: str, found: Sequence[Rounds[LoadReport]], counted: str, bindings: int = 1
) -> Iterator[Line]:
    """Yield the lines of all servers: ours, the last one, beside each broker."""

    def rate(report: LoadReport) -> float:
        return report.requests_per_second

    def binding_rate(report: LoadReport) -> float:
        return report.requests_per_second * bindings

    *brokers, ours = found
    for (linger, _), theirs in zip(LINGERS, brokers, strict=True):
        name = f"Kafka {kafka.VERSION}"
        where = f"{what} (Kafka: linger {linger}, force)"
        yield from compare_latencies(where, ours, name, theirs, lambda report: report)
        rates = {counted: rate} | ({"bindings": binding_rate} if bindings > 1 else {})
        for shown, pick in rates.items():
            yield compare(f"{where}: {shown}", "/s", ours, name, theirs, pick, more_is_better=True)


@contextmanager
def _running_servers(
    rig: Rig | kafka.Absent | Absent, place: Path
) -> Iterator[list[AclServer | Absent]]:
    """Run a broker for each of ``LINGERS``, then the daemon, until the block ends."""
    with ExitStack() as stack:
        servers: list[AclServer | Absent] = [
            stack.enter_context(_broker(rig, place / f"linger-{linger_ms}", linger_ms))
            for _, linger_ms in LINGERS
        ]
        yield [*servers, stack.enter_context(_daemon(place))]


@contextmanager
def _daemon(place: Path) -> Iterator[AclServer]:
    directory, log_dir = place / "daemon", place / "daemon-log"
    arguments, ready = serve_command(directory, log_dir, _SETTINGS)
    config = arguments[2]
    capture_output([AUTHORIZERD, "format", "--config", config], timeout_seconds=_STEP_SECONDS)
    with ready_daemon(directory, log_dir, {**PATIENT, **_SETTINGS}) as daemon:
        address = msgspec.json.decode(ready.read_bytes())["listeners"]["PLAINTEXT"]
        yield AclServer("authorizerd", address, daemon.decision_http)


@contextmanager
def _broker(
    rig: Rig | kafka.Absent | Absent, directory: Path, linger_ms: int | None
) -> Iterator[AclServer | Absent]:
    if not isinstance(rig, Rig):
        yield Absent(rig.reason)
        return
    settings = BrokerSettings(
        super_users=("User:admin", ANONYMOUS),
        linger_ms=linger_ms,
        audit_level="INFO",
        jvm_options=_JVM_OPTIONS,
    )
    log_dir = directory / "log"
    with ExitStack() as stack:
        server: AclServer | Absent
        try:
            formatted = format_storage(rig, directory, log_dir)
            if formatted.exit_code:
                raise RigError(f"kafka-storage: {formatted.stderr[:300]}")
            broker = stack.enter_context(running_broker(rig, directory, log_dir, settings))
            server = AclServer("Kafka", broker.plaintext)
        except (RigError, OSError) as error:
            server = Absent(str(error))
        yield server


@contextmanager
def _named(server: AclServer) -> Iterator[None]:
    """Name the server in errors."""
    try:
        yield
    except _ERRORS as error:
        raise ProcessError(f"{server.name}: {error!r}") from error


def _fill(server: AclServer, plan: CreationPlan) -> None:
    """Create the first ACLs, and wait until all are visible.

    A broker applies what its controller committed a moment later.
    """
    with _named(server), closing(Client(server.address)) as client:
        create_acls(client, "described", plan.described, _LARGE)
        describes = Describes(client, plan.described)
        give_up = time.monotonic() + _STEP_SECONDS
        while True:
            try:
                describes.time_one()
            except LoadError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.1)
            else:
                return


def _describe(server: AclServer, plan: CreationPlan) -> LoadReport:
    """Describe all ACLs, again and again; leave out the time until the first answers are fast."""
    with _named(server), closing(Client(server.address)) as client:
        describes = Describes(client, plan.described)
        begun = time.perf_counter()
        while time.perf_counter() < begun + plan.warm_up:
            describes.time_one()
        times_ns: list[int] = []
        begun = time.perf_counter()
        while not times_ns or time.perf_counter() < begun + plan.seconds:
            times_ns.append(describes.time_one())
    # Only the time of the requests: checking the answers in between takes our own time.
    rate = len(times_ns) / (sum(times_ns) / 1e9)
    return summarize(times_ns, requests=len(times_ns), requests_per_second=rate)


def _warm_up(server: AclServer, load: CreationLoad, plan: CreationPlan) -> list[float]:
    """Run a load; return the times of decisions meanwhile, if the server is ours."""
    with _named(server), ExitStack() as stack:
        probe = None if server.is_peer else stack.enter_context(open_probe(server.decision_http))
        return _run_load(server, load, plan.warm_up, probe)[1]


def _create(server: AclServer, load: CreationLoad, plan: CreationPlan) -> LoadReport:
    """Run a load that counts."""
    return _run_load(server, load, plan.seconds)[0]


def _run_load(
    server: AclServer, load: CreationLoad, seconds: float, probe: Probe | None = None
) -> tuple[LoadReport, list[float]]:
    """Run a load in another process; return its report and the times of ``probe`` meanwhile.

    Raises:
        ProcessError: it failed, or exceeded the time limit.
    """
    # Names that no other round has used.
    prefix = f"update-{time.monotonic_ns()}"
    command = [
        sys.executable, "-m", "tools.bench.kafka_load",
        server.address, str(load.clients), str(load.bindings), str(seconds), prefix,
    ]  # fmt: skip
    # Unbuffered: ``communicate`` would miss what a buffer had read after the first line.
    process = subprocess.Popen(command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        try:
            assert process.stdout is not None
            has_begun = process.stdout.readline() == BEGUN
            probed: list[float] = []
            if has_begun and probe is not None:
                probed = ask_while(probe, lambda: process.poll() is None)
            printed, errors = process.communicate(timeout=seconds + _STEP_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise ProcessError(f"createAcls, {load}: not finished in time") from error
        finally:
            # Leaving the block waits for the process without a time limit.
            if process.poll() is None:
                process.kill()
    if process.returncode:
        raise ProcessError(f"createAcls, {load}: {errors.decode(errors='replace').strip()}")
    return msgspec.json.decode(printed, type=LoadReport), probed


def _probe_calm(server: AclServer | Absent, plan: CreationPlan) -> Line:
    """Return the line of decisions without any updates."""
    assert isinstance(server, AclServer)
    with _named(server), open_probe(server.decision_http) as probe:
        give_up = time.monotonic() + plan.warm_up
        return make_line("no updates", ask_while(probe, lambda: time.monotonic() < give_up))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
