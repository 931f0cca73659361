"""TLS of the JavaScript client, against peers that refuse or misbehave."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.clients.javascript import NODE, run
from tests.clients.stand_in import start_stand_in
from tests.clients.tls_peer import ANSWERS, TLS_1_2, TLS_FAULTS, TlsFault, running_peer

pytestmark = pytest.mark.skipif(NODE is None, reason="the client runs on Node.js: no 'node' found")

ALICE = ["User:alice", None, "READ", "TOPIC", "orders"]


def tls_options(certificates: Path, fault: TlsFault) -> dict[str, str]:
    """Return the client's options."""
    options = {"maxVersion": "TLSv1.2"} if fault.client_version == TLS_1_2 else {}
    if fault.ca is not None:
        options["ca"] = (certificates / f"{fault.ca}.pem").read_text()
    if fault.client is not None:
        options["cert"] = options["key"] = (certificates / f"{fault.client}.pem").read_text()
    return options


FAIL_TWICE = """
const describe = (error) => [error.name, error.message];
return Promise.all(given.map(async ([address, tls, alice]) => {
  const client = new Client(address, { tls, token: "id.secret" });
  const errors = [await client.connect().catch(describe)];
  errors.push(await client.decide(alice).catch(describe));
  client.close();
  return errors;
}));
"""


@pytest.fixture(scope="module")
def errors(certificates: Path) -> dict[str, list[tuple[str, str]]]:
    """The errors of two calls for each fault, all from one process."""
    with ExitStack() as stack:
        given = []
        for fault in TLS_FAULTS.values():
            address = stack.enter_context(running_peer(certificates, fault, *ANSWERS))
            given.append([f"tls://{address}", tls_options(certificates, fault), ALICE])
        return dict(zip(TLS_FAULTS, trio.run(partial(run, FAIL_TWICE, *given)), strict=True))


@pytest.mark.parametrize("name", TLS_FAULTS)
def test_fault_is_named_at_once(errors: dict[str, list[tuple[str, str]]], name: str) -> None:
    """The second call fails with the same error as the first one."""
    for kind, message in errors[name]:
        assert kind == "TlsError", message
        assert TLS_FAULTS[name].reason in message
        assert TLS_FAULTS[name].remedy in message


LOSE = """
const [address, tls, alice] = given;
const client = new Client(address, { tls });
const results = [await client.decide(alice), await client.decide(alice)];
const explain = (error) => `${error.name}: ${error.message}`;
results.push(await client.decide(alice, { timeoutMs: 300 }).catch(explain));
client.close();
return results;
"""


@pytest.mark.parametrize("client_certificate", [None, "client"])
async def test_client_decides_over_tls_and_connects_again(
    certificates: Path, client_certificate: str | None
) -> None:
    """After each answer the peer closes the connection; after two, it closes handshakes too.

    A daemon that restarts may do so: the connection is lost.
    """
    fault = TlsFault(
        requires=client_certificate is not None, client=client_certificate, handshakes=2,
        reason="", remedy="",
    )  # fmt: skip
    with running_peer(certificates, fault, *ANSWERS) as address:
        results = await run(LOSE, f"tls://{address}", tls_options(certificates, fault), ALICE)
    assert results[:2] == [True, True]
    assert results[2].startswith("ConnectionLostError: not connected: the daemon")


OTHERS = """
const [silent, refused, plain, alice, alerting] = given;
const errors = [];
for (const address of [silent, refused, ...alerting]) {
  const client = new Client(address, { timeoutMs: 300, connectTimeoutMs: 100 });
  errors.push(await client.decide(alice).catch((error) => `${error.name}: ${error.message}`));
  client.close();
}
for (const [address, tls] of [...plain.map((each) => [each, {}]), [silent, { cert: "no PEM" }]]) {
  try { new Client(address, { tls }); } catch (error) { errors.push(error.message); }
}
return errors;
"""


async def test_other_failures_of_tls_are_named(nursery: trio.Nursery) -> None:
    """Silent peers, no peer, peers that expect TLS, addresses without TLS, and invalid options."""
    silent = await start_stand_in(nursery, then_closes=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        refused = f"tls://127.0.0.1:{server.getsockname()[1]}"
    plain = ["127.0.0.1:1", "tcp://127.0.0.1:1", "unix:/run/stream"]
    alerting = [
        await start_stand_in(nursery, sent) for sent in (b"\x15\x03\x01\0\2\2\x46", b"\x15\3\3\0")
    ]
    errors = await run(OTHERS, silent.replace("tcp:", "tls:"), refused, plain, ALICE, alerting)
    assert "ConnectionLostError: not connected: the daemon did not answer in time" in errors[0]
    assert errors[1].startswith("ConnectionLostError: not connected: ")
    for error in errors[2:4]:
        assert error.startswith("TlsError: the daemon expects TLS")
    assert errors[4:7] == ["tls is given, but the address is without TLS: use tls://HOST:PORT"] * 3
    assert "PEM" in errors[7]
