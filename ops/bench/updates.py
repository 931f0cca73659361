"""createAcls and describeAcls over the Kafka protocol: the daemon beside a real Kafka broker.

Both answer once the change is committed, by a lone voter. Ours calls fdatasync before it answers,
once for all that waited together. Kafka's leader appends a batch, moves its high watermark, which
is what answers wait for, and then forces the log to disk (KafkaRaftClient.flushLeaderLog). It lets
a batch linger for company first, 25 ms unless told otherwise; but few come together, since a
broker forwards what its clients ask on one connection, which is served a request at a time.

Only ours decides meanwhile, and is measured at that: what this costs is in its other figures.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from operator import attrgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from authorizerd.protocol.errors import DecodeError
from ops.bench.daemon_process import ready_daemon, serve_command
from ops.bench.figures import Absent, Line, Peer, peer_of, percentile
from ops.bench.kafka_load import (
    BEGUN,
    Client,
    LoadError,
    UpdateReport,
    create_acls,
    describe_ms,
    drive,
)
from ops.bench.processes import ProcessError, output_of
from ops.kafka_rig import rig as kafka
from ops.kafka_rig.broker import BrokerSettings, format_storage, running_broker
from ops.kafka_rig.rig import Rig, RigError

ANONYMOUS: Final = "User:ANONYMOUS"
LINGERS: Final = (("25 ms", None), ("0", 0))
"""Kafka's default, and none."""

_AUTHORIZERD: Final = Path(sys.executable).with_name("authorizerd")
_SETTINGS: Final = {"super.users": ANONYMOUS}
_JVM_OPTIONS: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""As kafka-server-start.sh has it."""

_SMALL, _LARGE = 1, 100
_DESCRIBES: Final = 5
_STEP_SECONDS: Final = 30.0
_PROBE_PAUSE_SECONDS: Final = 0.01
_QUESTION: Final = (
    b'{"subject":{"type":"user","id":"bench-update"},"action":{"name":"READ"},'
    b'"resource":{"type":"topic","id":"described-0-0000000001"},"context":{"host":"127.0.0.1"}}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateLoad:
    """Describe a load: the number of clients, and of ACLs per request."""

    clients: int
    bindings: int

    def __str__(self) -> str:
        return f"{_counted(self.bindings, 'binding')}, {_counted(self.clients, 'client')}"


LOADS: Final = tuple(
    UpdateLoad(clients=clients, bindings=bindings)
    for bindings in (_SMALL, _LARGE)
    for clients in (1, 16)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePlan:
    """``seconds`` are a load's; ``described`` ACLs, a multiple of 100, are there before any."""

    seconds: float
    described: int
    is_beside_kafka: bool


FULL: Final = UpdatePlan(seconds=2.0, described=10_000, is_beside_kafka=True)
QUICK: Final = UpdatePlan(seconds=0.1, described=200, is_beside_kafka=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One server's figures: a report for each of ``LOADS``, and the median of describes in ms."""

    reports: tuple[UpdateReport, ...]
    describe_ms: float


Probe = Callable[[], float]


def measure_updates(directory: Path, plan: UpdatePlan) -> Iterator[Line]:
    """Yield the lines of updates; files go below ``directory``, and are gone afterwards.

    Raises:
        ProcessError: the daemon did not serve as it should; Kafka's failure makes it absent.
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
    load: UpdateLoad, linger: str, ours: UpdateReport, their: Measured | Absent, number: int
) -> Iterator[Line]:
    what = f"createAcls, {load}, fdatasync (Kafka: linger {linger}, force)"

    def line(shown: str, unit: str, pick: Callable[[UpdateReport], float]) -> Line:
        return Line(
            what=f"{what}: {shown}",
            unit=unit,
            ours=pick(ours),
            peer=_kafka_figure(their, lambda measured: pick(measured.reports[number])),
            more_is_better=unit == "/s",
        )

    yield line("p50", "ms", attrgetter("p50_ms"))
    yield line("p99", "ms", attrgetter("p99_ms"))
    yield line("requests", "/s", attrgetter("requests_per_second"))
    if load.bindings > 1:
        yield line("bindings", "/s", lambda report: report.requests_per_second * load.bindings)


def _kafka_figure(their: Measured | Absent, pick: Callable[[Measured], float]) -> Peer:
    return peer_of(f"Kafka {kafka.VERSION}", their, pick)


def _measure_daemon(place: Path, plan: UpdatePlan) -> tuple[Measured, list[tuple[str, float]]]:
    """Return our figures, and the p99 of decisions by what went on meanwhile."""
    directory, log_dir = place / "daemon", place / "daemon-log"
    arguments, ready = serve_command(directory, log_dir, _SETTINGS)
    config = arguments[2]
    output_of([_AUTHORIZERD, "format", "--config", config], timeout_seconds=_STEP_SECONDS)
    decisions_ms: list[tuple[str, float]] = []
    reports: list[UpdateReport] = []
    with ready_daemon(directory, log_dir, _SETTINGS) as daemon:
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
    return Measured(reports=tuple(reports), describe_ms=described_ms), decisions_ms


def _measure_kafka(
    rig: Rig | kafka.Absent | Absent, directory: Path, linger_ms: int | None, plan: UpdatePlan
) -> Measured | Absent:
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
    return Measured(reports=tuple(reports), describe_ms=described_ms)


def _fill_and_describe(address: str, plan: UpdatePlan) -> float:
    """Create the ACLs that are there before any load; return the median time to describe them."""
    client = Client(address)
    with closing(client.socket):
        create_acls(client, "described", plan.described, _LARGE)
        _await_described(client, plan.described)
        return median(describe_ms(client, plan.described) for _ in range(_DESCRIBES))


def _await_described(client: Client, acls: int) -> None:
    """Wait until all are seen: a broker learns of what its controller committed a moment later."""
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
    address: str, load: UpdateLoad, seconds: float, probe: Probe | None = None
) -> tuple[UpdateReport, float]:
    """Run a load from a process of its own; return its report and the p99 of ``probe`` meanwhile.

    Raises:
        ProcessError: it failed, or was not done in time.
    """
    prefix = f"update-{load.clients}-{load.bindings}"
    command = [
        sys.executable, "-m", drive.__module__,
        address, str(load.clients), str(load.bindings), str(seconds), prefix,
    ]  # fmt: skip
    # Unbuffered: what was read ahead of the first line would be lost to ``communicate``.
    process = subprocess.Popen(command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        try:
            assert process.stdout is not None
            has_begun = process.stdout.readline() == BEGUN
            probed_ms = 0.0
            if has_begun and probe is not None:
                probed_ms = _probed(probe, lambda: process.poll() is None)
            printed, errors = process.communicate(timeout=seconds + _STEP_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise ProcessError(f"createAcls, {load}: not done in time") from error
        finally:
            if process.poll() is None:
                process.kill()
    if process.returncode:
        raise ProcessError(f"createAcls, {load}: {errors.decode(errors='replace').strip()}")
    return msgspec.json.decode(printed, type=UpdateReport), probed_ms


def _probed(probe: Probe, goes_on: Callable[[], bool]) -> float:
    """Return the p99 of the times of ``probe``, called now and then, at least once."""
    times = [probe()]
    while goes_on():
        time.sleep(_PROBE_PAUSE_SECONDS)
        times.append(probe())
    return percentile(sorted(times), 99)


@contextmanager
def _prober(host: str) -> Iterator[Probe]:
    """Yield what asks for one decision on a connection that is kept, and returns its ms."""
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
