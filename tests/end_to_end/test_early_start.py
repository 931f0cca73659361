"""Early start listeners while a large log is being loaded (KIP-801).

The load stops half-way until the test continues it, so no test depends on its duration.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from authorizerd.acl.model import AclAdded, AclFilter
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    encode_create_acls_request,
)
from authorizerd.protocol.kafka.acls import FilterResult
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.records.batch import encode_batch
from authorizerd.protocol.records.control import leader_change
from tests.end_to_end.fake_service_manager import HeldService, held_service
from tests.support import log_files
from tests.support.acls import acl
from tests.support.daemon_process import SECONDS_MAX, ask_at, connect, write_config
from tests.support.fixture_types import TempPathFactory
from tests.support.kafka_connection import KafkaConnection

RECORDS_PER_BATCH = 500
BATCHES = 120
ACLS = RECORDS_PER_BATCH * BATCHES
READABLE = acl("User:alice", "DESCRIBE", topic="orders")
"""The log's last ACL, in the segment before which the load is held."""

CREATED = acl(topic="new")
NOT_READY = ErrorCode.AUTHORIZER_NOT_READY
REFUSED = ApiError(NOT_READY, NOT_READY.text)
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
    "authorizerd.metrics.http": "http://127.0.0.1:0",
}
LATE = ("LATE", "decision_http")


@pytest.fixture(scope="module")
def batches() -> tuple[bytes, bytes]:
    """Return the bytes of two segments: a large one, and one with the last ACL."""
    pieces = [
        encode_batch(0, log_files.EPOCH, log_files.TIME_MS, [leader_change(1)], is_control=True),
        log_files.data_batch(1, [log_files.METADATA_VERSION]),
    ]
    for number in range(BATCHES):
        first = number * RECORDS_PER_BATCH
        records: list[AclAdded] = [log_files.added(first + n) for n in range(RECORDS_PER_BATCH)]
        pieces.append(log_files.data_batch(2 + first, records))
    return b"".join(pieces), log_files.data_batch(2 + ACLS, [log_files.added(ACLS, READABLE)])


class Client(KafkaConnection):
    """A Kafka connection with the requests of these tests."""

    def describe_quorum(self) -> Any:  # noqa: ANN401 - an entity
        asked = SimpleNamespace(
            topic_name="__cluster_metadata", partitions=[SimpleNamespace(partition_index=0)]
        )
        return self.ask(ApiKey.DESCRIBE_QUORUM, 2, topics=[asked])


class Held:
    """A daemon whose load is held; ``addresses`` has all its endpoints by name."""

    def __init__(self, service: HeldService) -> None:
        self.process = service.process
        self.ready_file = service.ready_file
        self.release = service.release
        self.wait_until_ready = service.wait_until_ready
        self.addresses: dict[str, str] = {}
        self.clients: list[Client] = []
        assert self.process.stderr is not None
        while len(self.addresses) < 5:
            _, found, rest = self.process.stderr.readline().partition("authorizerd: ")
            name, bound, address = rest.strip().partition(": bound to ")
            if found and bound:
                self.addresses[name] = address

    def connect(self, user: str | None, listener: str = "EARLY") -> Client:
        """Return a client; its connection is closed at the end."""
        self.clients.append(Client(self.addresses[listener], user, (user or "")[:1]))
        return self.clients[-1]

    def is_open(self, name: str) -> bool:
        """Return True if connections are accepted, False if they are refused."""
        try:
            connect(self.addresses[name]).close()
        except ConnectionRefusedError:
            return False
        return True

    def get(self, path: str, name: str = "admin_http") -> tuple[int, bytes]:
        """Return status and body of an answer of the endpoint of this name."""
        answer = ask_at(self.addresses[name], "GET", path)
        return answer.status, answer.body


@contextmanager
def held(folder: Path, config: Mapping[str, str], *segments: bytes) -> Iterator[Held]:
    """Run a daemon whose load is held before the last segment; kill it at the end."""
    log_dir = folder / "log"
    log_files.write_segment(log_dir, 0, segments[0])
    log_files.write_segment(log_dir, 2 + ACLS, segments[1])
    with held_service(write_config(folder, log_dir, config), folder / "ready.json") as service:
        daemon = Held(service)
        try:
            yield daemon
        finally:
            for client in daemon.clients:
                client.close()


@pytest.fixture(scope="module")
def loading(batches: tuple[bytes, bytes], tmp_path_factory: TempPathFactory) -> Iterator[Held]:
    """Run a daemon that has read half of its log and waits."""
    with held(tmp_path_factory.mktemp("loading"), CONFIG, *batches) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def alice(loading: Held) -> Client:
    return loading.connect("alice")


@pytest.fixture(scope="module")
def root(loading: Held) -> Client:
    return loading.connect("root")


def test_every_other_endpoint_refuses_connections(loading: Held) -> None:
    """A load balancer then tries another daemon. The open ports report progress."""
    assert {name: loading.is_open(name) for name in loading.addresses} == {
        "EARLY": True,
        "LATE": False,
        "decision_http": False,
        "admin_http": True,
        "metrics_http": True,
    }
    for name in ("admin_http", "metrics_http"):
        status, body = loading.get("/readyz", name)
        assert (status, body) == (503, b"loading: read up to log offset %d\n" % (1 + ACLS))
    assert b"authorizerd_acls -1.0" in loading.get("/metrics")[1]
    assert not loading.ready_file.exists()


@pytest.mark.parametrize("version", range(4))
def test_a_super_user_sees_no_acl_yet(root: Client, version: int) -> None:
    """The list is empty, as with StandardAuthorizer: half a log is never visible."""
    assert root.describe(version) == []


@pytest.mark.parametrize("version", range(4))
def test_acl_requests_of_others_are_refused(alice: Client, version: int) -> None:
    assert alice.describe(version) == REFUSED
    assert alice.create(CREATED, READABLE, version=version) == [REFUSED, REFUSED]
    assert (
        alice.delete(AclFilter(), AclFilter(), version=version)
        == [FilterResult(matches=[], error=REFUSED)] * 2
    )


@pytest.mark.parametrize(
    ("user", "password"), [("root", "wrong"), ("root", "a"), ("nobody", "r"), ("", "r")]
)
def test_wrong_log_ins_are_refused_before_the_load_ends(
    loading: Held, user: str, password: str
) -> None:
    client = loading.connect(None)
    assert client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
    token = f"\0{user}\0{password}".encode()
    answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    with pytest.raises(ConnectionResetError):
        client.describe()


def test_nothing_else_is_answered_without_a_log_in(loading: Held) -> None:
    with pytest.raises(ConnectionResetError):
        loading.connect(None).describe()


def test_api_versions_needs_no_log_in(loading: Held) -> None:
    client = loading.connect(None)
    answer = client.ask(
        ApiKey.API_VERSIONS, 3, client_software_name="tests", client_software_version="1"
    )
    assert answer.error_code == 0


def test_all_endpoints_open_once_the_log_is_loaded(
    batches: tuple[bytes, bytes], tmp_path: Path
) -> None:
    """Earlier connections are served too. A super user's creation waits until then."""
    config = CONFIG | {"controller.listener.names": "EARLY"}
    del config["early.start.listeners"]  # by default, the controller's listeners
    with held(tmp_path, config, *batches) as daemon:
        alice, root = daemon.connect("alice"), daemon.connect("root")
        assert [daemon.is_open(name) for name in LATE] == [False, False]
        assert alice.describe() == REFUSED
        root.send(ApiKey.CREATE_ACLS, 3, encode_create_acls_request(3, [CREATED]))
        daemon.release()
        assert decode_create_acls_response(3, root.receive()) == [None]
        daemon.wait_until_ready()
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
        assert (partition.leader_id, partition.leader_epoch) == (1, log_files.EPOCH + 1)
        assert partition.high_watermark == 2 + ACLS + 3
        assert ready["listeners"] == {name: daemon.addresses[name] for name in ("EARLY", "LATE")}


def test_damaged_log_ends_the_daemon(batches: tuple[bytes, bytes], tmp_path: Path) -> None:
    """It exits with code 1 and one line. Early clients are disconnected."""
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
