"""Daemons that take changes of ACLs for a real cluster, and clients that send them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from authorizerd.acl.model import Acl
from authorizerd.protocol.kafka.api import ApiKey
from tests.kafka_rig.cluster import FIRST_CONTROLLER, Cluster
from tests.kafka_rig.followers import quorum_source
from tests.kafka_rig.properties import PLAIN_LOGIN
from tests.kafka_rig.rig import Program
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess, running
from tests.support.kafka_connection import KafkaConnection
from tests.support.sasl import SHA_512, ScramTokens

LISTENER = "CLIENTS"
MECHANISM = "SCRAM-SHA-512"
PASSWORD = "secret"
OWN: Mapping[str, str] = {
    "node.id": "9",
    "super.users": "User:bob;User:carol",
    "listeners": f"{LISTENER}://127.0.0.1:0",
    "listener.security.protocol.map": f"CONTROLLER:SASL_PLAINTEXT,{LISTENER}:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
    "listener.name.clients.plain.sasl.jaas.config": (f'{PLAIN_LOGIN} user_carol="{PASSWORD}";'),
}
PRINCIPALS = "authorizerd.writes.forward.principals"
PRIVILEGED = "authorizerd.writes.forward.privileged"


def may_alter(user: str) -> Acl:
    return acl(f"User:{user}", "ALTER", cluster=True)


@contextmanager
def following(
    cluster: Cluster, folder: Path, writes: str, more: Mapping[str, str] | None = None
) -> Iterator[DaemonProcess]:
    config = {**quorum_source(cluster), **OWN, "authorizerd.writes": writes, **(more or {})}
    with running(folder, folder / "copy", config) as daemon:
        yield daemon


@contextmanager
def connected(
    daemon: DaemonProcess, user: str, mechanism: str = MECHANISM
) -> Iterator[KafkaConnection]:
    """Connect as ``user``: with a credential of the cluster, or of the daemon."""
    address = daemon.ready["listeners"][LISTENER]
    if mechanism == "PLAIN":
        connection = KafkaConnection(address, user, PASSWORD)
    else:
        connection = KafkaConnection(address)
        tokens = ScramTokens(user, PASSWORD, SHA_512)
        assert connection.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism).error_code == 0
        challenge = connection.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=tokens.first())
        final = tokens.final(challenge.auth_bytes)
        assert connection.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=final).error_code == 0
    try:
        yield connection
    finally:
        connection.close()


def described(client: KafkaConnection) -> list[Acl]:
    acls = client.describe()
    assert isinstance(acls, list), acls
    return acls


def audited(cluster: Cluster, request: str) -> list[str]:
    """Return ``principal result operation`` for each line about ``request`` at the controller."""
    lines = cluster.members[FIRST_CONTROLLER].process.audit_log.read_text().splitlines()
    return [
        line.partition("Principal = ")[2].partition(" on resource")[0]
        for line in lines
        if f"for request = {request} " in line
    ]


def add_scram_users(cluster: Cluster, *users: str) -> None:
    for user in users:
        done = cluster.run(
            Program.CONFIGS, "--alter", "--entity-type", "users", "--entity-name", user,
            "--add-config", f"{MECHANISM}=[password={PASSWORD}]",
        )  # fmt: skip
        assert done.exit_code == 0, done
