"""Run a combined broker and controller on 127.0.0.1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.kafka_rig.process import KafkaProcess
from tests.kafka_rig.properties import (
    PLAIN_LOGIN,
    client_properties,
    find_free_ports,
    local_address,
    write_properties,
)
from tests.kafka_rig.rig import Output, Program, Rig

ADMIN: Final = "admin"
"""The user that broker and controller log in as, to each other; it must be a super user."""

CLUSTER_ID: Final = "AAAAAAAAQACAAAAAAAAAAQ"
NODE_ID: Final = 1

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
        return local_address(self.ports.plaintext)

    @property
    def sasl_plaintext(self) -> str:
        """The address (``host:port``) for clients that log in with SASL PLAIN."""
        return local_address(self.ports.sasl)

    @property
    def controller(self) -> str:
        """The controller's address (``host:port``); ``admin`` logs in with SASL PLAIN."""
        return local_address(self.ports.controller)

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
    config = _write_config(directory, log_dir, BrokerSettings(), Ports(*find_free_ports(3)))
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
    ports = Ports(*find_free_ports(3))
    config = _write_config(directory, log_dir, settings, ports)
    process = KafkaProcess(
        rig,
        directory,
        config,
        name="broker",
        jvm_options=settings.jvm_options,
        audit_level=settings.audit_level,
    )
    process.start()
    try:
        process.wait_until_ready()
        yield Broker(rig, directory, log_dir, settings, ports, process.process_id)
    finally:
        process.stop()


def _write_config(directory: Path, log_dir: Path, settings: BrokerSettings, ports: Ports) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "server.properties"
    write_properties(path, server_properties(log_dir, settings, ports))
    return path


def server_properties(
    log_dir: Path,
    settings: BrokerSettings,
    ports: Ports,
    *,
    node_id: int = NODE_ID,
    quorum: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the configuration of a node.

    Args:
        quorum: the keys that name the controllers; without them, the node is the only voter.
    """
    password = settings.users[ADMIN]
    users = "".join(f' user_{name}="{secret}"' for name, secret in settings.users.items())
    login = f'{PLAIN_LOGIN} username="{ADMIN}" password="{password}"{users};'
    controller = local_address(ports.controller)
    properties: dict[str, str] = {
        "process.roles": settings.roles,
        "node.id": str(node_id),
        **(quorum or {"controller.quorum.voters": f"{node_id}@{controller}"}),
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
    listeners: list[str] = []
    if "controller" in settings.roles:
        listeners.append(f"CONTROLLER://{controller}")
    if "broker" in settings.roles:
        listeners += [
            f"PLAINTEXT://{local_address(ports.plaintext)}",
            f"SASL_PLAINTEXT://{local_address(ports.sasl)}",
        ]
        properties |= _BROKER_PROPERTIES
        properties["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = login
    for name, (protocol, port) in settings.listeners.items():
        listeners.append(f"{name}://{local_address(port)}")
        properties["listener.security.protocol.map"] += f",{name}:{protocol}"
    properties["listeners"] = ",".join(listeners)
    if settings.linger_ms is not None:
        properties["controller.quorum.append.linger.ms"] = str(settings.linger_ms)
    return {**properties, **settings.more}
