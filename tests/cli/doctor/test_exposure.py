"""The doctor's checks of ports that other machines can reach."""

from __future__ import annotations

from authorizerd.cli.doctor.exposure import examine_exposure
from authorizerd.cli.doctor.finding import Level
from authorizerd.config.configuration import parse_values

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
