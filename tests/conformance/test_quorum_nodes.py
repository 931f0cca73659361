"""Connections to real controllers: every security protocol, with CLUSTER_ACTION alone.

Each fact that ``tests.support.scripted_quorum`` imitates is tried here.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

import pytest
import trio

from authorizerd.acl.model import Acl
from authorizerd.config.follow.settings import FollowSettings, LogIn, SourceKind
from authorizerd.config.tls import TlsSettings
from authorizerd.daemon.sources.nodes import NodeOpener
from authorizerd.kafka_client.connection import Node
from authorizerd.kafka_client.errors import Cause, ConnectionFailedError, UnusableNodeError
from authorizerd.kafka_client.quorum_calls import (
    describe_quorum_call,
    fetch_call,
    fetch_snapshot_call,
)
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    encode_create_acls_request,
)
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.envelope_client import InnerRequest
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.fetch import FetchAnswer, FetchPosition, SnapshotAnswer
from authorizerd.protocol.kafka.quorum_messages import SnapshotId
from tests.kafka_client.tls_cluster import new_settings
from tests.kafka_rig.broker import (
    CLUSTER_ID,
    Broker,
    BrokerSettings,
    format_storage,
    running_broker,
)
from tests.kafka_rig.properties import find_lasting_ports
from tests.kafka_rig.rig import Program, Rig
from tests.support.acls import acl
from tests.support.certificates import Authority, convert_key
from tests.support.envelopes import envelope_call

LISTENERS: Final = {
    "PLAIN": "PLAINTEXT",
    "TLS": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
}
FOLLOWER: Final = "follower"
PASSWORD: Final = f"{FOLLOWER}-secret"
SESSION_SECONDS: Final = 2.0
SHORT: Final = "listener.name.both.scram-sha-512"
SCRAMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PLAIN: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    f' user_{FOLLOWER}="{PASSWORD}" user_alice="alice-secret";'
)


@dataclass(frozen=True)
class Secured:
    """A node with a controller listener for each protocol, and what a client needs."""

    broker: Broker
    authority: Authority
    keystore: Path

    def opener(self, listener: str, mechanism: str = "PLAIN", **changed: str) -> NodeOpener:
        log_in = LogIn(mechanism=mechanism, username=FOLLOWER, password=PASSWORD)
        return NodeOpener(
            FollowSettings(
                kind=SourceKind.QUORUM,
                servers=(),
                log_in=replace(log_in, **changed) if listener in ("SASL", "BOTH") else None,
                tls=self.tls if listener in ("TLS", "BOTH") else None,
            )
        )

    @property
    def tls(self) -> TlsSettings:
        return new_settings(
            truststore_location=self.authority.ca_file, keystore_location=self.keystore
        )

    async def open(self, listener: str, mechanism: str = "PLAIN") -> Node:
        return await self.opener(listener, mechanism).open("127.0.0.1", self.port(listener))

    def port(self, listener: str) -> int:
        return self.broker.settings.listeners[listener][1]


@pytest.fixture(scope="module")
def secured(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("quorum_nodes")
    authority = Authority(folder)
    ports = find_lasting_ports(len(LISTENERS))
    more = {
        "controller.listener.names": ",".join(("CONTROLLER", *LISTENERS)),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(convert_key(authority.issue("server", "127.0.0.1"))),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca_file),
        "listener.name.tls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{SHORT}.connections.max.reauth.ms": f"{SESSION_SECONDS * 1000:.0f}",
        "metadata.log.max.record.bytes.between.snapshots": "2000",
    }
    for name in ("sasl", "both"):
        more[f"listener.name.{name}.plain.sasl.jaas.config"] = PLAIN
    for name, each in product(("controller", "sasl_plaintext", "sasl", "both"), SCRAMS):
        more[f"listener.name.{name}.{each.lower()}.sasl.jaas.config"] = SCRAM
    settings = BrokerSettings(
        listeners={
            name: (protocol, port)
            for (name, protocol), port in zip(LISTENERS.items(), ports, strict=True)
        },
        more=more,
        linger_ms=0,
    )
    assert format_storage(rig, folder, folder / "log").exit_code == 0
    keystore = authority.issue("client", common_name="follower")
    with running_broker(rig, folder, folder / "log", settings) as broker:
        for principal in (FOLLOWER, "ANONYMOUS", "CN=follower,OU=test,O=test"):
            run(
                broker, Program.ACLS, "--add", "--allow-principal", f"User:{principal}",
                "--operation", "ClusterAction", "--cluster",
            )  # fmt: skip
        for mechanism in SCRAMS:
            run(
                broker, Program.CONFIGS, "--alter", "--entity-type", "users",
                "--entity-name", FOLLOWER, "--add-config", f"{mechanism}=[password={PASSWORD}]",
            )  # fmt: skip
        yield Secured(broker, authority, keystore)


def run(broker: Broker, program: Program, *arguments: str) -> None:
    done = broker.run(program, *arguments)
    assert done.exit_code == 0, done


@pytest.fixture
async def node(secured: Secured) -> AsyncIterator[Node]:
    node = await secured.open("PLAIN")
    yield node
    await node.aclose()


async def fetch(
    node: Node,
    epoch: int,
    *,
    offset: int = 0,
    last_epoch: int = 0,
    cluster_id: str | None = CLUSTER_ID,
    max_bytes: int = 1 << 20,
) -> FetchAnswer:
    position = FetchPosition(offset=offset, last_epoch=last_epoch, leader_epoch=epoch)
    call = fetch_call(cluster_id=cluster_id, position=position, max_wait_ms=0, max_bytes=max_bytes)
    return await node.request(call, 10_000)


async def fetch_snapshot(
    node: Node, snapshot: SnapshotId, position: int, epoch: int, max_bytes: int = 1 << 20
) -> SnapshotAnswer:
    call = fetch_snapshot_call(
        cluster_id=CLUSTER_ID,
        snapshot=snapshot,
        position=position,
        leader_epoch=epoch,
        max_bytes=max_bytes,
    )
    return await node.request(call, 10_000)


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("PLAIN", "PLAIN"),
        ("TLS", "PLAIN"),
        *product(("SASL", "BOTH"), ("PLAIN", *SCRAMS)),
    ],
)  # fmt: skip
async def test_every_protocol_and_mechanism_can_fetch(
    secured: Secured, listener: str, mechanism: str
) -> None:
    node = await secured.open(listener, mechanism)
    epoch = (await fetch(node, 0)).leader_epoch
    answer = await fetch(node, epoch)
    assert (answer.error_code, answer.leader_epoch) == (0, epoch)
    assert answer.high_watermark > 0
    await node.aclose()


async def test_errors_name_the_leader(secured: Secured, node: Node) -> None:
    """An answer without an error names it as well."""
    first = await fetch(node, 0)
    assert first.error_code == ErrorCode.FENCED_LEADER_EPOCH
    epoch = first.leader_epoch
    for asked, code in (
        (epoch, ErrorCode.NONE),
        (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, ErrorCode.INVALID_REQUEST),
    ):
        answer = await fetch(node, asked)
        assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (code, 1, epoch)
        assert dict(answer.endpoints) == {1: ("127.0.0.1", secured.port("PLAIN"))}
    other = await fetch(node, epoch, cluster_id="other")
    assert other.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


async def test_log_is_served_from_any_offset(node: Node) -> None:
    """But at offset 0, and for an older epoch, a snapshot. The last batch may be cut off."""
    epoch = (await fetch(node, 0)).leader_epoch
    first = await fetch(node, epoch)
    assert first.snapshot is not None
    whole = await fetch(node, epoch, offset=1, last_epoch=epoch)
    assert (whole.error_code, whole.snapshot, whole.diverging) == (0, None, None)
    for max_bytes in (1, 1000):
        part = await fetch(node, epoch, offset=1, last_epoch=epoch, max_bytes=max_bytes)
        assert bytes(whole.records).startswith(bytes(part.records))
        assert 0 < len(part.records) <= max(max_bytes, 1000)
    end = whole.high_watermark
    beyond = await fetch(node, epoch, offset=end + 1000, last_epoch=epoch)
    assert beyond.diverging is not None
    assert beyond.diverging.epoch == epoch
    assert end <= beyond.diverging.end_offset < end + 1000
    older = await fetch(node, epoch, offset=5, last_epoch=0)
    assert older.snapshot is not None
    newer = await fetch(node, epoch, offset=5, last_epoch=epoch + 1)
    assert newer.error_code == ErrorCode.INVALID_REQUEST


async def test_snapshot_comes_in_pieces_of_any_size(secured: Secured, node: Node) -> None:
    """Joined, they are the checkpoint's file."""
    epoch = (await fetch(node, 0)).leader_epoch
    snapshot = (await fetch(node, epoch)).snapshot
    assert snapshot is not None
    data, pieces, size = b"", 0, 1
    while len(data) < size:
        piece = await fetch_snapshot(node, snapshot, len(data), epoch, max_bytes=101 + pieces)
        assert (piece.error_code, piece.snapshot, piece.leader_id) == (0, snapshot, 1)
        data, pieces, size = data + piece.data, pieces + 1, piece.size
    name = f"{snapshot.end_offset:020}-{snapshot.epoch:010}.checkpoint"
    [path] = secured.broker.log_dir.rglob(name)
    assert data == path.read_bytes()
    assert pieces > 3


async def test_errors_of_snapshots_are_hidden(node: Node) -> None:
    """Kafka fails to write them: it reports an unknown error and no leader."""
    epoch = (await fetch(node, 0)).leader_epoch
    snapshot = (await fetch(node, epoch)).snapshot
    assert snapshot is not None
    for asked, position, asked_epoch in (
        (SnapshotId(3, epoch), 0, epoch),
        (snapshot, 1 << 30, epoch),
        (snapshot, 0, 0),
    ):
        answer = await fetch_snapshot(node, asked, position, asked_epoch)
        assert (answer.error_code, answer.leader_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)


async def test_other_rights_are_not_needed(node: Node) -> None:
    """CLUSTER_ACTION suffices for any other principal's changes, but not to see the quorum."""
    described = await node.request(describe_quorum_call(), 10_000)
    assert isinstance(described, ApiError)
    assert described.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for principal, error in (
        ("User:admin", None),
        ("User:bob", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ):
        [result] = await forward(node, principal, acl(topic="forwarded"))
        assert (result and result.code) == error


async def forward(node: Node, principal: str, *acls: Acl) -> list[ApiError | None]:
    body = encode_create_acls_request(3, acls)
    request = InnerRequest(api_key=ApiKey.CREATE_ACLS, api_version=3, body=body)
    call = envelope_call(request, principal=principal, host="2001:db8::1")
    answer = await node.request(call, 10_000)
    assert answer.error_code == 0
    return decode_create_acls_response(3, answer.body)


async def test_missing_right_is_an_error_of_the_whole_answer(secured: Secured) -> None:
    """Then the controller does not name the leader."""
    opener = secured.opener("SASL", username="alice", password="alice-secret")
    node = await opener.open("127.0.0.1", secured.port("SASL"))
    answer = await fetch(node, 0)
    assert (answer.error_code, answer.leader_id) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1)
    await node.aclose()


@pytest.mark.parametrize(
    ("opened", "listener", "cause"),
    [
        ("PLAIN", "SASL", Cause.LOG_IN_REQUIRED),
        ("PLAIN", "TLS", Cause.TLS_REQUIRED),
        ("PLAIN", "BOTH", Cause.TLS_REQUIRED),
        ("TLS", "PLAIN", Cause.TLS_UNEXPECTED),
        ("TLS", "BOTH", Cause.LOG_IN_REQUIRED),
        ("SASL", "PLAIN", Cause.LOG_IN_UNEXPECTED),
        ("SASL", "BOTH", Cause.TLS_REQUIRED),
        ("BOTH", "TLS", Cause.LOG_IN_UNEXPECTED),
        ("BOTH", "SASL", Cause.TLS_UNEXPECTED),
    ],
)
async def test_other_protocol_is_named(
    secured: Secured, opened: str, listener: str, cause: Cause
) -> None:
    """Within two seconds."""
    with pytest.raises(UnusableNodeError) as error, trio.fail_after(2):
        await secured.opener(opened).open("127.0.0.1", secured.port(listener))
    assert error.value.cause is cause


async def test_session_is_renewed_in_time(secured: Secured) -> None:
    """After its end, the controller closes the connection at the next request."""
    node = await secured.open("BOTH", "SCRAM-SHA-512")
    left = node.renewal_time - trio.current_time()
    assert 0 < left <= 0.85 * SESSION_SECONDS
    await trio.sleep(left)
    await fetch(node, 0)
    await trio.sleep(SESSION_SECONDS - left + 0.5)
    with pytest.raises(ConnectionFailedError):
        await fetch(node, 0)
    await node.aclose()
