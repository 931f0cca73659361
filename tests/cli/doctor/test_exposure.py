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


def test_each_reachable_port_is_a_warning() -> None:
    found = texts(
        listeners="PLAINTEXT://10.0.0.1:1,SASL_PLAINTEXT://10.0.0.1:2",
        authorizerd__tokens__file="/tokens",
        authorizerd__decision__http="http://0.0.0.0:3",
        authorizerd__decision__stream="tcp://10.0.0.1:4",
        **{"listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS},
    )
    assert [text.partition(", and ")[0] for text in found] == [
        f"{Level.WARNING.value}: {name}: other machines can reach it"
        for name in (
            "authorizerd.decision.http",
            "authorizerd.decision.stream",
            "listeners: PLAINTEXT",
            "listeners: SASL_PLAINTEXT",
        )
    ]
    assert "User:ANONYMOUS" in found[2]
    assert "passwords" in found[3]
