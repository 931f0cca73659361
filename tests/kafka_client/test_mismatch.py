"""Security protocols that do not match: the error names each at once, and no secret is sent."""

from contextlib import suppress

import pytest
import trio
from trio.testing import memory_stream_pair

from authorizerd.config.tls import TlsSettings
from authorizerd.kafka_client import tls_stream
from authorizerd.kafka_client.address import Address
from authorizerd.kafka_client.client import ClientSettings, KafkaClient
from authorizerd.kafka_client.errors import Cause, ConnectionFailedError, RequestFailedError
from authorizerd.kafka_client.log_in import Credentials, Mechanism
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.tls.context import new_client_context
from authorizerd.tls.material import read_material
from tests.daemon.kafka_cluster import HANG_UP, addresses, answer
from tests.kafka_client.calls import describe_acls
from tests.kafka_client.tls_cluster import TlsCluster, new_server_context, new_settings
from tests.support.certificates import Authority

FIRST, SECOND = addresses(2)
NO_SASL = answer(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())
SASL = answer(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=("GSSAPI",))
ALICE = Credentials(mechanism=Mechanism.PLAIN, username="alice", password="TOP-SECRET")
MISMATCH = "host0:9000: the listener expects {}, but the client uses {}"
ALERT = b"\x15\x03\x03\x00\x02\x02\x50"
"""The answer of a real Kafka 4.3.1 to bytes that are not TLS: internal_error."""


async def refusal(
    cluster: TlsCluster,
    *bootstrap: Address,
    tls: TlsSettings | None = None,
    credentials: Credentials | None = None,
) -> tuple[RequestFailedError, list[str]]:
    """Describe the ACLs; return the error and the warnings."""
    warned: list[str] = []
    settings = ClientSettings(bootstrap=bootstrap or [FIRST], tls=tls, credentials=credentials)
    context = None if tls is None else new_client_context(tls, read_material(tls))
    async with KafkaClient(settings, warned.append, cluster.connect, context) as client:
        # Far less than the minute for which a client would try again.
        with pytest.raises(RequestFailedError) as error, trio.fail_after(30):
            await client.request(describe_acls(), name="describeAcls", errors=lambda _: [])
    return error.value, warned


def secured(authority: Authority, cluster: TlsCluster, *answers: object) -> None:
    cluster.contexts[FIRST] = new_server_context(authority.issue("server", FIRST.host))
    cluster.add(FIRST, *answers)


def answer_raw(cluster: TlsCluster, *, to_hello: bytes, otherwise: bytes) -> None:
    """Answer the first bytes: a TLS client by ``to_hello``, others by ``otherwise``. Then close."""

    async def serve(stream: trio.abc.HalfCloseableStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                received = bytes(await stream.receive_some())
                is_hello = received.startswith(b"\x16\x03")
                await stream.send_all(to_hello if is_hello else otherwise)

    async def connect(address: Address) -> trio.abc.HalfCloseableStream:
        theirs, ours = memory_stream_pair()
        cluster.nursery.start_soon(serve, theirs)
        return ours

    cluster.connect = connect  # type: ignore[method-assign]


@pytest.mark.parametrize("credentials", [None, ALICE])
async def test_client_without_tls_is_told_that_the_listener_has_it(
    cluster: TlsCluster, authority: Authority, credentials: Credentials | None
) -> None:
    secured(authority, cluster)
    error, warned = await refusal(cluster, credentials=credentials)
    own = "PLAINTEXT" if credentials is None else "SASL_PLAINTEXT"
    assert error.cause is Cause.TLS_REQUIRED
    assert error.error.message == MISMATCH.format("SSL or SASL_SSL", own)
    assert warned == []


@pytest.mark.parametrize("to_cleartext", [ALERT, b""])
async def test_tls_is_found_whether_the_listener_sends_an_alert_or_only_closes(
    cluster: TlsCluster, to_cleartext: bytes
) -> None:
    answer_raw(cluster, to_hello=b"\x16\x03\x03", otherwise=to_cleartext)
    error, _ = await refusal(cluster)
    assert error.cause is Cause.TLS_REQUIRED


@pytest.mark.parametrize(
    ("expected", "answers"), [("PLAINTEXT", [NO_SASL]), ("SASL_PLAINTEXT", [SASL])]
)
@pytest.mark.parametrize("credentials", [None, ALICE])
async def test_client_with_tls_is_told_that_the_listener_has_none(
    cluster: TlsCluster,
    authority: Authority,
    expected: str,
    answers: list[object],
    credentials: Credentials | None,
) -> None:
    """The probe sends neither the password nor an ACL."""
    node = cluster.add(FIRST, *answers)
    tls = new_settings(truststore_location=authority.ca_file)
    error, warned = await refusal(cluster, tls=tls, credentials=credentials)
    own = "SSL" if credentials is None else "SASL_SSL"
    assert error.cause is Cause.TLS_UNEXPECTED
    assert error.error.message == MISMATCH.format(expected, own)
    assert warned == []
    assert node.names == ["API_VERSIONS 4", "SASL_HANDSHAKE 1"]


async def test_listener_without_tls_that_waits_for_a_large_request_is_found(
    cluster: TlsCluster, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Source: Kafka with ``socket.request.max.bytes`` above 0x16030102 bytes, 369 MB."""
    monkeypatch.setattr(tls_stream, "PATIENCE_SECONDS", 0.1)
    cluster.add(FIRST, NO_SASL, NO_SASL).request_bytes_max = 1 << 30
    tls = new_settings(truststore_location=authority.ca_file)
    error, warned = await refusal(cluster, tls=tls)
    assert error.cause is Cause.TLS_UNEXPECTED
    assert warned == []


async def test_client_without_a_log_in_is_told_that_the_listener_requires_one(
    cluster: TlsCluster, authority: Authority
) -> None:
    secured(authority, cluster, HANG_UP, SASL)
    tls = new_settings(truststore_location=authority.ca_file)
    error, warned = await refusal(cluster, tls=tls)
    assert error.cause is Cause.LOG_IN_REQUIRED
    assert error.error.message == MISMATCH.format("SASL_SSL", "SSL")
    assert warned == []


async def test_client_with_a_log_in_is_told_that_the_listener_has_none(
    cluster: TlsCluster, authority: Authority
) -> None:
    secured(authority, cluster, NO_SASL)
    tls = new_settings(truststore_location=authority.ca_file)
    error, _ = await refusal(cluster, tls=tls, credentials=ALICE)
    assert error.cause is Cause.LOG_IN_UNEXPECTED
    assert "enabled mechanisms are []" in str(error)


async def test_mismatch_is_found_behind_an_unreachable_server(
    cluster: TlsCluster, authority: Authority
) -> None:
    """The order of the two servers does not matter."""
    secured(authority, cluster)
    for bootstrap in ((SECOND, FIRST), (FIRST, SECOND)):
        error, warned = await refusal(cluster, *bootstrap)
        assert error.cause is Cause.TLS_REQUIRED
        assert warned == ["host1:9001: Connection refused"]


async def test_mismatch_is_found_beside_a_server_that_may_come_back(
    cluster: TlsCluster, authority: Authority
) -> None:
    """Otherwise the client would try again for a minute."""
    secured(authority, cluster)

    async def connect(address: Address) -> trio.abc.HalfCloseableStream:
        if address == SECOND:
            raise ConnectionFailedError(f"{address}: No route to host")
        return await TlsCluster.connect(cluster, address)

    cluster.connect = connect  # type: ignore[method-assign]
    error, warned = await refusal(cluster, SECOND, FIRST)
    assert error.cause is Cause.TLS_REQUIRED
    assert warned == ["host1:9001: No route to host"]


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("given", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15", b""])
async def test_other_servers_are_not_taken_for_tls(cluster: TlsCluster, given: bytes) -> None:
    answer_raw(cluster, to_hello=given, otherwise=given)
    error, warned = await refusal(cluster)
    assert error.cause is Cause.UNREACHABLE
    assert warned == []  # the error says the same
