"""A broker, and our daemon on a copy of its log, get the same requests of the same users.

**Invariant:** both start from one state and get all changes in one order. A broker applies a change
shortly after its answer, so a caller waits until both show the same state.
"""

import shutil
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka.api import ApiKey, has_response_tags
from tests.conformance.generated_requests import TOPICS, USERS, Fields, Request, grants, request_of
from tests.conformance.kafka_clients import create_topics
from tests.conformance.kafka_peer import CLOSED, Peer
from tests.kafka_rig.broker import ADMIN, Broker, BrokerSettings, format_storage, running_broker
from tests.kafka_rig.rig import Rig
from tests.support.daemon_process import running
from tests.support.kio_codec import decode_response
from tests.support.log_files import read_cluster

Answer = Any
"""A response's fields by name, or CLOSED."""

PASSWORDS: Final = {user: f"{user}-secret" for user in USERS}
SECONDS_MAX: Final = 20.0
STATIC: Final = {"max.connections": "3000"}
"""Settings of both sides."""

_ELR: Final = "eligible.leader.replicas.version"
"""With this feature, a broker refuses changes of configs that apply to every node."""
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_GROUP_KEY, _TRANSACTION_KEY = 0, 1
_API: Final = struct.Struct(">hh")
_CORRELATION_ID_BYTES: Final = 4


@dataclass
class Side:
    """The broker or the daemon: addresses by listener, connections by listener and user."""

    addresses: Mapping[str, str]
    peers: dict[tuple[str, str | None], Peer] = field(default_factory=dict)

    def ask(self, request: Request) -> Answer:
        """Send a request, over a new connection if the last one was closed."""
        place = _listener(request), request.user
        if place not in self.peers:
            self.peers[place] = self.connect(*place)
        try:
            body = self.peers[place].ask(request.api_key, request.version, request.body)
        except TimeoutError:
            raise AssertionError(f"no answer from {place} to {request}") from None
        if body is CLOSED:
            self.peers.pop(place).close()
            return CLOSED
        assert isinstance(body, bytes)
        answer = decoded(request.api_key, request.version, body)
        if answer.get("response_data"):
            answer["response_data"] = _inner_answer(request, answer["response_data"])
        return answer

    def connect(self, listener: str, user: str | None) -> Peer:
        peer = Peer(self.addresses[listener])
        if user is not None:
            peer.log_in(user, PASSWORDS[user])
        return peer

    def close(self) -> None:
        for peer in self.peers.values():
            peer.close()


def _listener(request: Request) -> str:
    if request.on_controller:
        return "CONTROLLER"
    return "PLAINTEXT" if request.user is None else "SASL_PLAINTEXT"


def decoded(api_key: ApiKey, version: int, body: bytes) -> dict[str, Any]:
    entity: Any = finish(decode_response(api_key, version, body))
    return asdict(entity)


def _inner_answer(request: Request, data: bytes) -> dict[str, Any]:
    key, version = _API.unpack_from(request.fields.request_data)
    api_key = ApiKey(key)
    start = _CORRELATION_ID_BYTES + has_response_tags(api_key, version)
    return decoded(api_key, version, data[start:])


@dataclass
class Both:
    """Both sides; ``ids`` has the id of each topic by name."""

    theirs: Side
    ours: Side
    ids: Mapping[str, UUID]


@contextmanager
def running_both(rig: Rig, folder: Path) -> Iterator[Both]:
    """Start a broker, create its topics, and start our daemon on a copy of its log."""
    done = format_storage(rig, folder / "format", folder / "theirs", "--feature", f"{_ELR}=0")
    assert done.exit_code == 0, done
    settings = BrokerSettings(users=PASSWORDS, linger_ms=0, audit_level="INFO", more=STATIC)
    with running_broker(rig, folder / "broker", folder / "theirs", settings) as broker:
        create_topics(broker, ADMIN, *TOPICS)
        theirs = Side(_addresses(broker))
        theirs.ask(grants())
        _make_coordinators(theirs)
        (folder / "config").mkdir()
        ours_dir = folder / "ours"
        shutil.copytree(broker.log_dir, ours_dir, ignore=shutil.ignore_patterns(".lock"))
        topics = read_cluster(ours_dir).topics
        ids = {name: UUID(bytes=topic.id) for name, topic in topics.items()}
        super_user = f"User:{ADMIN}"
        with running(folder / "config", ours_dir, _config(), super_users=super_user) as daemon:
            ours = Side(daemon.ready["listeners"])
            try:
                yield Both(theirs, ours, ids)
            finally:
                ours.close()
                theirs.close()


def _addresses(broker: Broker) -> dict[str, str]:
    return {
        "PLAINTEXT": broker.plaintext,
        "SASL_PLAINTEXT": broker.sasl_plaintext,
        "CONTROLLER": broker.controller,
    }


def _config() -> dict[str, str]:
    users = "".join(f' user_{name}="{secret}"' for name, secret in PASSWORDS.items())
    login = f'{_PLAIN} required username="{ADMIN}" password="{PASSWORDS[ADMIN]}"{users};'
    names = ("PLAINTEXT", "SASL_PLAINTEXT", "CONTROLLER")
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,"
        "CONTROLLER:SASL_PLAINTEXT",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
        **STATIC,
    }


def _make_coordinators(side: Side) -> None:
    """Wait until the broker has created and read the topics of groups and transactions."""
    keys = [(_GROUP_KEY, "group"), (_TRANSACTION_KEY, "transaction")]
    give_up = time.monotonic() + SECONDS_MAX
    while not (all(_has_coordinator(side, *key) for key in keys) and _knows_groups(side)):
        assert time.monotonic() < give_up, "no coordinator in time"
        time.sleep(0.1)


def _has_coordinator(side: Side, key_type: int, key: str) -> bool:
    fields = Fields(key_type=key_type, key=key)
    return bool(side.ask(request_of(ApiKey.FIND_COORDINATOR, 3, ADMIN, fields))["error_code"] == 0)


def _knows_groups(side: Side) -> bool:
    fields = Fields(groups=["group"], include_authorized_operations=False)
    (group,) = side.ask(request_of(ApiKey.DESCRIBE_GROUPS, 5, ADMIN, fields))["groups"]
    return bool(group["error_code"] == 0)
