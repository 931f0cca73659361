"""Early start listeners over real sockets, while a large log is being loaded (KIP-801).

The load is held back half-way until the test lets it go, so nothing here depends on how long it
takes.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from authorizerd.acl.model import Acl, AclAdded, AclFilter, Operation, PermissionType, ResourceType
from authorizerd.acl.steps import finish
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_delete_acls_response,
    decode_describe_acls_response,
    encode_create_acls_request,
    encode_delete_acls_request,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.acl_responses import FilterResult
from authorizerd.protocol.kafka.api import ApiKey, decode_response, encode_request
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.records.batch import encode_batch
from authorizerd.protocol.records.control import leader_change
from tests.end_to_end.held_daemon import HELD
from tests.support.daemon_process import ROOT as PROJECT
from tests.support.daemon_process import SECONDS_MAX, ask, write_config
from tests.support.log_files import (
    EPOCH,
    METADATA_VERSION,
    TIME_MS,
    added,
    data_batch,
    write_segment,
)

RECORDS_PER_BATCH = 500
BATCHES = 120
ACLS = RECORDS_PER_BATCH * BATCHES
READABLE = Acl(
    ResourceType.TOPIC, "orders", 3, "User:alice", "*", Operation.DESCRIBE, PermissionType.ALLOW
)
"""The log's last ACL, in the segment that the load is held back before."""

CREATED = Acl(ResourceType.TOPIC, "new", 3, "User:a", "*", Operation.READ, PermissionType.ALLOW)
NOT_READY = ErrorCode.AUTHORIZER_NOT_READY
REFUSED = ApiError(NOT_READY, NOT_READY.text)
RESPONSE_BYTES_MAX = 100 << 20
CONFIG = {
    "listeners": "EARLY://127.0.0.1:0,LATE://127.0.0.1:0",
    "listener.security.protocol.map": "EARLY:SASL_PLAINTEXT,LATE:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.early.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' user_root="r" user_alice="a";'
    ),
    "super.users": "User:root",
    "early.start.listeners": "EARLY",
}
LATE = ("LATE", "decision_http")


@pytest.fixture(scope="module")
def batches() -> tuple[bytes, bytes]:
    """Two segments' bytes: a large one, and one with the last ACL, which begins behind it."""
    pieces = [
        encode_batch(0, EPOCH, TIME_MS, [leader_change(1)], is_control=True),
        data_batch(1, [METADATA_VERSION]),
    ]
    for number in range(BATCHES):
        first = number * RECORDS_PER_BATCH
        records: list[AclAdded] = [added(first + n) for n in range(RECORDS_PER_BATCH)]
        pieces.append(data_batch(2 + first, records))
    return b"".join(pieces), data_batch(2 + ACLS, [added(ACLS, READABLE)])


class Held:
    """A daemon whose load is held back; ``addresses`` of all its endpoints by name."""

    def __init__(self, process: subprocess.Popen[str], ready_file: Path) -> None:
        self.process = process
        self.ready_file = ready_file
        self.addresses: dict[str, str] = {}
        self.clients: list[Client] = []
        assert process.stdout is not None
        assert process.stderr is not None
        held = process.stdout.readline()
        assert held == HELD, process.communicate()
        while len(self.addresses) < 4:
            _, found, rest = process.stderr.readline().partition("authorizerd: ")
            name, bound, address = rest.strip().partition(": bound to ")
            if found and bound:
                self.addresses[name] = address

    def connect(self, user: str | None, listener: str = "EARLY") -> Client:
        """Return a client, whose connection is closed at the end."""
        self.clients.append(Client(self.addresses[listener], user))
        return self.clients[-1]

    def release(self) -> None:
        """Let the load go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def is_open(self, name: str) -> bool:
        """Return True if connections are accepted; otherwise they are refused, not left waiting."""
        try:
            _connect(self.addresses[name]).close()
        except ConnectionRefusedError:
            return False
        return True

    def admin(self, path: str) -> tuple[int, bytes]:
        connection = HTTPConnection(self.addresses["admin_http"], timeout=SECONDS_MAX)
        try:
            answer = ask(connection, "GET", path)
        finally:
            connection.close()
        return answer.status, answer.body


@contextmanager
def held(folder: Path, config: Mapping[str, str], *segments: bytes) -> Iterator[Held]:
    """Run a daemon whose load is held back before the last segment; kill it at the end."""
    log_dir, ready_file = folder / "log", folder / "ready.json"
    write_segment(log_dir, 0, segments[0])
    write_segment(log_dir, 2 + ACLS, segments[1])
    config_file = write_config(folder, log_dir, config)
    process = subprocess.Popen(
        [
            sys.executable, "-m", "tests.end_to_end.held_daemon",
            "serve", "--config", config_file, "--ready-file", ready_file,
        ],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    clients: list[Client] = []
    never_held = threading.Timer(SECONDS_MAX, process.kill)
    never_held.start()
    try:
        daemon = Held(process, ready_file)
        never_held.cancel()
        clients = daemon.clients
        yield daemon
    finally:
        never_held.cancel()
        for client in clients:
            client.socket.close()
        process.kill()
        process.communicate()


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=SECONDS_MAX)


class Client:
    """A Kafka client that has logged in as ``user``, None where nobody has to."""

    def __init__(self, address: str, user: str | None) -> None:
        self.socket = _connect(address)
        self._connection = KafkaClientConnection("tests", RESPONSE_BYTES_MAX)
        if user is not None:
            chosen = self.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
            assert chosen.error_code == 0
            token = f"\0{user}\0{user[0]}".encode()
            assert self.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token).error_code == 0

    def ask(self, api_key: ApiKey, version: int, **fields: object) -> Any:  # noqa: ANN401
        """Return the entity that answers."""
        body = finish(encode_request(api_key, version, SimpleNamespace(**fields)))
        return finish(decode_response(api_key, version, self.ask_raw(api_key, version, body)))

    def ask_raw(self, api_key: ApiKey, version: int, body: bytes) -> bytes | bytearray:
        self.send(api_key, version, body)
        return self.receive()

    def send(self, api_key: ApiKey, version: int, body: bytes) -> None:
        self.socket.sendall(self._connection.frame_request(api_key, version, body))

    def receive(self) -> bytes | bytearray:
        while (response := self._connection.next_response()) is None:
            data = self.socket.recv(1 << 16)
            assert data, "closed"
            self._connection.receive_data(data)
        return response.body

    def create(self, version: int, *acls: Acl) -> list[ApiError | None]:
        body = encode_create_acls_request(version, acls)
        return decode_create_acls_response(version, self.ask_raw(ApiKey.CREATE_ACLS, version, body))

    def describe(self, version: int = 3) -> list[Acl] | ApiError:
        body = encode_describe_acls_request(version, AclFilter())
        return decode_describe_acls_response(
            version, self.ask_raw(ApiKey.DESCRIBE_ACLS, version, body)
        )

    def delete(self, version: int, *filters: AclFilter) -> list[FilterResult]:
        body = encode_delete_acls_request(version, filters)
        return decode_delete_acls_response(version, self.ask_raw(ApiKey.DELETE_ACLS, version, body))

    def metadata(self, *topics: str, version: int = 12) -> Any:  # noqa: ANN401 - an entity
        """Ask about ``topics``, all of them where none is named."""
        named = [SimpleNamespace(topic_id=None, name=topic) for topic in topics]
        return self.ask(
            ApiKey.METADATA,
            version,
            topics=named or None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
            include_cluster_authorized_operations=False,
        )

    def describe_cluster(self) -> Any:  # noqa: ANN401 - an entity
        return self.ask(
            ApiKey.DESCRIBE_CLUSTER,
            2,
            include_cluster_authorized_operations=True,
            endpoint_type=1,
            include_fenced_brokers=False,
        )

    def find_coordinators(self, version: int, *keys: str) -> Any:  # noqa: ANN401 - an entity
        return self.ask(
            ApiKey.FIND_COORDINATOR, version, key=keys[0], coordinator_keys=keys, key_type=0
        )

    def describe_groups(self, *groups: str) -> Any:  # noqa: ANN401 - an entity
        return self.ask(
            ApiKey.DESCRIBE_GROUPS, 6, groups=groups, include_authorized_operations=True
        )

    def describe_quorum(self) -> Any:  # noqa: ANN401 - an entity
        asked = SimpleNamespace(
            topic_name="__cluster_metadata", partitions=[SimpleNamespace(partition_index=0)]
        )
        return self.ask(ApiKey.DESCRIBE_QUORUM, 2, topics=[asked])


@pytest.fixture(scope="module")
def loading(
    batches: tuple[bytes, bytes], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Held]:
    """A daemon that is half-way through its log, and stays there."""
    with held(tmp_path_factory.mktemp("loading"), CONFIG, *batches) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def alice(loading: Held) -> Client:
    return loading.connect("alice")


@pytest.fixture(scope="module")
def root(loading: Held) -> Client:
    return loading.connect("root")


def test_every_other_endpoint_refuses_connections(loading: Held) -> None:
    """A balancer goes elsewhere at once; the admin port is open, and says how far it is."""
    assert {name: loading.is_open(name) for name in loading.addresses} == {
        "EARLY": True,
        "LATE": False,
        "decision_http": False,
        "admin_http": True,
    }
    status, body = loading.admin("/readyz")
    assert (status, body) == (503, b"loading: read up to log offset %d\n" % (1 + ACLS))
    assert b"authorizerd_acls -1.0" in loading.admin("/metrics")[1]
    assert not loading.ready_file.exists()


def test_a_super_user_is_served(loading: Held, root: Client) -> None:
    """Of the cluster all is known but its topics, and who leads a log that is not loaded."""
    host, _, port = loading.addresses["EARLY"].rpartition(":")
    everything = root.metadata()
    assert [(each.host, each.port) for each in everything.brokers] == [(host, int(port))]
    assert everything.topics == ()
    (topic,) = root.metadata("orders").topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster = root.describe_cluster()
    assert (cluster.error_code, cluster.cluster_id) == (0, everything.cluster_id)
    assert cluster.cluster_authorized_operations > 0
    assert root.find_coordinators(3, "g").error_code == 0
    assert [each.error_code for each in root.find_coordinators(4, "g", "h").coordinators] == [0, 0]
    (group,) = root.describe_groups("g").groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (metadata,) = root.describe_quorum().topics
    assert metadata.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", range(4))
def test_a_super_user_sees_no_acl_yet(root: Client, version: int) -> None:
    """An empty list, without an error: Kafka's StandardAuthorizer lists what it has published.

    Never half of the log: what was read so far shows only as a whole.
    """
    assert root.describe(version) == []


@pytest.mark.parametrize("version", range(4))
def test_others_acl_requests_are_refused(alice: Client, version: int) -> None:
    """At the top, each item, each filter without a match."""
    assert alice.describe(version) == REFUSED
    assert alice.create(version, CREATED, READABLE) == [REFUSED, REFUSED]
    assert alice.delete(version, AclFilter(), AclFilter()) == [FilterResult([], REFUSED)] * 2


def test_others_metadata_is_refused(alice: Client) -> None:
    """Each named topic, and no broker; all topics: an empty answer, an error from version 13 on."""
    named = alice.metadata("orders", "other")
    assert [(topic.name, topic.error_code) for topic in named.topics] == [
        ("orders", NOT_READY),
        ("other", NOT_READY),
    ]
    for version in (9, 12, 13):
        everything = alice.metadata(version=version)
        assert (named.brokers, everything.brokers, everything.topics) == ((), (), ())
        assert getattr(everything, "error_code", None) == (NOT_READY if version == 13 else None)


def test_others_questions_about_coordinators_are_refused(alice: Client) -> None:
    """At the top before version 4, each key from then on."""
    one = alice.find_coordinators(3, "g")
    assert (one.error_code, one.node_id, one.host) == (NOT_READY, -1, "")
    many = alice.find_coordinators(4, "g", "h").coordinators
    assert [(each.key, each.error_code) for each in many] == [("g", NOT_READY), ("h", NOT_READY)]


def test_others_descriptions_are_refused(alice: Client) -> None:
    """The cluster's and the quorum's at the top, the groups' each."""
    cluster = alice.describe_cluster()
    assert (cluster.error_code, cluster.error_message) == (NOT_READY, NOT_READY.text)
    assert (cluster.cluster_id, cluster.brokers) == ("", ())
    groups = alice.describe_groups("g", "h").groups
    assert [(each.group_id, each.error_code) for each in groups] == [
        ("g", NOT_READY),
        ("h", NOT_READY),
    ]
    quorum = alice.describe_quorum()
    assert (quorum.error_code, quorum.topics, quorum.nodes) == (NOT_READY, (), ())


def test_anybody_may_ask_for_versions(loading: Held) -> None:
    """Before a log-in too: it tells nothing that an ACL could hide."""
    client = loading.connect(None)
    answer = client.ask(
        ApiKey.API_VERSIONS, 3, client_software_name="tests", client_software_version="1"
    )
    assert answer.error_code == 0


def test_once_loaded_all_opens_and_everybody_is_served(
    batches: tuple[bytes, bytes], tmp_path: Path
) -> None:
    """On the connections that were there before, too; what a super user created waited for it."""
    config = CONFIG | {"controller.listener.names": "EARLY"}
    del config["early.start.listeners"]  # the controller's listeners are by default
    with held(tmp_path, config, *batches) as daemon:
        alice, root = daemon.connect("alice"), daemon.connect("root")
        assert [daemon.is_open(name) for name in LATE] == [False, False]
        assert alice.describe() == REFUSED
        root.send(ApiKey.CREATE_ACLS, 3, encode_create_acls_request(3, [CREATED]))
        daemon.release()
        assert decode_create_acls_response(3, root.receive()) == [None]
        wait_for(daemon.ready_file, daemon.process)
        assert [daemon.is_open(name) for name in LATE] == [True, True]
        denied = alice.describe()
        assert isinstance(denied, ApiError)
        assert denied.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        late = daemon.connect(None, "LATE")
        assert late.metadata("orders").topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        listed = root.describe()
        assert isinstance(listed, list)
        assert len(listed) == ACLS + 2
        assert {READABLE, CREATED} < set(listed)
        (partition,) = root.describe_quorum().topics[0].partitions
        ready = json.loads(daemon.ready_file.read_bytes())
        assert (partition.leader_id, partition.leader_epoch) == (1, EPOCH + 1)
        assert partition.high_watermark == 2 + ACLS + 3
        assert ready["listeners"] == {name: daemon.addresses[name] for name in ("EARLY", "LATE")}


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    give_up = time.monotonic() + SECONDS_MAX
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up, "not ready in time"
        time.sleep(0.01)


def test_a_log_that_cannot_be_loaded_ends_the_daemon(
    batches: tuple[bytes, bytes], tmp_path: Path
) -> None:
    """Exit code 1 and one line, though an early client is connected, whose connection ends."""
    large, last = batches
    damaged = last[:-1] + bytes((last[-1] ^ 1,)) + last
    with held(tmp_path, CONFIG, large, damaged) as daemon:
        root = daemon.connect("root")
        assert root.describe() == []
        daemon.release()
        _, errors = daemon.process.communicate(timeout=SECONDS_MAX)
        assert daemon.process.returncode == 1, errors
        assert "Traceback" not in errors
        assert f"{2 + ACLS:020d}.log" in errors.splitlines()[-1]
        assert root.socket.recv(1) == b""
        assert not daemon.ready_file.exists()
