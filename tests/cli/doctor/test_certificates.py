"""The doctor's checks of certificates: their files, dates and hosts, and what a daemon serves."""

import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from authorizerd.cli.doctor.certificates import examine_certificates, is_name_of
from authorizerd.cli.doctor.finding import Finding, Level
from authorizerd.config.configuration import Configuration, parse_values
from tests.support.certificates import Authority, expired
from tests.support.sockets import accepting

NOW = datetime.now(UTC)


def configured(
    keystore: Path, *, port: int = 0, host: str = "127.0.0.1", **more: str | Path
) -> Configuration:
    values = {
        "node.id": "1",
        "log.dirs": "/log",
        "listeners": f"SSL://127.0.0.1:{port}",
        "advertised.listeners": f"SSL://{host}:9092",
        "ssl.keystore.location": str(keystore),
        **{f"ssl.{key.replace('_', '.')}": str(value) for key, value in more.items()},
    }
    return parse_values(values, source="f")


def issue(authority: Authority, *hosts: str, not_after: datetime | None = None) -> Path:
    """Return a private keystore of a new certificate, for 127.0.0.1 by default."""
    given = hosts or ("127.0.0.1",)
    keystore = authority.issue("server", *given, common_name="broker", not_after=not_after)
    keystore.chmod(0o600)
    return keystore


def found(
    configuration: Configuration, *, is_running: bool = False, now: datetime = NOW
) -> list[Finding]:
    return list(examine_certificates(configuration, is_running=is_running, now=now))


def problems(findings: list[Finding]) -> list[tuple[Level, str]]:
    return [(each.level, each.text) for each in findings if each.level is not Level.OK]


def test_certificate_is_shown_with_its_names_serial_number_and_date(authority: Authority) -> None:
    [finding] = found(configured(issue(authority)))
    assert finding.level is Level.OK
    subject = "listeners: SSL: certificate CN=broker,OU=test,O=test, issuer OU=Testing CA"
    assert finding.text.startswith(subject)
    assert ", serial " in finding.text
    assert ", expires on 3000-01-01 00:00 UTC" in finding.text
    assert "PRIVATE" not in finding.text


@pytest.mark.parametrize(("days", "level", "text"), [
    (31, Level.OK, "expires on"),
    (29, Level.WARNING, ", in 29 days"),
    (1, Level.WARNING, ", in 1 days"),
    (-1, Level.ERROR, "expired on"),
])  # fmt: skip
def test_days_left_are_judged(authority: Authority, days: int, level: Level, text: str) -> None:
    not_after = NOW + timedelta(days=100)
    keystore = issue(authority, not_after=not_after)
    now = not_after - timedelta(days=days, minutes=1)
    [finding] = found(configured(keystore), now=now)
    assert (finding.level, text in finding.text) == (level, True)
    assert bool(finding.advice) is (level is not Level.OK)


def test_certificate_that_is_not_valid_yet_is_an_error(authority: Authority) -> None:
    [finding] = found(configured(issue(authority)), now=datetime(1999, 1, 1, tzinfo=UTC))
    assert (finding.level, "is valid only from 2" in finding.text) == (Level.ERROR, True)


def test_expired_ca_in_the_truststore_is_a_warning(authority: Authority) -> None:
    old = authority.issue("old", not_after=expired())
    configuration = configured(issue(authority), truststore_location=old, client_auth="required")
    [(level, text)] = problems(found(configuration))
    assert (level, "truststore's certificate" in text) == (Level.WARNING, True)


@pytest.mark.parametrize(("mode", "texts"), [
    (0o640, []),
    (0o604, ["every user may read the private key"]),
    (0o602, ["every user may replace the certificates"]),
])  # fmt: skip
def test_keystore_must_be_private(authority: Authority, mode: int, texts: list[str]) -> None:
    keystore = issue(authority)
    keystore.chmod(mode)
    expected = [(Level.ERROR, f"ssl.keystore.location: {keystore}: {text}") for text in texts]
    assert problems(found(configured(keystore))) == expected


def test_truststore_is_public_but_not_writable(authority: Authority, tmp_path: Path) -> None:
    """A user who adds a CA can pose as any client."""
    keystore = issue(authority)
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(authority.ca_file.read_bytes())
    configuration = configured(keystore, truststore_location=trusted, client_auth="required")
    trusted.chmod(0o644)
    assert problems(found(configuration)) == []
    trusted.chmod(0o646)
    [(level, text)] = problems(found(configuration))
    assert (level, text.endswith("every user may replace the certificates")) == (Level.ERROR, True)


def test_error_of_an_unusable_store_names_the_key(authority: Authority, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    for content, reason in ((None, "No such file"), (b"x", "is not PEM, and not PKCS12")):
        if content is not None:
            bad.write_bytes(content)
        [(level, text)] = problems(found(configured(bad)))[-1:]
        assert level is Level.ERROR
        assert f"listeners: SSL: ssl.keystore.location: {bad}: {reason}" in text


def test_certificate_for_another_host_than_advertised_is_a_warning(
    authority: Authority,
) -> None:
    keystore = issue(authority, "a.test", "*.b.test")
    assert problems(found(configured(keystore, host="a.test"))) == []
    [(level, text)] = problems(found(configured(keystore, host="c.test")))
    assert level is Level.WARNING
    assert text == (
        "listeners: SSL: c.test is advertised, but the certificate is for a.test, *.b.test"
    )


@pytest.mark.parametrize(("name", "host", "expected"), [
    ("a.test", "A.Test.", True),
    ("a.test", "b.test", False),
    ("*.test", "a.test", True),
    ("*.test", "a.b.test", False),
    ("*.test", "test", False),
    ("127.0.0.1", "127.0.0.1", True),
    ("::1", "0:0:0:0:0:0:0:1", True),
    ("127.0.0.1", "127.0.0.2", False),
])  # fmt: skip
def test_wildcard_stands_for_one_label(name: str, host: str, expected: bool) -> None:
    assert is_name_of(name, host) is expected


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_served_certificate_is_compared_with_the_files(authority: Authority) -> None:
    """Only if a daemon runs: otherwise the port may belong to another program."""
    keystore = issue(authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keystore)

    def shake_hands(connection: socket.socket) -> None:
        context.wrap_socket(connection, server_side=True).close()

    with accepting(shake_hands) as address:
        configuration = configured(keystore, port=port_of(address))
        assert len(found(configuration)) == 1
        served = found(configuration, is_running=True)[-1]
        assert served.level is Level.OK
        assert served.text == f"listeners: SSL: {address} serves this certificate"
        issue(authority)
        [(level, text)] = problems(found(configuration, is_running=True))
        assert (level, "serves a different certificate, serial " in text) == (Level.WARNING, True)
    with accepting(socket.socket.close) as address:
        configuration = configured(keystore, port=port_of(address))
        [(level, text)] = problems(found(configuration, is_running=True))
        assert (level, text.endswith("shows no certificate")) == (Level.WARNING, True)


def test_own_ports_are_examined_and_their_files_once(authority: Authority) -> None:
    keystore = issue(authority)
    keystore.chmod(0o644)
    values = {
        "node.id": "1", "log.dirs": "/log", "authorizerd.decision.http": "https://127.0.0.1:0",
        "authorizerd.decision.stream": "tls://127.0.0.1:0",
        "authorizerd.http.ssl.keystore.location": str(keystore),
    }  # fmt: skip
    findings = found(parse_values(values, source="f"))
    assert [each.text.partition(": ")[0] for each in findings] == [
        "authorizerd.http.ssl.keystore.location",
        "authorizerd.decision.http",
        "authorizerd.decision.stream",
    ]


def test_nothing_is_examined_without_tls() -> None:
    assert found(parse_values({"node.id": "1", "log.dirs": "/log"}, source="f")) == []
