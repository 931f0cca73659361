"""createAcls and describeAcls over Kafka's protocol: the daemon and real Kafka brokers.

Each server is the only voter of its log, and answers once the change is committed. The daemon calls
fdatasync once for all waiting requests, then answers them. Kafka's leader appends a batch, advances
its high watermark, which answers wait for, and only then forces the log to disk
(KafkaRaftClient.flushLeaderLog). Before it appends, it waits for more records, 25 ms by default.
Few records arrive, because a broker forwards all its clients' requests over one connection, one at
a time.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import Final

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
from tests.support.daemon_process import wait_until
from tools.bench.figures import Absent, MeasurementError, Row, percentile_rows, pick_from
from tools.bench.loads import QUICK, Extent, Load, Process, Target, compare
from tools.bench.protocols import (
    ACLS_VERSION,
    CREATE_ACLS,
    DESCRIBE_ACLS,
    RESPONSE_HEAD_BYTES,
    count_described,
    post,
)
from tools.bench.run import Run
from tools.bench.sender import NUMBER, Plan, send, send_together
from tools.bench.sets import allow
from tools.daemon_process import PATIENT, format_log, ready_daemon

ANONYMOUS: Final = "User:ANONYMOUS"
LINGERS: Final = {
    f"Kafka {kafka.VERSION}, linger 25 ms": None,
    f"Kafka {kafka.VERSION}, linger 0": 0,
}
"""How long Kafka's leader waits for more records. None means its default, 25 ms."""
_JVM_OPTIONS: Final = ("-Xms1g", "-Xmx3g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""As in kafka-server-start.sh, with more memory: a load creates hundreds of thousands of ACLs."""
_STEP_SECONDS: Final = 30.0
_FILL_RATE: Final = 20.0
_CREATED: Final = Extent(rounds=2, seconds=3.0, warm_up=1.0, timed=13.0)
_DESCRIBED: Final = Extent(rounds=2, seconds=2.0, warm_up=1.0, timed=5.0)
_QUESTION: Final = (
    b'{"subject":{"type":"user","id":"bench-update"},"action":{"name":"READ"},'
    b'"resource":{"type":"topic","id":"described-0-0000000001"},"context":{"host":"127.0.0.1"}}'
)


def create_plan(
    address: str, prefix: str, seconds: float, rate: float = 0.0, bindings: int = 1
) -> Plan:
    """Return a load of createAcls, each with ``bindings`` new ACLs."""
    names = (f"{prefix}-{number}-{NUMBER.decode()}" for number in range(bindings))
    body = encode_create_acls_request(
        ACLS_VERSION, [allow(name, "User:bench-update") for name in names]
    )
    return Plan(
        address=address, protocol=CREATE_ACLS, requests=[_frame(ApiKey.CREATE_ACLS, body)],
        connections=1, seconds=seconds, rate=rate,
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
    """A running server."""

    address: str
    process: Process

    def describing(self) -> Target:
        """Return descriptions of all ACLs, one after another."""
        return Target(process=self.process, plan=describe_plan(self.address, 0), load=Load(rate=0))

    def creating(self, load: Load) -> Target:
        """Return creations of ``load.each`` ACLs with unique names."""
        plan = create_plan(self.address, f"update-{load.connections}", 0, bindings=load.each)
        return Target(process=self.process, plan=plan, load=load)


_LOADS: Final = {1: (Load(rate=8), Load(connections=16, rate=8)), 100: (Load(each=100, rate=10),)}
"""The loads by the number of ACLs per request: each number has new servers."""


def measure_creations(run: Run) -> Iterator[Row]:
    """Measure createAcls and describeAcls, and the daemon's decisions at the same time."""
    place, described = run.new_place("creations"), run.pick(10_000, 200)
    rig = Absent("not in a quick run") if run.is_quick else kafka.prepare()
    seconds, name = run.pick(6.0, 0.1), "AuthZEN decisions"
    for bindings, loads in run.pick(_LOADS, {1: _LOADS[1][:1]}).items():
        with ExitStack() as stack:
            folder = place / str(bindings)
            peers: dict[str, AclServer | Absent] = {}
            for peer, linger_ms in LINGERS.items():
                peers[peer] = rig if isinstance(rig, Absent) else (
                    stack.enter_context(_broker(rig, folder / f"{linger_ms}", linger_ms))
                )  # fmt: skip
            ours, decision_http = stack.enter_context(_daemon(folder))
            for server in (*peers.values(), ours):
                pick_from(server, lambda it: _fill(it, described))
            request = post(decision_http, "/access/v1/evaluation", _QUESTION)
            # Decisions that add little to the daemon's load.
            probe = Plan(
                address=decision_http, requests=[request], connections=1, rate=200, seconds=seconds
            )
            if bindings == 1:
                theirs = {each: pick_from(it, AclServer.describing) for each, it in peers.items()}
                yield from compare(
                    f"describeAcls of {described:,} ACLs", run.pick(_DESCRIBED, QUICK),
                    {"": ours.describing()}, "answers", theirs,
                )  # fmt: skip
                yield from percentile_rows(f"{name}, no updates", send(probe).times_ms)
            for load in loads:
                create = methodcaller("creating", load)
                target: Target = create(ours)
                theirs = {each: pick_from(it, create) for each, it in peers.items()}
                what = f"createAcls, {_count(bindings, 'binding')}, "
                what += f"{_count(load.connections, 'client')}, fdatasync"
                extent = run.pick(_CREATED, QUICK)
                yield from compare(what, extent, {"": target}, "ACLs", theirs)
                during, _ = send_together(probe, target.next_plan(seconds))
                yield from percentile_rows(f"{name}, during {what}", during.times_ms)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number > 1)}"


def _fill(server: AclServer, acls: int) -> None:
    """Create the first ACLs, and wait until all are visible.

    A broker applies what its controller committed a moment later.
    """
    send(create_plan(server.address, "described", acls / 100 / _FILL_RATE, _FILL_RATE, 100))
    (request,) = describe_plan(server.address, 1.0).requests
    wait_until(
        lambda: count_described(_ask(server.address, request)) == acls,
        f"{acls} ACLs are visible", _STEP_SECONDS, 0.1,
    )  # fmt: skip


def _ask(address: str, request: bytes) -> bytes:
    """Return the body of an answer."""
    (host, _, port), frames = address.rpartition(":"), Frames()
    with socket.create_connection((host, int(port)), _STEP_SECONDS) as link:
        link.sendall(request)
        while (response := frames.next(1 << 30)) is None:
            frames.receive_data(link.recv(1 << 18))
    return bytes(response[RESPONSE_HEAD_BYTES:])


@contextmanager
def _daemon(place: Path) -> Iterator[tuple[AclServer, str]]:
    """Run a daemon with its own log; yield also its address for decisions."""
    directory, log_dir, settings = place / "daemon", place / "log", {"super.users": ANONYMOUS}
    format_log(directory, log_dir, settings)
    with ready_daemon(directory, log_dir, {**PATIENT, **settings}) as daemon:
        server = AclServer(daemon.listeners["PLAINTEXT"], Process(daemon.process_id))
        yield server, daemon.decision_http


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
        yield AclServer(broker.plaintext, Process(broker.process_id))
