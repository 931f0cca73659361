"""``authorizerd acls`` and a real Kafka: matching and mismatching security protocols."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from tests.kafka_rig.broker import Broker, BrokerSettings, format_storage, running_broker
from tests.kafka_rig.properties import find_lasting_ports
from tests.kafka_rig.rig import Program, Rig
from tests.support.acl_client import (
    PASSWORD,
    PROTOCOLS,
    USERS,
    check_protocol,
    list_acls,
    new_scram_login,
    write_client_config,
)
from tests.support.certificates import Authority, convert_key, expired

LISTENERS = {
    **{f"{name}_2": name for name in PROTOCOLS},
    **dict.fromkeys(("MTLS", "WRONG", "EXPIRED", "ALIEN"), "SSL"),
}
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SECURED = tuple[Broker, Authority]


@pytest.fixture(scope="module")
def secured(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SECURED]:
    """Return a broker with a listener for each protocol and for each fault, and the clients' CA."""
    folder = tmp_path_factory.mktemp("tls")
    ours, other = Authority(folder, "ours"), Authority(folder, "other")
    keystores = {
        "WRONG": ours.issue("wrong", "a.test"),
        "EXPIRED": ours.issue("expired", "127.0.0.1", not_after=expired()),
        "ALIEN": other.issue("alien", "127.0.0.1"),
    }
    more = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(convert_key(ours.issue("server", "127.0.0.1"))),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ours.ca_file),
        "listener.name.mtls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", *MECHANISMS)),
    }
    for name, keystore in keystores.items():
        more[f"listener.name.{name.lower()}.ssl.keystore.location"] = str(convert_key(keystore))
        more[f"listener.name.{name.lower()}.ssl.keystore.type"] = "PEM"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    for name in ("sasl_plaintext", "sasl_plaintext_2", "sasl_ssl_2"):
        prefix = f"listener.name.{name}"
        if name != "sasl_plaintext":  # the rig's listener has its users
            more[f"{prefix}.plain.sasl.jaas.config"] = USERS
        for mechanism in MECHANISMS:
            more[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = scram
    more["listener.name.controller.sasl.enabled.mechanisms"] = "PLAIN"
    ports = dict(zip(LISTENERS, find_lasting_ports(len(LISTENERS)), strict=True))
    settings = BrokerSettings(
        super_users=("User:admin", "User:alice", "User:ANONYMOUS", "User:O=test,OU=test,CN=alice"),
        allow_everyone_if_no_acl_found=True,
        listeners={name: (LISTENERS[name], port) for name, port in ports.items()},
        more=more,
    )
    added = [
        word
        for each in MECHANISMS
        for word in ("--add-scram", f"{each}=[name=alice,password={PASSWORD}]")
    ]
    formatted = format_storage(rig, folder, folder / "log", *added)
    assert formatted.exit_code == 0, formatted.stderr
    with running_broker(rig, folder, folder / "log", settings) as broker:
        yield broker, ours


def address(secured: SECURED, listener: str) -> str:
    return f"127.0.0.1:{secured[0].settings.listeners[listener][1]}"


@pytest.mark.parametrize(("listener", "protocol"), list(product(PROTOCOLS, PROTOCOLS)))
def test_mismatch_is_named_within_two_seconds(
    secured: SECURED, tmp_path: Path, listener: str, protocol: str
) -> None:
    config = write_client_config(tmp_path, secured[1], protocol)
    check_protocol(list_acls(address(secured, f"{listener}_2"), config), listener, protocol)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scram_logs_in(secured: SECURED, tmp_path: Path, mechanism: str) -> None:
    for password, code in ((PASSWORD, 0), ("wrong", 1)):
        more = new_scram_login(mechanism, password)
        config = write_client_config(tmp_path, secured[1], "SASL_SSL", more)
        assert list_acls(address(secured, "SASL_SSL_2"), config).code == code


def test_client_certificate_is_a_log_in(secured: SECURED, tmp_path: Path) -> None:
    keystore = secured[1].issue("client", common_name="alice")
    more = f"ssl.keystore.location={keystore}"
    config = write_client_config(tmp_path, secured[1], "SSL", more)
    assert list_acls(address(secured, "MTLS"), config).code == 0


@pytest.mark.parametrize(
    ("listener", "reason"),
    [
        ("WRONG", "is for a.test, not for 127.0.0.1"),
        ("EXPIRED", "expired on 2020-01-01 00:00:00 UTC"),
        ("ALIEN", "is issued by an unknown CA"),
        ("MTLS", "the server requires a client certificate"),
    ],
)
def test_rejected_certificate_is_printed_as_by_kafka_acls(
    secured: SECURED, tmp_path: Path, listener: str, reason: str
) -> None:
    """Only the reason, on the last line, differs."""
    broker, authority = secured
    config = write_client_config(tmp_path, authority, "SSL")
    where = address(secured, listener)
    ours = list_acls(where, config)
    theirs = broker.rig.run(
        Program.ACLS, "--list", "--bootstrap-server", where, "--command-config", config
    )
    *lines, last = ours.out.rstrip().splitlines()
    assert last.startswith("Caused by: javax.net.ssl.SSLHandshakeException: ")
    assert reason in last
    shown = [line for line in theirs.stdout.splitlines() if not line.startswith("\t")]
    assert shown[: len(lines)] == lines
    assert shown[len(lines)].startswith("Caused by: javax.net.ssl.SSLHandshakeException: ")
    assert (ours.code, theirs.exit_code) == (1, 1)
