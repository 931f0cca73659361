"""``authorizerd acls`` and a real daemon: every security protocol against every listener."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from tests.conformance.acl_command_stories import Printed
from tests.support import acl_client
from tests.support.certificates import Authority
from tests.support.daemon_process import DaemonProcess, run, running, write_config
from tests.support.log_files import added, write_log

Secured = tuple[DaemonProcess, Authority]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Return a daemon with a listener for each protocol, and MTLS, which requires certificates."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    names = (*acl_client.PROTOCOLS, "MTLS", "WRONG")
    config = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": ",".join(
            (*(f"{name}:{name}" for name in acl_client.PROTOCOLS), "MTLS:SSL", "WRONG:SSL")
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
        config[f"{prefix}.plain.sasl.jaas.config"] = acl_client.USERS
    with running(folder, new_log_with_alice(folder), config) as daemon:
        yield daemon, authority


def new_log_with_alice(folder: Path) -> Path:
    """Format a log that has alice's password for SCRAM-SHA-256."""
    log_dir = folder / "log"
    alice = f"--add-scram=SCRAM-SHA-256=[name=alice,password={acl_client.PASSWORD}]"
    done = run("format", "--config", write_config(folder, log_dir), alice)
    assert done.returncode == 0, done.stderr
    return log_dir


def list_with(
    secured: Secured, listener: str, protocol: str, folder: Path, more: str = ""
) -> Printed:
    daemon, authority = secured
    config = acl_client.write_client_config(folder, authority, protocol, more)
    return acl_client.list_acls(daemon.ready["listeners"][listener], config)


@pytest.mark.parametrize(
    ("listener", "protocol"), list(product(acl_client.PROTOCOLS, acl_client.PROTOCOLS))
)
def test_mismatch_is_named_within_two_seconds(
    secured: Secured, tmp_path: Path, listener: str, protocol: str
) -> None:
    acl_client.check_protocol(list_with(secured, listener, protocol, tmp_path), listener, protocol)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_scram_logs_in(secured: Secured, tmp_path: Path, protocol: str) -> None:
    more = acl_client.new_scram_login("SCRAM-SHA-256", acl_client.PASSWORD)
    printed = list_with(secured, protocol, protocol, tmp_path, more)
    assert printed == Printed(out="", error="", code=0)


@pytest.mark.parametrize(
    ("more", "reason", "advice"),
    [
        (acl_client.new_scram_login("SCRAM-SHA-512", acl_client.PASSWORD),
         "Client SASL mechanism 'SCRAM-SHA-512' not enabled in the server, "
         "enabled mechanisms are [PLAIN, SCRAM-SHA-256]",
         "set sasl.mechanism to one of the enabled mechanisms"),
        (acl_client.new_scram_login("SCRAM-SHA-256", "wrong"),
         "SaslAuthenticationException: Authentication failed",
         "check the credentials in sasl.jaas.config"),
        (f'sasl.jaas.config={acl_client.JAAS} username="alice" password="wrong";',
         "SaslAuthenticationException: Authentication failed",
         "check the credentials in sasl.jaas.config"),
    ],
)  # fmt: skip
def test_rejected_log_in_is_named(
    secured: Secured, tmp_path: Path, more: str, reason: str, advice: str
) -> None:
    printed = list_with(secured, "SASL_SSL", "SASL_SSL", tmp_path, more)
    assert reason in printed.out
    assert advice in printed.error
    assert printed.code == 1


def test_client_certificate_is_a_log_in(secured: Secured, tmp_path: Path) -> None:
    keystore = secured[1].issue("client", common_name="alice")
    more = f"ssl.keystore.location={keystore}"
    assert list_with(secured, "MTLS", "SSL", tmp_path, more) == Printed(out="", error="", code=0)


def test_missing_client_certificate_is_named(secured: Secured, tmp_path: Path) -> None:
    printed = list_with(secured, "MTLS", "SSL", tmp_path)
    assert "the server requires a client certificate (alert certificate_required)" in printed.out
    assert "ssl.keystore.location=FILE" in printed.error


def test_wrong_host_is_named(secured: Secured, tmp_path: Path) -> None:
    printed = list_with(secured, "WRONG", "SSL", tmp_path)
    assert "is for a.test, not for 127.0.0.1" in printed.out
    unchecked = "ssl.endpoint.identification.algorithm="
    assert list_with(secured, "WRONG", "SSL", tmp_path, unchecked).code == 0


def test_unknown_ca_is_named(secured: Secured, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").ca_file
    printed = list_with(secured, "SSL", "SSL", tmp_path, f"ssl.truststore.location={other}")
    assert "is issued by an unknown CA: OU=Testing CA" in printed.out
    assert "ssl.truststore.location" in printed.error


@pytest.mark.parametrize("protocol", acl_client.PROTOCOLS)
def test_acls_are_imported_and_exported_with_every_protocol(
    secured: Secured, tmp_path: Path, protocol: str
) -> None:
    """The settings of the source are not used for the target, although it is the same listener."""
    daemon, authority = secured
    address = daemon.ready["listeners"][protocol]
    config = str(acl_client.write_client_config(tmp_path, authority, protocol))
    write_log(tmp_path / "log", [added(1), added(2)])
    client = ("--bootstrap-server", address, "--command-config", config)
    done = run("acls", "import", str(tmp_path / "log"), *client)
    assert (done.returncode, done.stderr) == (0, ""), done
    exported = run("acls", "export", *client, "--principal", "User:a", "--format", "listing")
    assert exported.returncode == 0, exported
    assert {"name=topic-1", "name=topic-2"} <= {*re.findall(r"name=topic-\d", exported.stdout)}
    place = f"kafka://{address}"
    both = run("acls", "import", place, "--to", place, "--from-config", config, "--json")
    is_open = protocol == "PLAINTEXT"
    assert both.returncode == (0 if is_open else 1), both
    assert acl_client.PASSWORD not in done.stdout + exported.stdout + both.stdout + both.stderr
