"""``authorizerd acls`` and a real daemon: every security protocol against every listener."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from authorizerd.cli.acls.command import run_acl_command
from authorizerd.cli.acls.runner import AclReader, Terminal
from authorizerd.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE
from tests.conformance.acl_command_stories import Printed
from tests.support.certificates import Authority
from tests.support.daemon_process import DaemonProcess, run, running, write_config

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SECONDS_MAX = 2
PASSWORD = "TOP-SECRET"
JAAS = f"{PLAIN_LOGIN_MODULE} required"
NO_LOG_IN = "enabled mechanisms are []"

Secured = tuple[DaemonProcess, Authority]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Return a daemon with a listener for each protocol, and MTLS, which requires certificates."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    names = (*PROTOCOLS, "MTLS", "WRONG")
    config = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": ",".join(
            (*(f"{name}:{name}" for name in PROTOCOLS), "MTLS:SSL", "WRONG:SSL")
        ),
        **authority.server_keys(""),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.truststore.location": str(authority.ca_file),
        "listener.name.wrong.ssl.keystore.location": str(authority.issue("wrong", "a.test")),
        "super.users": "User:ANONYMOUS;User:alice;User:CN=alice,OU=test,O=test",
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{name}"
        config[f"{prefix}.sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256"
        config[f"{prefix}.plain.sasl.jaas.config"] = f'{JAAS} user_alice="{PASSWORD}";'
    with running(folder, new_log_with_alice(folder), config) as daemon:
        yield daemon, authority


def new_log_with_alice(folder: Path) -> Path:
    """Format a log that has alice's password for SCRAM-SHA-256."""
    log_dir = folder / "log"
    alice = f"--add-scram=SCRAM-SHA-256=[name=alice,password={PASSWORD}]"
    done = run("format", "--config", write_config(folder, log_dir), alice)
    assert done.returncode == 0, done.stderr
    return log_dir


def no_log(path: Path) -> AclReader:
    raise AssertionError(f"{path} was opened")


def list_acls(
    secured: Secured, listener: str, protocol: str, folder: Path, more: str = ""
) -> Printed:
    """List the ACLs; the command ends within two seconds."""
    daemon, authority = secured
    config = folder / "client.properties"
    config.write_text(
        f"security.protocol={protocol}\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={JAAS} username="alice" password="{PASSWORD}";\n'
        f"ssl.truststore.location={authority.ca_file}\n{more}"
    )
    out, error = io.StringIO(), io.StringIO()
    terminal = Terminal(answers=io.StringIO(), out=out, error=error)
    address = daemon.ready["listeners"][listener]
    words = ["--list", "--bootstrap-server", address, "--command-config", str(config)]
    started = time.monotonic()
    code = run_acl_command(words, terminal, open_log=no_log)
    assert time.monotonic() - started < SECONDS_MAX
    assert PASSWORD not in out.getvalue() + error.getvalue()
    return Printed(out=out.getvalue(), error=error.getvalue(), code=code)


def expected(listener: str, protocol: str) -> str:
    """Return what the command says about a listener with another protocol."""
    has_tls, client_has_tls = listener.endswith("SSL"), protocol.endswith("SSL")
    if has_tls and not client_has_tls:
        return f"the listener expects SSL or SASL_SSL, but the client uses {protocol}"
    if has_tls == client_has_tls and protocol.startswith("SASL"):
        return NO_LOG_IN
    return f"the listener expects {listener}, but the client uses {protocol}"


@pytest.mark.parametrize(("listener", "protocol"), list(product(PROTOCOLS, PROTOCOLS)))
def test_mismatch_is_named_within_two_seconds(
    secured: Secured, tmp_path: Path, listener: str, protocol: str
) -> None:
    printed = list_acls(secured, listener, protocol, tmp_path)
    if listener == protocol:
        assert printed == Printed(out="", error="", code=0)
    else:
        assert printed.code == 1
        assert expected(listener, protocol) in printed.out
        assert printed.error.startswith("authorizerd: ")
        assert "--command-config" in printed.error


def scram(mechanism: str, password: str) -> str:
    line = f'{SCRAM_LOGIN_MODULE} required username="alice" password="{password}";'
    return f"sasl.mechanism={mechanism}\nsasl.jaas.config={line}"


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_scram_logs_in(secured: Secured, tmp_path: Path, protocol: str) -> None:
    more = scram("SCRAM-SHA-256", PASSWORD)
    printed = list_acls(secured, protocol, protocol, tmp_path, more)
    assert printed == Printed(out="", error="", code=0)


@pytest.mark.parametrize(
    ("more", "reason", "advice"),
    [
        (
            scram("SCRAM-SHA-512", PASSWORD),
            "Client SASL mechanism 'SCRAM-SHA-512' not enabled in the server, "
            "enabled mechanisms are [PLAIN, SCRAM-SHA-256]",
            "set sasl.mechanism to one of the enabled mechanisms",
        ),
        (
            scram("SCRAM-SHA-256", "wrong"),
            "SaslAuthenticationException: Authentication failed",
            "check username and password in sasl.jaas.config",
        ),
        (
            f'sasl.jaas.config={JAAS} username="alice" password="wrong";',
            "SaslAuthenticationException: Authentication failed",
            "check username and password in sasl.jaas.config",
        ),
    ],
)
def test_rejected_log_in_is_named(
    secured: Secured, tmp_path: Path, more: str, reason: str, advice: str
) -> None:
    printed = list_acls(secured, "SASL_SSL", "SASL_SSL", tmp_path, more)
    assert reason in printed.out
    assert advice in printed.error
    assert printed.code == 1


def test_client_certificate_is_a_log_in(secured: Secured, tmp_path: Path) -> None:
    keystore = secured[1].issue("client", common_name="alice")
    more = f"ssl.keystore.location={keystore}"
    printed = list_acls(secured, "MTLS", "SSL", tmp_path, more)
    assert printed == Printed(out="", error="", code=0)


def test_missing_client_certificate_is_named(secured: Secured, tmp_path: Path) -> None:
    printed = list_acls(secured, "MTLS", "SSL", tmp_path)
    assert "the server requires a client certificate (alert certificate_required)" in printed.out
    assert "ssl.keystore.location=FILE" in printed.error


def test_wrong_host_is_named(secured: Secured, tmp_path: Path) -> None:
    printed = list_acls(secured, "WRONG", "SSL", tmp_path)
    assert "is for a.test, not for 127.0.0.1" in printed.out
    unchecked = "ssl.endpoint.identification.algorithm="
    assert list_acls(secured, "WRONG", "SSL", tmp_path, unchecked).code == 0


def test_unknown_authority_is_named(secured: Secured, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").ca_file
    printed = list_acls(secured, "SSL", "SSL", tmp_path, f"ssl.truststore.location={other}")
    assert "is issued by an unknown authority: OU=Testing CA" in printed.out
    assert "ssl.truststore.location" in printed.error
