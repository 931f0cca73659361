"""Connections to nodes: every security protocol, and errors that name a remedy."""

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from authorizerd.config.follow.settings import FollowSettings, LogIn, SourceKind
from authorizerd.config.tls import TlsSettings
from authorizerd.daemon.sources.nodes import NodeOpener
from authorizerd.daemon.sources.remedies import missing_right, remedy
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.errors import Cause, ConnectionFailedError, UnusableNodeError
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.records.scram import ScramMechanism
from tests.daemon.kafka_cluster import SILENCE, addresses, answer, without
from tests.kafka_client.tls_cluster import TlsCluster, new_server_context, new_settings
from tests.support.certificates import Authority, expired
from tests.support.scram_server import ScramServer

[FIRST] = addresses(1)
NO_SASL = answer(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())
PLAIN_OFFERED = answer(error_code=0, mechanisms=("PLAIN",))
ALICE = LogIn(mechanism="PLAIN", username="alice", password="TOP-SECRET")
EVERY_KIND = pytest.mark.parametrize("kind", [SourceKind.QUORUM, SourceKind.BROKERS])


def log_in_answer(code: int = 0, text: str | None = None) -> object:
    return answer(error_code=code, error_message=text, auth_bytes=b"", session_lifetime=timedelta())


@pytest.fixture
async def cluster(nursery: trio.Nursery) -> TlsCluster:
    return TlsCluster(nursery)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def opener(
    cluster: TlsCluster,
    log_in: LogIn | None = None,
    tls: TlsSettings | None = None,
    kind: SourceKind = SourceKind.QUORUM,
) -> NodeOpener:
    settings = FollowSettings(kind=kind, servers=(), log_in=log_in, tls=tls, client_id="us")
    return NodeOpener(settings, cluster.connect)


def secure(cluster: TlsCluster, authority: Authority) -> TlsSettings:
    """Let the node speak TLS; return the settings of a client that trusts it."""
    cluster.contexts[FIRST] = new_server_context(authority.issue("server", FIRST.host))
    return new_settings(truststore_location=authority.ca_file)


async def refusal(nodes: NodeOpener) -> UnusableNodeError:
    with trio.fail_after(30), pytest.raises(UnusableNodeError) as error:
        await nodes.open(FIRST.host, FIRST.port)
    assert "TOP-SECRET" not in str(error.value)
    return error.value


@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("mechanism", [None, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_node_is_opened(
    cluster: TlsCluster, authority: Authority, has_tls: bool, mechanism: str | None
) -> None:
    """This holds for PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL."""
    log_in = None if mechanism is None else replace(ALICE, mechanism=mechanism)
    answers: list[object] = [NO_SASL]
    if mechanism == "PLAIN":
        answers = [PLAIN_OFFERED, log_in_answer()]
    elif mechanism is not None:
        server = ScramServer(ScramMechanism[mechanism.replace("-", "_")], ALICE.password)
        answers = [*server.answers]
    node = cluster.add(FIRST, *answers)
    tls = secure(cluster, authority) if has_tls else None
    opened = await opener(cluster, log_in, tls).open(FIRST.host, FIRST.port)
    assert opened.address == FIRST
    assert {request.client_id for request in node.asked} == {"us"}
    assert (cluster.tried, node.answers) == ([FIRST], [])
    await opened.aclose()


async def test_node_without_sasl_handshake_is_opened(cluster: TlsCluster) -> None:
    cluster.add(FIRST, served=without(ApiKey.SASL_HANDSHAKE))
    await opener(cluster).open(FIRST.host, FIRST.port)


@dataclass(frozen=True)
class Case:
    """A node with these answers, and a client that it refuses, or that refuses it.

    Attributes:
        not_after: the end of the node's certificate; without one, the node does not speak TLS.
        trusts: whether the client knows the CA of the node's certificate; None without TLS.
        wants_certificate: whether the node asks clients for a certificate.
    """

    answers: tuple[object, ...] = ()
    log_in: LogIn | None = None
    not_after: datetime | None = None
    trusts: bool | None = None
    wants_certificate: bool = False

    def prepare(self, cluster: TlsCluster, authority: Authority) -> TlsSettings | None:
        """Add the node; return the TLS of the client."""
        cluster.add(FIRST, *self.answers)
        if self.not_after is not None:
            keystore = authority.issue("server", FIRST.host, not_after=self.not_after)
            ca = authority.ca_file if self.wants_certificate else None
            cluster.contexts[FIRST] = new_server_context(keystore, ca)
        if self.trusts is None:
            return None
        trusted = {"truststore_location": authority.ca_file} if self.trusts else {}
        return new_settings(**trusted)


VALID = datetime.now(UTC) + timedelta(days=1)
WRONG_PASSWORD = log_in_answer(58, "Invalid username or password")
OTHER_MECHANISM = answer(error_code=33, mechanisms=("GSSAPI",))


@pytest.mark.parametrize(
    ("case", "cause", "reason", "advice"),
    [
        (Case((PLAIN_OFFERED, WRONG_PASSWORD), ALICE), Cause.CREDENTIALS,
         "SASL_AUTHENTICATION_FAILED: Invalid username or password",
         "check the credentials in listener.name.NAME.MECHANISM.sasl.jaas.config"),
        (Case((OTHER_MECHANISM,), ALICE), Cause.MECHANISM,
         "UNSUPPORTED_SASL_MECHANISM: Client SASL mechanism 'PLAIN' not enabled",
         "set sasl.mechanism.controller.protocol to one of the enabled mechanisms"),
        (Case((NO_SASL,), ALICE), Cause.LOG_IN_UNEXPECTED,
         "ILLEGAL_SASL_STATE: Unexpected handshake request",
         "the listener has no authentication: change listener.security.protocol.map"),
        (Case((PLAIN_OFFERED,)), Cause.LOG_IN_REQUIRED,
         "the listener expects SASL_PLAINTEXT, but the client uses PLAINTEXT",
         "set sasl.mechanism.controller.protocol and listener.name"),
        (Case(not_after=VALID), Cause.TLS_REQUIRED,
         "the listener expects SSL or SASL_SSL, but the client uses PLAINTEXT",
         "set listener.name.NAME.ssl.truststore.location"),
        (Case((NO_SASL,), trusts=True), Cause.TLS_UNEXPECTED,
         "the listener expects PLAINTEXT, but the client uses SSL",
         "change listener.security.protocol.map"),
        (Case((), ALICE, VALID, trusts=False), Cause.UNKNOWN_CA,
         "is issued by an unknown CA",
         "set listener.name.NAME.ssl.truststore.location to the CA"),
        (Case((), ALICE, expired(), trusts=True), Cause.CERTIFICATE_EXPIRED,
         "expired on 2020-01-01", "renew the node's certificate"),
        (Case((NO_SASL,), None, VALID, trusts=True, wants_certificate=True),
         Cause.CLIENT_CERTIFICATE_REQUIRED,
         "the server requires a client certificate",
         "set listener.name.NAME.ssl.keystore.location"),
    ],
)  # fmt: skip
async def test_error_names_node_reason_and_remedy(
    cluster: TlsCluster, authority: Authority, case: Case, cause: Cause, reason: str, advice: str
) -> None:
    """Within two seconds, and it closes every connection."""
    tls = case.prepare(cluster, authority)
    start = trio.current_time()
    error = await refusal(opener(cluster, case.log_in, tls))
    assert trio.current_time() - start < 2
    assert error.cause is cause
    assert str(error).startswith("host0:9000: ")
    assert reason in str(error)
    assert advice in str(error)
    await trio.testing.wait_all_tasks_blocked()
    if not cluster.contexts:  # the node counts connections after the TLS handshake
        assert cluster.nodes[FIRST].closed == len(cluster.tried)


@EVERY_KIND
@pytest.mark.parametrize("cause", [each for each in Cause if each is not Cause.UNREACHABLE])
def test_every_cause_has_a_remedy(kind: SourceKind, cause: Cause) -> None:
    """It names only keys of that source."""
    text = remedy(kind, cause)
    assert text
    assert "{" not in text
    if kind is SourceKind.BROKERS:
        assert "listener.name" not in text
    else:
        assert "authorizerd.source" not in text


@EVERY_KIND
def test_missing_right_is_named(kind: SourceKind) -> None:
    right = {SourceKind.QUORUM: "ClusterAction", SourceKind.BROKERS: "Describe"}[kind]
    text = missing_right(kind, "alice")
    assert text.startswith("User:alice lacks")
    assert f"--operation {right} --allow-principal User:alice" in text
    assert "--allow-principal PRINCIPAL" in missing_right(kind, None)


async def test_refused_connection_is_not_explained(cluster: TlsCluster) -> None:
    with pytest.raises(ConnectionFailedError, match="host0:9000: Connection refused") as error:
        await opener(cluster).open(FIRST.host, FIRST.port)
    assert not isinstance(error.value, UnusableNodeError)
    assert cluster.tried == [FIRST]


@pytest.mark.usefixtures("autojump_clock")
async def test_silent_node_is_given_up(cluster: TlsCluster) -> None:
    cluster.add(FIRST, SILENCE)
    with pytest.raises(ConnectionFailedError, match="host0:9000: no"):
        await opener(cluster).open(FIRST.host, FIRST.port)
    assert trio.current_time() == pytest.approx(10, abs=0.1)


@pytest.mark.usefixtures("autojump_clock")
async def test_cancelled_check_closes_the_connection(cluster: TlsCluster) -> None:
    node = cluster.add(FIRST, SILENCE)
    streams: list[trio.abc.Stream] = []

    async def connect(address: Address) -> trio.abc.HalfCloseableStream:
        stream = await cluster.connect(address)
        streams.append(stream)
        return stream

    settings = FollowSettings(kind=SourceKind.QUORUM, servers=())
    with trio.move_on_after(1):
        await NodeOpener(settings, connect).open(FIRST.host, FIRST.port)
    assert node.names == ["API_VERSIONS 4", "SASL_HANDSHAKE 1"]
    [stream] = streams
    with pytest.raises(trio.ClosedResourceError):
        await stream.send_all(b"x")


async def test_changed_truststore_is_read_again(
    cluster: TlsCluster, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that cannot be used changes nothing, but is reported once."""
    cluster.add(FIRST, *[NO_SASL] * 4)
    secure(cluster, authority)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(Authority(tmp_path, "other").ca_file.read_bytes())
    nodes = opener(cluster, tls=new_settings(truststore_location=trusted))
    assert (await refusal(nodes)).cause is Cause.UNKNOWN_CA
    trusted.write_bytes(authority.ca_file.read_bytes())
    await (await nodes.open(FIRST.host, FIRST.port)).aclose()
    trusted.write_text("-----BEGIN")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await (await nodes.open(FIRST.host, FIRST.port)).aclose()
    [warning] = caplog.messages
    assert str(trusted) in warning
    assert "keep the previous certificates" in warning


async def test_missing_truststore_is_an_error(cluster: TlsCluster, tmp_path: Path) -> None:
    """It names the key and the file."""
    cluster.add(FIRST)
    path = tmp_path / "missing.pem"
    error = await refusal(opener(cluster, tls=new_settings(truststore_location=path)))
    assert "ssl.truststore.location" in str(error)
    assert str(path) in str(error)
