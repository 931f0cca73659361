"""TLS to Kafka: which certificates are accepted, and how each refusal is explained."""

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from authorizerd.config.tls import TlsSettings
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.kafka_client.errors import Cause, HandshakeFailedError
from authorizerd.tls.context import new_client_context
from authorizerd.tls.material import read_material
from tests.daemon.kafka_cluster import addresses, described
from tests.kafka_client.calls import describe_acls
from tests.kafka_client.tls_cluster import TlsCluster, new_server_context, new_settings
from tests.support.certificates import Authority, expired

[HOST] = addresses(1)
LOOPBACK = Address("127.0.0.1", 9000)


class Files:
    """Two CAs, and the keystores that they issue."""

    def __init__(self, folder: Path) -> None:
        self.ours = Authority(folder, "ours")
        self.other = Authority(folder, "other")
        self.pinned = self.ours.issue("pinned", HOST.host)
        self.self_signed = folder / "self-signed.pem"
        self.other.ca.private_key_pem.write_to_path(self.self_signed)
        self.other.ca.cert_pem.write_to_path(self.self_signed, append=True)

    def server(self, *hosts: str) -> Path:
        return self.ours.issue("server", *(hosts or (HOST.host,)), common_name="broker")

    def trusting(self, **more: str | Path) -> TlsSettings:
        return new_settings(truststore_location=self.ours.ca_file, **more)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("certificates"))


async def describe(
    cluster: TlsCluster,
    context: ssl.SSLContext,
    settings: TlsSettings,
    address: Address = HOST,
) -> list[str]:
    """Describe the ACLs at a node with this context, and return the requests received."""
    cluster.contexts[address] = context
    node = cluster.add(address, described())
    client = KafkaClient(
        ClientSettings(bootstrap=[address], tls=settings),
        lambda _: None,
        cluster.connect,
        new_client_context(settings, read_material(settings)),
    )
    with trio.fail_after(5):
        async with client:
            await client.request(describe_acls(), name="describeAcls", errors=lambda _: [])
    return node.names


def tls_1_2(context: ssl.SSLContext) -> ssl.SSLContext:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def with_suite(context: ssl.SSLContext) -> ssl.SSLContext:
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    return tls_1_2(context)


Case = Callable[[Files], tuple[ssl.SSLContext, TlsSettings]]

ACCEPTED: list[tuple[str, Case, Address]] = [
    ("host name", lambda f: (new_server_context(f.server()), f.trusting()), HOST),
    ("address", lambda f: (new_server_context(f.server("127.0.0.1")), f.trusting()), LOOPBACK),
    ("wildcard", lambda f: (new_server_context(f.server("*.a.test")), f.trusting()),
     Address("b.a.test", 1)),
    ("TLS 1.2", lambda f: (tls_1_2(new_server_context(f.server())), f.trusting()), HOST),
    ("without a check of the host", lambda f: (
        new_server_context(f.server("else.test")),
        f.trusting(endpoint_identification_algorithm=""),
    ), HOST),
    ("client certificate", lambda f: (
        new_server_context(f.server(), f.ours.ca_file),
        f.trusting(keystore_location=f.ours.issue("client")),
    ), HOST),
    ("the server's own certificate in the truststore", lambda f: (
        new_server_context(f.pinned), new_settings(truststore_location=f.pinned)
    ), HOST),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "address"), [row[1:] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED]
)
async def test_valid_certificates_are_accepted(
    cluster: TlsCluster, files: Files, case: Case, address: Address
) -> None:
    assert await describe(cluster, *case(files), address) == ["API_VERSIONS 4", "DESCRIBE_ACLS 3"]


REJECTED: list[tuple[Case, Cause, str]] = [
    (
        lambda f: (
            new_server_context(
                f.ours.issue("old", HOST.host, common_name="old", not_after=expired())
            ),
            f.trusting(),
        ),
        Cause.CERTIFICATE_EXPIRED,
        "host0:9000: the server's certificate (CN=old,OU=test,O=test) expired on 2020-01-01 00:00",
    ),
    (lambda f: (new_server_context(f.other.issue("server", HOST.host)), f.trusting()),
     Cause.UNKNOWN_CA, "(OU=test,O=test) is issued by an unknown CA: OU=Testing CA"),
    (lambda f: (new_server_context(f.other.issue("server", HOST.host)), new_settings()),
     Cause.UNKNOWN_CA, "is issued by an unknown CA: OU=Testing CA"),
    (lambda f: (new_server_context(f.self_signed), f.trusting()), Cause.UNKNOWN_CA,
     "is self-signed, and not in the truststore"),
    (lambda f: (new_server_context(f.server("a.test", "127.0.0.1")), f.trusting()),
     Cause.WRONG_HOST, "(CN=broker,OU=test,O=test) is for a.test, 127.0.0.1, not for host0"),
    (
        lambda f: (
            new_server_context(f.server(*(f"{name}.test" for name in "abcdefg"))),
            f.trusting(),
        ),
        Cause.WRONG_HOST,
        "is for a.test, b.test, c.test, d.test, e.test and 2 more, not for host0",
    ),
    (lambda f: (new_server_context(f.server(), f.ours.ca_file), f.trusting()),
     Cause.CLIENT_CERTIFICATE_REQUIRED,
     "host0:9000: the server requires a client certificate (alert certificate_required)"),
    (lambda f: (tls_1_2(new_server_context(f.server(), f.ours.ca_file)), f.trusting()),
     Cause.TLS_PARAMETERS, "or the server requires a client certificate (handshake failure)"),
    (
        lambda f: (
            new_server_context(f.server(), f.ours.ca_file),
            f.trusting(keystore_location=f.other.issue("client")),
        ),
        Cause.CLIENT_CERTIFICATE_REJECTED,
        "the server rejects the client's certificate (alert unknown_ca)",
    ),
    (
        lambda f: (
            tls_1_2(new_server_context(f.server(), f.ours.ca_file)),
            f.trusting(keystore_location=f.ours.issue("client", not_after=expired())),
        ),
        Cause.CLIENT_CERTIFICATE_REJECTED,
        "the server rejects the client's certificate (alert certificate_expired)",
    ),
    (
        lambda f: (
            tls_1_2(new_server_context(f.server())),
            f.trusting(enabled_protocols="TLSv1.3"),
        ),
        Cause.TLS_PARAMETERS,
        "client and server have no TLS version or cipher suite in common",
    ),
    (
        lambda f: (
            with_suite(new_server_context(f.server())),
            f.trusting(enabled_protocols="TLSv1.2",
                       cipher_suites="TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
        ),
        Cause.TLS_PARAMETERS,
        "client and server have no TLS version or cipher suite in common",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("case", "cause", "text"), REJECTED, ids=[row[2] for row in REJECTED])
async def test_rejected_certificate_is_explained(
    cluster: TlsCluster, files: Files, case: Case, cause: Cause, text: str
) -> None:
    """The error comes at once, without a second attempt, and no request is sent in the clear."""
    with pytest.raises(HandshakeFailedError) as error:
        await describe(cluster, *case(files))
    assert error.value.cause is cause
    assert text in error.value.text
    assert cluster.nodes[HOST].asked == [] or error.value.is_late
    assert len(cluster.tried) <= 2  # the second connection fetches the certificate
