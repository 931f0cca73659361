"""The servers of the matrix, and the clients' connections to them.

**Invariant:** each role has one server, on which all three users have that role: the anonymous
user, the user that logs in, and the user of the client's certificate. So a client has the same user
on every server, and only its rights differ.
"""

import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from authorizerd.acl.model import AclAdded
from authorizerd.image.changes import CredentialAdded, Partition, PartitionAdded, TopicAdded
from authorizerd.protocol.records.scram import ScramMechanism, make_credential, salt_password
from tests.client_matrix.calls import AdminClient, Login, Open, Protocol, Tls
from tests.client_matrix.checks import (
    HIDDEN,
    ITERATIONS,
    NAME,
    SCRAM_MECHANISMS,
    SEEN,
    AsRole,
    Role,
)
from tests.support.acls import acl
from tests.support.certificates import Authority
from tests.support.daemon_process import DaemonProcess, new_log, running
from tests.support.log_files import added, write_log

_PASSWORD: Final = f"{NAME}-secret"
_SALT: Final = b"a salt of the log"
_PRINCIPALS: Final = ("User:ANONYMOUS", f"User:{NAME}", f"User:CN={NAME},OU=test,O=test")
_PROTOCOLS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}
"""The security protocol of each listener."""
_PLAIN: Final = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{NAME}="{_PASSWORD}";'
)
_PARTITION: Final = Partition(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)

Connections = dict[tuple[Open, Protocol, Role], AdminClient]


@dataclass(frozen=True, slots=True)
class Servers:
    """Addresses by role and listener, the clients' certificates, and the connected clients."""

    addresses: Mapping[Role, Mapping[str, str]]
    tls: Tls
    clients: Connections = field(default_factory=dict)

    def of(self, open_client: Open, protocol: Protocol) -> AsRole:
        """Return a function that connects a client once for each role."""
        return partial(self._client, open_client, protocol)

    def _client(self, open_client: Open, protocol: Protocol, role: Role) -> AdminClient:
        key = (open_client, protocol, role)
        if key not in self.clients:
            is_mutual = protocol is Protocol.MUTUAL_SSL
            listener = "MUTUAL" if is_mutual else protocol.security_protocol
            mechanism = protocol.mechanism
            login = None if mechanism is None else Login(NAME, _PASSWORD, mechanism)
            has_tls = protocol.security_protocol.endswith("SSL")
            tls = self.tls if is_mutual else Tls(self.tls.authority)
            address = self.addresses[role][listener]
            self.clients[key] = open_client(address, login, tls if has_tls else None)
        return self.clients[key]

    def close(self) -> None:
        for client in self.clients.values():
            client.close()


@contextmanager
def running_servers(folder: Path) -> Iterator[Servers]:
    """Run a daemon for each role, on a log that names two topics."""
    formatted = new_log(folder)
    authority = Authority(folder)
    tls = Tls(authority.ca_file, authority.issue(NAME, common_name=NAME))
    listeners = _listeners(authority)
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        roles = list(Role)
        starting = [_running_as(role, folder, formatted, listeners) for role in roles]
        daemons = pool.map(stack.enter_context, starting)
        servers = Servers(
            {role: daemon.ready["listeners"] for role, daemon in zip(roles, daemons, strict=True)},
            tls,
        )
        stack.callback(servers.close)
        yield servers


def _listeners(authority: Authority) -> dict[str, str]:
    mutual = authority.server_keys(
        "listener.name.mutual.", client_auth="required", truststore_location=str(authority.ca_file)
    )
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in _PROTOCOLS),
        "listener.security.protocol.map": ",".join(map(":".join, _PROTOCOLS.items())),
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM_MECHANISMS)),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": _PLAIN,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": _PLAIN,
        **authority.server_keys(""),
        **mutual,
    }


def _running_as(
    role: Role, folder: Path, formatted: Path, listeners: Mapping[str, str]
) -> AbstractContextManager[DaemonProcess]:
    """Return a daemon with its own log, for which every user has this role."""
    place = folder / role.name.lower()
    log_dir = place / "log"
    shutil.copytree(formatted, log_dir)
    _write_log(log_dir, role)
    super_users = ";".join(_PRINCIPALS) if role is Role.SUPER_USER else ""
    return running(place, log_dir, {**listeners, "super.users": super_users})


def _write_log(log_dir: Path, role: Role) -> None:
    topics = [(name, name.encode().rjust(16, b"-")) for name in (SEEN, HIDDEN)]
    write_log(
        log_dir,
        [
            *(TopicAdded(*topic) for topic in topics),
            *(PartitionAdded(topic_id, 0, _PARTITION) for _, topic_id in topics),
            *map(_credential, ScramMechanism),
            *(_rules() if role is Role.DESCRIBER else ()),
        ],
    )


def _credential(mechanism: ScramMechanism) -> CredentialAdded:
    salted = salt_password(mechanism, _PASSWORD, _SALT, ITERATIONS)
    credential = make_credential(mechanism, salted, _SALT, ITERATIONS)
    return CredentialAdded(NAME, mechanism, credential)


def _rules() -> list[AclAdded]:
    acls = [
        allowed
        for principal in _PRINCIPALS
        for allowed in (
            acl(principal, "DESCRIBE", cluster=True),
            acl(principal, "DESCRIBE", topic=SEEN),
            acl(principal, "DESCRIBE", group=SEEN),
        )
    ]
    return [added(number, each) for number, each in enumerate(acls, 1)]
