"""createAcls and describeAcls over Kafka's protocol: the daemon and a real Kafka broker.

Each server is the only voter of its log, and answers once the change is committed. The daemon calls
fdatasync once for all waiting requests, then answers them. Kafka's leader appends a batch, advances
its high watermark, for which answers wait, and only then forces the log to disk
(KafkaRaftClient.flushLeaderLog). Before it appends, it waits for more records, 25 ms by default.
Few arrive, because a broker forwards all its clients' requests over one connection, one at a time.

The daemon also answers decisions during the load, and its figures include that cost. Kafka does
not.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from operator import attrgetter, methodcaller
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from authorizerd.protocol.errors import DecodeError
from ops.bench.closed_loop import LoadError, LoadReport
from ops.bench.daemon_process import AUTHORIZERD, PATIENT, ready_daemon, serve_command
from ops.bench.figures import Absent, Line, Peer, make_peer, percentile
from ops.bench.kafka_load import (
    BEGUN,
    Client,
    create_acls,
    describe_ms,
    drive,
)
from ops.bench.processes import ProcessError, capture_output
from ops.bench.rounds import percents
from ops.kafka_rig import rig as kafka
from ops.kafka_rig.broker import BrokerSettings, format_storage, running_broker
from ops.kafka_rig.rig import Rig, RigError

ANONYMOUS: Final = "User:ANONYMOUS"
LINGERS: Final = (("25 ms", None), ("0", 0))
"""How long Kafka's leader waits for more records: None is its default, 25 ms."""

_SETTINGS: Final = {"super.users": ANONYMOUS}
_JVM_OPTIONS: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""As in kafka-server-start.sh."""

_SMALL, _LARGE = 1, 100
_DESCRIBES: Final = 5
_STEP_SECONDS: Final = 30.0
_PROBE_PAUSE_SECONDS: Final = 0.01
_QUESTION: Final = (
    b'{"subject":{"type":"user","id":"bench-update"},"action":{"name":"READ"},'
    b'"resource":{"type":"topic","id":"described-0-0000000001"},"context":{"host":"127.0.0.1"}}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationLoad:
    """The number of clients, and of ACLs per request."""

    clients: int
    bindings: int

    def __str__(self) -> str:
        return f"{_counted(self.bindings, 'binding')}, {_counted(self.clients, 'client')}"


LOADS: Final = tuple(
    CreationLoad(clients=clients, bindings=bindings)
    for bindings in (_SMALL, _LARGE)
    for clients in (1, 16)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationPlan:
    """``seconds`` is a load's time; ``described`` ACLs, a multiple of 100, are created first."""

    seconds: float
    described: int
    is_beside_kafka: bool


FULL: Final = CreationPlan(seconds=2.0, described=10_000, is_beside_kafka=True)
QUICK: Final = CreationPlan(seconds=0.1, described=200, is_beside_kafka=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFigures:
    """One server's figures: a report for each of ``LOADS``, and the median time to describe."""

    reports: tuple[LoadReport, ...]
    describe_ms: float


Probe = Callable[[], float]


def measure_creations(directory: Path, plan: CreationPlan) -> Iterator[Line]:
    """Yield the lines; files are written below ``directory`` and removed afterwards.

    Raises:
        ProcessError: the daemon failed. If Kafka fails, it is only left out.
    """
    with TemporaryDirectory(dir=directory, prefix="updates-") as name:
        place = Path(name)
        ours, decisions_ms = _measure_daemon(place, plan)
        rig = kafka.prepare() if plan.is_beside_kafka else Absent("not in a quick run")
        theirs = [
            (linger, _measure_kafka(rig, place / f"linger-{linger_ms}", linger_ms, plan))
            for linger, linger_ms in LINGERS
        ]
    for linger, their in theirs:
        for number, load in enumerate(LOADS):
            yield from _update_lines(load, linger, ours.reports[number], their, number)
    for load_name, p99_ms in decisions_ms:
        yield Line(
            what=f"AuthZEN decisions, 1 connection, {load_name}: p99", unit="ms", ours=p99_ms
        )
    for linger, their in theirs:
        yield Line(
            what=f"describeAcls of {plan.described:,} ACLs, Kafka's linger {linger}: median",
            unit="ms",
            ours=ours.describe_ms,
            peer=_kafka_figure(their, attrgetter("describe_ms")),
        )


def _update_lines(
    load: CreationLoad, linger: str, ours: LoadReport, their: ServerFigures | Absent, number: int
) -> Iterator[Line]:
    what = f"createAcls, {load}, fdatasync (Kafka: linger {linger}, force)"

    def line(shown: str, unit: str, pick: Callable[[LoadReport], float]) -> Line:
        return Line(
            what=f"{what}: {shown}",
            unit=unit,
            ours=pick(ours),
            peer=_kafka_figure(their, lambda measured: pick(measured.reports[number])),
            more_is_better=unit == "/s",
        )

    measured = [ours] if isinstance(their, Absent) else [ours, their.reports[number]]
    for percent in percents(measured):
        yield line(f"p{percent}", "ms", methodcaller("at", percent))
    yield line("requests", "/s", attrgetter("requests_per_second"))
    if load.bindings > 1:
        yield line("bindings", "/s", lambda report: report.requests_per_second * load.bindings)


def _kafka_figure(their: ServerFigures | Absent, pick: Callable[[ServerFigures], float]) -> Peer:
    return make_peer(f"Kafka {kafka.VERSION}", their, pick)


def _measure_daemon(
    place: Path, plan: CreationPlan
) -> tuple[ServerFigures, list[tuple[str, float]]]:
    """Return our figures, and the p99 of decisions without and during each load."""
    directory, log_dir = place / "daemon", place / "daemon-log"
    arguments, ready = serve_command(directory, log_dir, _SETTINGS)
    config = arguments[2]
    capture_output([AUTHORIZERD, "format", "--config", config], timeout_seconds=_STEP_SECONDS)
    decisions_ms: list[tuple[str, float]] = []
    reports: list[LoadReport] = []
    with ready_daemon(directory, log_dir, {**PATIENT, **_SETTINGS}) as daemon:
        address = msgspec.json.decode(ready.read_bytes())["listeners"]["PLAINTEXT"]
        try:
            described_ms = _fill_and_describe(address, plan)
            with _prober(daemon.decision_http) as probe:
                give_up = time.monotonic() + plan.seconds
                idle = _probed(probe, lambda: time.monotonic() < give_up)
                decisions_ms.append(("no updates", idle))
                for load in LOADS:
                    report, meanwhile = _run_load(address, load, plan.seconds, probe)
                    reports.append(report)
                    decisions_ms.append((f"during createAcls, {load}", meanwhile))
        except (LoadError, DecodeError, HTTPException, OSError) as error:
            raise ProcessError(f"authorizerd: {error!r}") from error
    return ServerFigures(reports=tuple(reports), describe_ms=described_ms), decisions_ms


def _measure_kafka(
    rig: Rig | kafka.Absent | Absent, directory: Path, linger_ms: int | None, plan: CreationPlan
) -> ServerFigures | Absent:
    if not isinstance(rig, Rig):
        return Absent(rig.reason)
    settings = BrokerSettings(
        super_users=("User:admin", ANONYMOUS),
        linger_ms=linger_ms,
        audit_level="INFO",
        jvm_options=_JVM_OPTIONS,
    )
    log_dir = directory / "log"
    try:
        formatted = format_storage(rig, directory, log_dir)
        if formatted.exit_code:
            return Absent(f"kafka-storage: {formatted.stderr[:300]}")
        with running_broker(rig, directory, log_dir, settings) as broker:
            described_ms = _fill_and_describe(broker.plaintext, plan)
            reports = [_run_load(broker.plaintext, load, plan.seconds)[0] for load in LOADS]
    except (RigError, ProcessError, LoadError, DecodeError, OSError) as error:
        return Absent(str(error))
    return ServerFigures(reports=tuple(reports), describe_ms=described_ms)


def _fill_and_describe(address: str, plan: CreationPlan) -> float:
    """Create the first ACLs; return the median time to describe them."""
    client = Client(address)
    with closing(client.socket):
        create_acls(client, "described", plan.described, _LARGE)
        _await_described(client, plan.described)
        return median(describe_ms(client, plan.described) for _ in range(_DESCRIBES))


def _await_described(client: Client, acls: int) -> None:
    """Wait until all are visible: a broker applies what its controller committed a moment later."""
    give_up = time.monotonic() + _STEP_SECONDS
    while True:
        try:
            describe_ms(client, acls)
        except LoadError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.1)
        else:
            return


def _run_load(
    address: str, load: CreationLoad, seconds: float, probe: Probe | None = None
) -> tuple[LoadReport, float]:
    """Run a load in another process; return its report and the p99 of ``probe`` meanwhile.

    Raises:
        ProcessError: it failed, or exceeded the time limit.
    """
    prefix = f"update-{load.clients}-{load.bindings}"
    command = [
        sys.executable, "-m", drive.__module__,
        address, str(load.clients), str(load.bindings), str(seconds), prefix,
    ]  # fmt: skip
    # Unbuffered: ``communicate`` would miss what a buffer had read after the first line.
    process = subprocess.Popen(command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        try:
            assert process.stdout is not None
            # Probe after the warm-up, as the load itself is timed.
            has_begun = process.stdout.readline() == BEGUN
            probed_ms = 0.0
            if has_begun and probe is not None:
                probed_ms = _probed(probe, lambda: process.poll() is None)
            printed, errors = process.communicate(timeout=seconds + _STEP_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise ProcessError(f"createAcls, {load}: not finished in time") from error
        finally:
            # Leaving the block waits for the process without a time limit.
            if process.poll() is None:
                process.kill()
    if process.returncode:
        raise ProcessError(f"createAcls, {load}: {errors.decode(errors='replace').strip()}")
    return msgspec.json.decode(printed, type=LoadReport), probed_ms


def _probed(probe: Probe, goes_on: Callable[[], bool]) -> float:
    """Call ``probe`` repeatedly, at least once; return the p99 of its times."""
    times = [probe()]
    while goes_on():
        # Pause, so that the probes add little to the daemon's load.
        time.sleep(_PROBE_PAUSE_SECONDS)
        times.append(probe())
    return percentile(sorted(times), 99)


@contextmanager
def _prober(host: str) -> Iterator[Probe]:
    """Yield a function that asks for one decision on a persistent connection; it returns its ms."""
    headers = {"Content-Type": "application/json"}
    with closing(HTTPConnection(host, timeout=_STEP_SECONDS)) as connection:

        def probe() -> float:
            began_ns = time.perf_counter_ns()
            connection.request("POST", "/access/v1/evaluation", _QUESTION, headers)
            answer = connection.getresponse().read()
            taken_ms = (time.perf_counter_ns() - began_ns) / 1e6
            if msgspec.json.decode(answer).get("decision") is not True:
                raise LoadError(f"a decision was answered with {answer!r}")
            return taken_ms

        yield probe


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
