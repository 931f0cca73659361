"""TLS of both Python clients, against peers that refuse or misbehave."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio

from authorizerd_client import ConnectionLostError, Question, TlsError
from tests.clients.python_clients import NewClient
from tests.clients.stand_in import start_stand_in
from tests.clients.tls_peer import ANSWERS, TLS_FAULTS, TlsFault, running_peer

ALICE = Question("User:alice", None, "READ", "TOPIC", "orders")


def new_context(certificates: Path, fault: TlsFault) -> ssl.SSLContext | None:
    if fault.ca is None:
        return None
    context = ssl.create_default_context(cafile=str(certificates / f"{fault.ca}.pem"))
    context.maximum_version = fault.client_version
    if fault.client is not None:
        context.load_cert_chain(certificates / f"{fault.client}.pem")
    return context


@pytest.mark.parametrize("fault", TLS_FAULTS.values(), ids=TLS_FAULTS)
async def test_fault_is_named_at_once(
    new_client: NewClient, certificates: Path, fault: TlsFault
) -> None:
    """The second call fails with the same error as the first one."""
    with running_peer(certificates, fault, *ANSWERS) as address:
        client = new_client(f"tls://{address}", tls=new_context(certificates, fault))
        for call in (client.connect(), client.decide(ALICE)):
            with trio.fail_after(60), pytest.raises(TlsError) as raised:
                await call
            assert fault.reason in str(raised.value)
            assert fault.remedy in str(raised.value)
        client.close()


@pytest.mark.parametrize("client_certificate", [None, "client"])
async def test_client_decides_over_tls(
    new_client: NewClient, certificates: Path, client_certificate: str | None
) -> None:
    """After each answer the peer closes the connection, and the client connects again."""
    fault = TlsFault(
        requires=client_certificate is not None, client=client_certificate, reason="", remedy=""
    )
    with running_peer(certificates, fault, *ANSWERS) as address:
        client = new_client(f"tls://{address}", tls=new_context(certificates, fault))
        assert [await client.decide(ALICE) for _ in range(3)] == [True] * 3
        client.close()


async def test_closed_handshake_of_a_known_daemon_is_a_lost_connection(
    new_client: NewClient, certificates: Path
) -> None:
    """A daemon that restarts may close connections during the handshake: the client tries again."""
    fault = TlsFault(handshakes=1, reason="", remedy="")
    with running_peer(certificates, fault, *ANSWERS) as address:
        context = new_context(certificates, fault)
        client = new_client(f"tls://{address}", tls=context)
        assert await client.decide(ALICE)
        with pytest.raises(ConnectionLostError, match="not connected: the daemon"):
            await client.decide(ALICE, timeout_seconds=0.3)
        client.close()


async def test_silent_handshake_ends_at_the_limit_of_an_attempt(
    new_client: NewClient, nursery: trio.Nursery
) -> None:
    address = await start_stand_in(nursery, then_closes=False)
    client = new_client(
        address.replace("tcp:", "tls:"), timeout_seconds=0.4, connect_timeout_seconds=0.1
    )
    with trio.fail_after(5), pytest.raises(ConnectionLostError, match="did not answer in time"):
        await client.decide(ALICE)


@pytest.mark.parametrize("sent", [b"\x15\x03\x01\x00\x02\x02\x46", b"\x15\x03\x03\x00"])
async def test_peer_that_expects_tls_is_named(
    new_client: NewClient, nursery: trio.Nursery, sent: bytes
) -> None:
    client = new_client(await start_stand_in(nursery, sent))
    with trio.fail_after(60), pytest.raises(TlsError, match=r"expects TLS .* use tls://"):
        await client.decide(ALICE)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "tcp://127.0.0.1:1", "unix:/run/stream"])
async def test_context_for_an_address_without_tls_is_rejected(
    new_client: NewClient, address: str
) -> None:
    with pytest.raises(ValueError, match="use tls://HOST:PORT"):
        new_client(address, tls=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


async def test_invalid_host_is_rejected(new_client: NewClient) -> None:
    with pytest.raises(ValueError, match="label"):
        new_client(f"tls://{'x' * 64}:1")


async def test_default_context_checks_certificate_and_host(
    new_client: NewClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ssl.SSLContext] = []
    make = ssl.create_default_context

    def record() -> ssl.SSLContext:
        made.append(make())
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", record)
    new_client("tls://127.0.0.1:1")
    (context,) = made
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
