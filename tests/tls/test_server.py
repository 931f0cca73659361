import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
import trio
from trustme import KeyType

from authorizerd.config.tls import DEFAULT_MAPPING, ClientAuth, TlsSettings
from authorizerd.tls.errors import TlsError
from authorizerd.tls.material import read_material
from authorizerd.tls.server import AnsweredHello, Identity, TlsServer, identify, prepare_tls
from authorizerd.tls.stream import Quick, TlsStream, Working
from tests.support.certificates import Authority, with_unknown_version
from tests.support.tls_servers import new_tls_server, server_settings

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


KEPT: list[TlsStream] = []
"""OpenSSL forgets the session of a connection that is freed before its end is announced."""


async def accept(
    server: TlsServer,
    context: ssl.SSLContext,
    session: ssl.SSLSession | None = None,
    *,
    is_retried: bool = False,
) -> tuple[Identity | None, ssl.SSLSession | None]:
    """Return the identity that the server finds, and the client's session.

    Args:
        is_retried: True if the server asks for another hello before it begins.

    Raises:
        TlsError: the server refuses the client.
    """
    ours, theirs = socket.socketpair()
    sessions: list[ssl.SSLSession | None] = []

    def connect() -> None:
        with (
            suppress(OSError),
            context.wrap_socket(theirs, server_hostname="localhost", session=session) as client,
        ):
            client.recv(1)  # until the server has sent its ticket, and closes
            sessions.append(client.session)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, connect)
            async with trio.SocketStream(trio.socket.from_stdlib_socket(ours)) as transport:
                hello = None
                if is_retried:
                    opening = await transport.receive_some()
                    answered = server.answer(bytes(opening), is_retried=True)
                    assert answered is not None
                    hello, size = answered
                    assert size == len(opening)
                stream, identity = await server.accept(transport, answered=hello)
                KEPT.append(stream)
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    finally:
        theirs.close()
    return identity, sessions[0]


async def test_mapped_name_and_end_of_the_certificate_are_the_identity(
    authority: Authority,
) -> None:
    context = authority.client_context(authority.issue("client", common_name="Billing"))
    rules = "RULE:^CN=([^,]+),OU=test,O=test$/$1/U"
    identity, _ = await accept(new_tls_server(server_settings(authority, rules)), context)
    assert identity is not None
    assert identity.principal == "User:BILLING"
    assert identity.not_before <= datetime.now(UTC).timestamp() < identity.not_after


async def test_retried_client_is_identified_all_the_same(authority: Authority) -> None:
    """A client without a certificate, or with one of another CA, is refused as without a retry."""
    server = new_tls_server(server_settings(authority))
    context = authority.client_context(authority.issue("client", common_name="billing"))
    identity, _ = await accept(server, context, is_retried=True)
    assert identity is not None
    assert identity.principal == "User:CN=billing,OU=test,O=test"
    with pytest.raises(TlsError, match="peer did not return a certificate"):
        await accept(server, authority.client_context(), is_retried=True)


async def test_truststore_replaced_after_a_retry_counts(
    authority: Authority, tmp_path: Path
) -> None:
    server = new_tls_server(server_settings(authority))
    answer = server.answer
    other = server_settings(authority, trusted=Authority(tmp_path, "other").ca_file)

    def answer_and_replace(opening: bytes, *, is_retried: bool) -> tuple[AnsweredHello, int] | None:
        answered = answer(opening, is_retried=is_retried)
        use(server, other)
        return answered

    server.answer = answer_and_replace  # type: ignore[method-assign]  # the moment in between
    with pytest.raises(TlsError, match="truststore was replaced"):
        await accept(server, authority.client_context(authority.issue("client")), is_retried=True)


@pytest.mark.parametrize(
    ("key_type", "client_auth", "protocols", "quick"),
    [
        (KeyType.ECDSA, ClientAuth.NONE, "TLSv1.2,TLSv1.3", Quick.WHOLE),
        (KeyType.RSA, ClientAuth.NONE, "TLSv1.3", Quick.END),
        (KeyType.ECDSA, ClientAuth.NONE, "TLSv1.2", Quick.NOTHING),
        (KeyType.ECDSA, ClientAuth.REQUESTED, "TLSv1.3", Quick.NOTHING),
    ],
)
async def test_only_quick_steps_run_on_the_event_loop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key_type: KeyType,
    client_auth: ClientAuth,
    protocols: str,
    quick: Quick,
) -> None:
    """A signature with RSA, and what the client chooses, may take milliseconds."""
    authority = Authority(tmp_path, key_type=key_type)
    settings = server_settings(authority, client_auth=client_auth)
    server = new_tls_server(replace(settings, protocols=tuple(protocols.split(","))))
    assert server.current.quick is quick
    in_threads: list[bool] = []
    step = TlsStream._step

    def note(stream: TlsStream) -> ssl.SSLError | None:
        in_threads.append(threading.current_thread() is not threading.main_thread())
        return step(stream)

    monkeypatch.setattr(TlsStream, "_step", note)
    await accept(server, authority.client_context())
    assert in_threads == [quick is not Quick.WHOLE, quick is Quick.NOTHING]


async def test_client_whose_name_no_rule_maps_is_refused(authority: Authority) -> None:
    context = authority.client_context(authority.issue("client", common_name="billing"))
    server = new_tls_server(server_settings(authority, "RULE:^CN=x$/x/"))
    with pytest.raises(TlsError, match="cannot map the client"):
        await accept(server, context)


def test_certificate_of_an_unknown_version_is_refused(authority: Authority) -> None:
    pem = authority.issue("client").read_text()
    certificate = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :])
    with pytest.raises(TlsError, match="cannot map the client"):
        identify(with_unknown_version(certificate), DEFAULT_MAPPING)


@pytest.mark.parametrize("version", VERSIONS)
async def test_resumed_session_does_not_outlive_the_certificate(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, version: ssl.TLSVersion
) -> None:
    """OpenSSL verifies the certificate only in the first handshake of a session."""
    end = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0)
    keystore = authority.issue("client", common_name="billing", not_after=end)
    context = authority.client_context(keystore)
    context.minimum_version = context.maximum_version = version
    server = new_tls_server(server_settings(authority))
    identity, session = await accept(server, context)
    assert identity is not None
    resumed, session = await accept(server, context, session)
    assert resumed == identity
    assert server.current.context.session_stats()["hits"] == 1
    monkeypatch.setattr("authorizerd.tls.server.time", Mock(time=end.timestamp))
    with pytest.raises(TlsError, match="certificate has expired"):
        await accept(server, context, session)


@pytest.mark.parametrize("version", VERSIONS)
async def test_replaced_truststore_ends_old_sessions(
    authority: Authority, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    context = authority.client_context(authority.issue("client"))
    context.minimum_version = context.maximum_version = version
    server = new_tls_server(server_settings(authority))
    _, session = await accept(server, context)
    other = server_settings(authority, trusted=Authority(tmp_path, "other").ca_file)
    assert use(server, other)
    with pytest.raises(TlsError, match="certificate verify failed"):
        await accept(server, context, session)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("client_auth", [ClientAuth.NONE, ClientAuth.REQUIRED])
async def test_session_is_resumed_until_the_certificates_are_replaced(
    authority: Authority, version: ssl.TLSVersion, client_auth: ClientAuth
) -> None:
    """Then the client is verified, and mapped to a principal, as a new one."""
    context = authority.client_context(authority.issue("client", common_name="billing"))
    context.minimum_version = context.maximum_version = version
    settings = server_settings(authority, client_auth=client_auth)
    server = new_tls_server(settings)
    identity, session = await accept(server, context)
    for _ in range(2):
        resumed, session = await accept(server, context, session)
        assert (resumed, KEPT[-1]._tls.session_reused) == (identity, True)
    other = server_settings(authority, "RULE:^CN=([^,]+),.*$/$1/", client_auth=client_auth)
    use(server, other)
    mapped, _ = await accept(server, context, session)
    assert not KEPT[-1]._tls.session_reused
    assert mapped is None or mapped.principal == "User:billing"


async def test_truststore_replaced_during_a_handshake_counts(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = server_settings(authority, trusted=Authority(tmp_path, "other").ca_file)
    server = new_tls_server(server_settings(authority))
    handshake = TlsStream.handshake

    async def replace_meanwhile(stream: TlsStream, working: Working) -> None:
        await handshake(stream, working)
        use(server, other)

    monkeypatch.setattr(TlsStream, "handshake", replace_meanwhile)
    with pytest.raises(TlsError, match="truststore was replaced"):
        await accept(server, authority.client_context(authority.issue("client")))


def test_clients_are_identified_again_only_for_lost_cas_and_new_rules(
    authority: Authority, tmp_path: Path
) -> None:
    settings = server_settings(authority)
    server = new_tls_server(settings)
    assert not use(server, server_settings(authority))
    both = tmp_path / "both.pem"
    other = Authority(tmp_path, "other")
    both.write_bytes(authority.ca_file.read_bytes() + other.ca_file.read_bytes())
    assert not use(server, server_settings(authority, trusted=both))
    assert use(server, settings)
    assert use(server, server_settings(authority, "RULE:^CN=([^,]+)$/$1/"))


def use(server: TlsServer, settings: TlsSettings) -> bool:
    return server.use(settings, prepare_tls(settings, read_material(settings)))
