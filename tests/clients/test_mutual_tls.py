"""The clients and a real daemon that identifies its callers by their certificates."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from authorizerd_client import AuthorizerdError, Question
from tests.clients.javascript import NODE, run
from tests.clients.python_clients import CLIENTS
from tests.support.certificates import Authority
from tests.support.daemon_process import DaemonProcess, running

ALICE = Question("User:alice", None, "READ", "TOPIC", "orders")
OWN = Question("User:self", None, "READ", "TOPIC", "orders")


@dataclass(frozen=True)
class Secured:
    """A daemon that requires client certificates, and certificates by name."""

    daemon: DaemonProcess
    ca_file: Path
    certificates: dict[str, Path]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, prepared_log: Path) -> Iterator[Secured]:
    """User:proxy may ask about everybody."""
    folder = tmp_path_factory.mktemp("mutual")
    authority = Authority(folder)
    config = authority.server_keys(
        truststore_location=str(authority.ca_file),
        client_auth="required",
        principal_mapping_rules="RULE:^.*[Cc][Nn]=([^,]*).*$/$1/",
    )
    config["authorizerd.decision.stream"] = "tls://127.0.0.1:0"
    config["authorizerd.callers.ask"] = "User:proxy"
    certificates = {name: authority.issue(name, common_name=name) for name in ("proxy", "self")}
    certificates["foreign"] = Authority(folder, "other").issue("foreign", common_name="proxy")
    log_dir = Path(shutil.copytree(prepared_log, folder / "log"))
    with running(folder, log_dir, config) as daemon:
        yield Secured(daemon, authority.ca_file, certificates)


async def ask_in_python(
    kind: str, address: str, question: Question, ca: Path, certificate: Path | None, token: str
) -> str:
    tls = None
    if address.startswith("tls://"):
        tls = ssl.create_default_context(cafile=str(ca))
        if certificate is not None:
            tls.load_cert_chain(certificate)
    client = CLIENTS[kind](address, tls=tls, token=token or None)
    try:
        return str(await client.decide(question)).lower()
    except AuthorizerdError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        client.close()


ASK = """
const [address, question, tls, token] = given;
const client = new Client(address, { tls, token });
const answer = await client.decide(question).catch((error) => `${error.name}: ${error.message}`);
client.close();
return String(answer);
"""


def read_pem(address: str, ca: Path, certificate: Path | None) -> dict[str, str] | None:
    """Return the option ``tls`` of the JavaScript client."""
    if not address.startswith("tls://"):
        return None
    tls = {"ca": ca.read_text()}
    if certificate is not None:
        tls["cert"] = tls["key"] = certificate.read_text()
    return tls


async def ask_in_javascript(
    address: str, question: Question, ca: Path, certificate: Path | None, token: str
) -> str:
    return str(await run(ASK, address, question, read_pem(address, ca, certificate), token or None))


@pytest.mark.parametrize("kind", [*CLIENTS, "JavaScript"])
@pytest.mark.parametrize(("scheme", "name", "token", "question", "answer"), [
    ("tls", "proxy", "", ALICE, "true"),
    ("tls", "self", "", OWN, "false"),
    ("tls", "self", "", ALICE, "ForbiddenError"),
    ("tls", "proxy", "id.wrong", ALICE, "TokenRefusedError"),
    ("tls", None, "", ALICE, "TlsError: the daemon requires a client certificate"),
    ("tls", "foreign", "", ALICE, "TlsError: the daemon does not know the CA"),
    ("tcp", "proxy", "", ALICE, "TlsError: the daemon expects TLS"),
])  # fmt: skip
async def test_certificate_is_the_callers_identity(
    secured: Secured, kind: str, scheme: str, name: str | None, token: str,
    question: Question, answer: str,
) -> None:  # fmt: skip
    address = f"{scheme}://{secured.daemon.ready['decision_stream']}"
    certificate = None if name is None else secured.certificates[name]
    given = (address, question, secured.ca_file, certificate, token)
    with trio.fail_after(60):
        if kind != "JavaScript":
            answered = await ask_in_python(kind, *given)
        elif NODE is None:
            pytest.skip("the client runs on Node.js: no 'node' found")
        else:
            answered = await ask_in_javascript(*given)
    assert answered.startswith(answer)
