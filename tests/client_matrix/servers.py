"""The servers of the matrix, and the clients' connections to them.

**Invariant:** there is one server for each role, on which every user, named or anonymous, has that
role. So a client's user is the same everywhere, and only its rights differ.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from authorizerd.acl.model import AclAdded
from authorizerd.image.changes import Partition, PartitionAdded, TopicAdded
from tests.client_matrix.calls import AdminClient, Login, Open, Protocol
from tests.client_matrix.checks import HIDDEN, SEEN, AsRole, Role
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess, new_log, running
from tests.support.log_files import added, write_log

USER: Final = Login("bob", "bob-secret")
_PRINCIPALS: Final = ("User:ANONYMOUS", "User:bob")
_LISTENERS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_{USER.username}="{USER.password}";'
    ),
}
_PARTITION: Final = Partition(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)

Connections = dict[tuple[Open, Protocol, Role], AdminClient]


@dataclass(frozen=True, slots=True)
class Servers:
    """Addresses by role and listener, and the connected clients."""

    addresses: Mapping[Role, Mapping[str, str]]
    clients: Connections = field(default_factory=dict)

    def of(self, open_client: Open, protocol: Protocol) -> AsRole:
        """Return a function that connects a client once for each role."""
        return partial(self._client, open_client, protocol)

    def _client(self, open_client: Open, protocol: Protocol, role: Role) -> AdminClient:
        key = (open_client, protocol, role)
        if key not in self.clients:
            login = USER if protocol is Protocol.SASL_PLAINTEXT else None
            self.clients[key] = open_client(self.addresses[role][protocol], login)
        return self.clients[key]

    def close(self) -> None:
        for client in self.clients.values():
            client.close()


@contextmanager
def running_servers(folder: Path) -> Iterator[Servers]:
    """Run a daemon for each role, on a log that names two topics."""
    formatted = new_log(folder)
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        roles = list(Role)
        starting = [_running_as(role, folder, formatted) for role in roles]
        daemons = pool.map(stack.enter_context, starting)
        servers = Servers(
            {role: daemon.ready["listeners"] for role, daemon in zip(roles, daemons, strict=True)}
        )
        stack.callback(servers.close)
        yield servers


def _running_as(role: Role, folder: Path, formatted: Path) -> AbstractContextManager[DaemonProcess]:
    """Return a daemon with its own log, for which every user has this role."""
    place = folder / role.name.lower()
    log_dir = place / "log"
    shutil.copytree(formatted, log_dir)
    _write_topics(log_dir, role)
    super_users = ";".join(_PRINCIPALS) if role is Role.SUPER_USER else ""
    return running(place, log_dir, _LISTENERS | {"super.users": super_users})


def _write_topics(log_dir: Path, role: Role) -> None:
    topics = [(name, name.encode().rjust(16, b"-")) for name in (SEEN, HIDDEN)]
    write_log(
        log_dir,
        [
            *(TopicAdded(*topic) for topic in topics),
            *(PartitionAdded(topic_id, 0, _PARTITION) for _, topic_id in topics),
            *(_rules() if role is Role.DESCRIBER else ()),
        ],
    )


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
