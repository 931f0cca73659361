"""The doctor's checks of ports: who reaches them, whether they are free, and the web console."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizerd.cli.doctor.exposure import examine_console, examine_exposure, examine_ports
from authorizerd.cli.doctor.finding import Finding, Level
from authorizerd.config.configuration import Configuration, parse_values

BASE = {"node.id": "1", "log.dirs": "/log"}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'


def texts(**settings: str) -> list[str]:
    values = {key.replace("__", "."): value for key, value in settings.items()}
    findings = list(examine_exposure(parse_values(BASE | values, source="f")))
    return [f"{each.level.value}: {each.text}" for each in findings]


def test_loopback_and_unix_sockets_are_ok() -> None:
    sockets = {"authorizerd__decision__stream": "unix:/run/a.sock"}
    assert texts(**sockets) == ["ok: no port is reachable from other machines"]


def test_each_reachable_port_in_the_clear_is_a_warning() -> None:
    found = texts(
        listeners="PLAINTEXT://10.0.0.1:1,SASL_PLAINTEXT://10.0.0.1:2",
        authorizerd__tokens__file="/tokens",
        authorizerd__decision__http="http://0.0.0.0:3",
        authorizerd__decision__stream="tcp://10.0.0.1:4",
        authorizerd__metrics__http="http://10.0.0.1:5",
        **{"listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS},
    )
    assert [text.partition(", and ")[::2] for text in found] == [
        (f"{Level.WARNING.value}: {name}: other machines can reach it", risk)
        for name, risk in (
            ("authorizerd.decision.http", "tokens travel in the clear"),
            ("authorizerd.decision.stream", "tokens travel in the clear"),
            ("authorizerd.metrics.http", "metrics travel in the clear"),
            ("listeners: PLAINTEXT", "every client is User:ANONYMOUS"),
            ("listeners: SASL_PLAINTEXT", "passwords travel in the clear"),
        )
    ]


def test_reachable_super_user_without_credentials_is_an_error() -> None:
    risk = ", a super user: anyone may do anything, such as change ACLs"
    reach = "other machines can reach it, and"
    for users in ("User:admin;User:ANONYMOUS", "User:admin"):
        found = texts(
            listeners="PLAINTEXT://10.0.0.1:1,SSL://10.0.0.1:2,LOCAL://127.0.0.1:3",
            super__users=users,
            **{
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,LOCAL:PLAINTEXT",
                "ssl.keystore.location": "/server.pem",
            },
        )
        is_open = "ANONYMOUS" in users
        level, end = ("error", risk) if is_open else ("warning", "")
        assert found == [
            f"{level}: listeners: {listener}: {reach} {who} User:ANONYMOUS{end}"
            for listener, who in (
                ("PLAINTEXT", "every client is"),
                ("SSL", "clients without a certificate are"),
            )
        ]


def test_scram_keeps_the_password_but_not_the_requests() -> None:
    prefix = "listener.name.sasl_plaintext"
    [found] = texts(
        listeners="SASL_PLAINTEXT://10.0.0.1:2",
        **{f"{prefix}.sasl.enabled.mechanisms": "SCRAM-SHA-256"},
    )
    assert found.endswith("and requests and answers travel in the clear")


def test_ports_with_tls_are_ok_unless_listeners_need_no_credentials() -> None:
    found = texts(
        listeners="SSL://10.0.0.1:1,SASL_SSL://10.0.0.1:2,MTLS://10.0.0.1:3",
        authorizerd__tokens__file="/tokens",
        authorizerd__decision__http="https://0.0.0.0:4",
        authorizerd__decision__stream="tls://10.0.0.1:5",
        authorizerd__admin__http="https://10.0.0.1:6",
        **{
            "listener.security.protocol.map": "SSL:SSL,SASL_SSL:SASL_SSL,MTLS:SSL",
            "advertised.listeners": "SSL://h:1,SASL_SSL://h:2,MTLS://h:3",
            "ssl.keystore.location": "/server.pem",
            "ssl.truststore.location": "/ca.pem",
            "authorizerd.http.ssl.keystore.location": "/server.pem",
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS,
        },
    )
    reach = "other machines can reach it"
    assert found == [
        f"ok: authorizerd.decision.http: {reach}, over TLS",
        f"ok: authorizerd.decision.stream: {reach}, over TLS",
        f"ok: authorizerd.admin.http: {reach}, over TLS",
        f"warning: listeners: SSL: {reach}, and clients without a certificate are User:ANONYMOUS",
        f"ok: listeners: SASL_SSL: {reach}, over TLS with authentication",
        f"ok: listeners: MTLS: {reach}, over TLS with client certificates",
    ]


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server


def configured(*, decision: int = 0, stream: str = "", metrics: str = "") -> Configuration:
    values = {
        "node.id": "1", "log.dirs": "/log", "listeners": "PLAINTEXT://127.0.0.1:0",
        "authorizerd.decision.http": f"http://127.0.0.1:{decision}",
        "authorizerd.decision.stream": stream, "authorizerd.admin.http": "http://127.0.0.1:0",
        "authorizerd.metrics.http": metrics,
    }  # fmt: skip
    return parse_values(values, source="f")


def of_decision(port: int, *, is_running: bool = False) -> Finding:
    return next(iter(examine_ports(configured(decision=port), is_running=is_running)))


def of_stream(path: Path, *, is_running: bool = False) -> Finding:
    return list(examine_ports(configured(stream=f"unix:{path}"), is_running=is_running))[-1]


def test_every_endpoint_is_examined() -> None:
    configuration = configured(stream="tcp://127.0.0.1:0", metrics="http://127.0.0.1:0")
    findings = list(examine_ports(configuration, is_running=False))
    assert [each.text.rpartition(": ")[0] for each in findings] == [
        "authorizerd.decision.http", "authorizerd.admin.http", "listeners: PLAINTEXT",
        "authorizerd.metrics.http", "authorizerd.decision.stream",
    ]  # fmt: skip
    assert len(list(examine_ports(configured(), is_running=False))) == 3


def test_port_in_use_is_an_error_unless_a_daemon_runs(listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    assert of_decision(port).level is Level.ERROR
    assert "in use" in of_decision(port).text
    assert of_decision(port, is_running=True).level is Level.OK
    listening.settimeout(0)
    with pytest.raises(BlockingIOError):
        listening.accept()  # the probe did not connect


def test_free_port_is_released_at_once() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert of_decision(port).level is Level.OK
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))


def test_address_of_another_machine_is_an_error() -> None:
    values = {"node.id": "1", "log.dirs": "/log", "listeners": "PLAINTEXT://192.0.2.1:0"}
    found = list(examine_ports(parse_values(values, source="f"), is_running=True))
    (finding,) = [each for each in found if "192.0.2.1" in each.text]
    assert finding.level is Level.ERROR
    assert finding.advice == "name an address of this machine"


def test_unix_socket_is_judged_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    assert of_stream(path).level is Level.OK
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert of_stream(path).level is Level.ERROR
        assert of_stream(path, is_running=True).level is Level.OK
    assert "left by an ended process" in of_stream(path).text
    assert path.is_socket()
    path.unlink()
    path.write_text("kept")
    assert of_stream(path).level is Level.ERROR
    assert path.read_text() == "kept"
    path.unlink()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert of_stream(path).level is Level.ERROR


CONSOLE = {"node.id": "1", "log.dirs": "/log", "authorizerd.console": "true"}
HTTPS = {"authorizerd.admin.http": "https://10.0.0.1:8443"}
STORES = {
    "authorizerd.http.ssl.keystore.location": "/k.pem",
    "authorizerd.http.ssl.truststore.location": "/t.pem",
}
TOKENS = {"authorizerd.tokens.file": "/t"}
CERTIFICATES = {"authorizerd.http.ssl.client.auth": "required"}


@pytest.mark.parametrize(("settings", "expected"), [
    ({"authorizerd.console": "false"}, "ok: console: off: authorizerd.console=true turns it"),
    ({}, "ok: console: http://127.0.0.1:8182/console/ (loopback only, no TLS): everyone on"),
    ({"authorizerd.admin.http": "http://[::1]:0"}, "ok: console: http://[::1]:any port/conso"),
    (TOKENS, "no TLS): callers with a token of /t can log in."),
    ({**HTTPS, **STORES, **TOKENS},
     "https://10.0.0.1:8443/console/ (TLS): callers with a token of /t can log in."),
    ({**HTTPS, **STORES, **CERTIFICATES}, "(TLS): clients with a certificate can log in."),
    ({**HTTPS, **STORES, **CERTIFICATES, **TOKENS},
     "callers with a token of /t and clients with a certificate can log in."),
    ({**STORES, **CERTIFICATES, "authorizerd.decision.http": "https://10.0.0.1:1"},
     "warning: console: http://127.0.0.1:8182/console/ (loopback only, no TLS): nobody can"),
])  # fmt: skip
def test_address_and_visitors_are_named(settings: dict[str, str], expected: str) -> None:
    (finding,) = examine_console(parse_values(CONSOLE | settings, source="f"))
    assert expected in finding.line()
