"""Run a Kafka 3.9 broker with AclAuthorizer on 127.0.0.1, whose cluster is in ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.kafka_rig.admin import Admin
from tests.kafka_rig.process import KafkaProcess
from tests.kafka_rig.properties import (
    PLAIN_LOGIN,
    client_properties,
    find_free_ports,
    local_address,
    write_properties,
)
from tests.kafka_rig.rig import Rig
from tests.kafka_rig.zookeeper.ensemble import JVM_OPTIONS, ZooKeeper

ADMIN: Final = "admin"
"""The user that may do everything."""
PASSWORD: Final = "admin-secret"
_STARTED: Final = "[KafkaServer id=1] started"
_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"


@dataclass(frozen=True, slots=True)
class ZooKeeperBroker:
    """A ready broker. ``address`` is for clients that log in as ``admin`` with SASL PLAIN."""

    directory: Path
    address: str
    process: KafkaProcess

    def admin(self) -> Admin:
        """Connect as ``admin``.

        Raises:
            OSError, RigError: it does not accept the connection or the credentials.
        """
        return Admin(self.address, ADMIN, PASSWORD)

    def client_config(self) -> Path:
        """Write the configuration of a client that logs in as ``admin``; return its path."""
        path = self.directory / "client.properties"
        write_properties(path, client_properties(ADMIN, PASSWORD))
        return path


@contextmanager
def running_zookeeper_broker(
    rig: Rig, directory: Path, zookeeper: ZooKeeper, chroot: str, *, user: str | None
) -> Iterator[ZooKeeperBroker]:
    """Run a broker until the block ends. Its znodes are below ``chroot``, for example ``/kafka``.

    Args:
        user: logs in to ZooKeeper with SASL, and owns the znodes (zookeeper.set.acl=true); None for
            no authentication and open znodes.

    Raises:
        RigError: it did not become ready.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (port,) = find_free_ports(1)
    address = local_address(port)
    config = directory / "server.properties"
    login = f'{PLAIN_LOGIN} username="{ADMIN}" password="{PASSWORD}" user_{ADMIN}="{PASSWORD}";'
    write_properties(
        config,
        {
            "broker.id": "1",
            "zookeeper.connect": f"{zookeeper.address}{chroot}",
            "zookeeper.set.acl": str(user is not None).lower(),
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{ADMIN}",
            "listeners": f"SASL_PLAINTEXT://{address}",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
            "offsets.topic.replication.factor": "1",
            "log.dirs": str(directory / "log"),
        },
    )
    jaas = () if user is None else (zookeeper.write_jaas(user),)
    process = KafkaProcess(
        rig,
        directory,
        config,
        name="broker",
        jvm_options=(
            *JVM_OPTIONS,
            *(f"-Djava.security.auth.login.config={each}" for each in jaas),
        ),
        audit_level="INFO",
        started=_STARTED,
    )
    process.start()
    try:
        process.wait_until_ready()
        yield ZooKeeperBroker(directory, address, process)
    finally:
        process.kill()  # a controlled shutdown takes long
