"""Run a combined broker and controller on 127.0.0.1.

**Invariant:** a broker is always ended by its own process id: with SIGTERM, then with SIGKILL if it
does not end in time.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ops.kafka_rig.rig import SOURCES, Output, Program, Rig, RigError, java_environment

ADMIN: Final = "admin"
"""The user that broker and controller log in as, to each other; it must be a super user."""

CLUSTER_ID: Final = "AAAAAAAAQACAAAAAAAAAAQ"
NODE_ID: Final = 1
START_TIMEOUT_SECONDS: Final = 90.0
STOP_TIMEOUT_SECONDS: Final = 30.0

_STARTED: Final = "Kafka Server started"
_POLL_SECONDS: Final = 0.05
_SHOWN_LINES: Final = 30
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_BROKER_PROPERTIES: Final = {
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""Settings that a single node needs, or that make it faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """The settings of a broker.

    Args:
        roles: Kafka's ``process.roles``: both, or only ``controller``, which no tool can use.
        users: SASL PLAIN users with passwords, including ``admin``.
        linger_ms: how long the controller waits for more records; None is Kafka's default.
        audit_level: INFO audits only denials.
        jvm_options: the default is for a fast start, not for measurements.
        listeners: additional listeners on 127.0.0.1, by name: the security protocol and the port.
        more: additional lines of server.properties.
    """

    roles: str = "broker,controller"
    users: Mapping[str, str] = field(
        default_factory=lambda: {name: f"{name}-secret" for name in (ADMIN, "alice", "bob")}
    )
    super_users: tuple[str, ...] = (f"User:{ADMIN}",)
    allow_everyone_if_no_acl_found: bool = False
    linger_ms: int | None = None
    audit_level: str = "DEBUG"
    jvm_options: tuple[str, ...] = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    listeners: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ports:
    """On ``plaintext``, clients are User:ANONYMOUS; on ``sasl``, they log in with PLAIN."""

    plaintext: int
    sasl: int
    controller: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A ready broker. Its configuration and logs are in ``directory``."""

    rig: Rig
    directory: Path
    log_dir: Path
    settings: BrokerSettings
    ports: Ports
    process_id: int

    @property
    def plaintext(self) -> str:
        """The address (``host:port``) for clients that do not log in."""
        return _address(self.ports.plaintext)

    @property
    def sasl_plaintext(self) -> str:
        """The address (``host:port``) for clients that log in with SASL PLAIN."""
        return _address(self.ports.sasl)

    @property
    def controller(self) -> str:
        """The controller's address (``host:port``); ``admin`` logs in with SASL PLAIN."""
        return _address(self.ports.controller)

    @property
    def audit_log(self) -> Path:
        return self.directory / "kafka-authorizer.log"

    def run(self, program: Program, *arguments: str, user: str = ADMIN) -> Output:
        """Run one of Kafka's tools against this broker.

        Raises:
            RigError: see ``Rig.run``.
        """
        config = self.client_config(user)
        return self.rig.run(
            program,
            "--bootstrap-server",
            self.sasl_plaintext,
            "--command-config",
            config,
            *arguments,
        )

    def client_config(self, user: str) -> Path:
        """Write the configuration of a client that logs in as ``user``; return its path."""
        path = self.directory / f"{user}.properties"
        write_properties(path, client_properties(user, self.settings.users[user]))
        return path


def format_storage(
    rig: Rig, directory: Path, log_dir: Path, *arguments: str, cluster_id: str = CLUSTER_ID
) -> Output:
    """Format ``log_dir`` with kafka-storage; the configuration is written to ``directory``.

    ``arguments`` are passed to kafka-storage, for example ``--add-scram``.

    Raises:
        RigError: see ``Rig.run``.
    """
    config = _write_config(directory, log_dir, BrokerSettings(), _free_ports())
    return rig.run(
        Program.STORAGE, "format", "--cluster-id", cluster_id, "--config", config, *arguments
    )


@contextmanager
def running_broker(
    rig: Rig, directory: Path, log_dir: Path, settings: BrokerSettings | None = None
) -> Iterator[Broker]:
    """Run a broker on a formatted ``log_dir`` until the block ends.

    Raises:
        RigError: it did not become ready; the text has its first errors.
    """
    settings = settings or BrokerSettings()
    ports = _free_ports()
    config = _write_config(directory, log_dir, settings, ports)
    broker_log, audit_log = directory / "broker.log", directory / "kafka-authorizer.log"
    command = rig.command(
        "kafka.Kafka",
        config,
        options=(
            *settings.jvm_options,
            f"-Dlog4j2.configurationFile={SOURCES / 'broker-log4j2.properties'}",
            f"-Drig.audit.file={audit_log}",
            f"-Drig.audit.level={settings.audit_level}",
        ),
    )
    with broker_log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=java_environment(),
        )
    try:
        _wait_until_ready(process, broker_log)
        yield Broker(rig, directory, log_dir, settings, ports, process.pid)
    finally:
        _stop(process)


def _wait_until_ready(process: subprocess.Popen[bytes], broker_log: Path) -> None:
    give_up = time.monotonic() + START_TIMEOUT_SECONDS
    while True:
        ended = process.poll() is not None
        said = broker_log.read_text(encoding="utf-8", errors="replace")
        # A broker may print this and end at once.
        if _STARTED in said and not ended:
            return
        if ended or time.monotonic() > give_up:
            what = "ended" if ended else f"was not ready in {START_TIMEOUT_SECONDS:g} s"
            raise RigError(f"the broker {what}; {broker_log} says\n{_summarize(said)}")
        time.sleep(_POLL_SECONDS)


def _summarize(said: str) -> str:
    """Return a few lines of a log: from its first error on, or its end."""
    lines = said.splitlines()
    errors = [number for number, line in enumerate(lines) if "] ERROR " in line]
    start = errors[0] if errors else -_SHOWN_LINES
    return "\n".join(lines[start:][:_SHOWN_LINES])


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_ports() -> Ports:
    """Return different ports that were free a moment ago."""
    # All sockets stay open until the end, because the kernel may return a closed one's port again.
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        return Ports(*(each.getsockname()[1] for each in sockets))


def _address(port: int) -> str:
    return f"127.0.0.1:{port}"


def _write_config(directory: Path, log_dir: Path, settings: BrokerSettings, ports: Ports) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "server.properties"
    write_properties(path, server_properties(log_dir, settings, ports))
    return path


def server_properties(log_dir: Path, settings: BrokerSettings, ports: Ports) -> dict[str, str]:
    """Return the configuration of a combined node that is the only voter."""
    password = settings.users[ADMIN]
    users = "".join(f' user_{name}="{secret}"' for name, secret in settings.users.items())
    login = f'{_PLAIN} required username="{ADMIN}" password="{password}"{users};'
    controller = _address(ports.controller)
    properties: dict[str, str] = {
        "process.roles": settings.roles,
        "node.id": str(NODE_ID),
        "controller.quorum.voters": f"{NODE_ID}@{controller}",
        "listeners": f"CONTROLLER://{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,"
        "CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": login,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(settings.super_users),
        "allow.everyone.if.no.acl.found": str(settings.allow_everyone_if_no_acl_found).lower(),
        "log.dirs": str(log_dir),
    }
    if "broker" in settings.roles:
        properties["listeners"] += (
            f",PLAINTEXT://{_address(ports.plaintext)},SASL_PLAINTEXT://{_address(ports.sasl)}"
        )
        properties |= _BROKER_PROPERTIES
        properties["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = login
    for name, (protocol, port) in settings.listeners.items():
        properties["listeners"] += f",{name}://{_address(port)}"
        properties["listener.security.protocol.map"] += f",{name}:{protocol}"
    if settings.linger_ms is not None:
        properties["controller.quorum.append.linger.ms"] = str(settings.linger_ms)
    return {**properties, **settings.more}


def client_properties(user: str, password: str) -> dict[str, str]:
    """Return the configuration of a client that logs in as ``user`` with SASL PLAIN."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{_PLAIN} required username="{user}" password="{password}";',
    }


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a Java properties file, with escapes for all but ASCII."""
    lines = (f"{key}={_escaped(value)}\n" for key, value in properties.items())
    path.write_text("".join(lines), encoding="ascii")


def _escaped(value: str) -> str:
    # Java reads \\uXXXX as UTF-16, so characters above U+FFFF take two escapes.
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    pairs = (int.from_bytes(units[n : n + 2], "big") for n in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 0x80 else f"\\u{unit:04x}" for unit in pairs)
