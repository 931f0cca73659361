"""The doctor's check of the web console: its address, and who can log in."""

from __future__ import annotations

import pytest

from authorizerd.cli.doctor.exposure import examine_console
from authorizerd.config.configuration import parse_values

BASE = {"node.id": "1", "log.dirs": "/log", "authorizerd.console": "true"}
HTTPS = {"authorizerd.admin.http": "https://10.0.0.1:8443"}
STORES = {
    "authorizerd.http.ssl.keystore.location": "/k.pem",
    "authorizerd.http.ssl.truststore.location": "/t.pem",
}
TOKENS = {"authorizerd.tokens.file": "/t"}
CERTIFICATES = {"authorizerd.http.ssl.client.auth": "required"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"authorizerd.console": "false"}, "ok: console: off: authorizerd.console=true turns it"),
        ({}, "ok: console: http://127.0.0.1:8182/console/ (loopback only, no TLS): everyone on"),
        ({"authorizerd.admin.http": "http://[::1]:0"}, "ok: console: http://[::1]:any port/conso"),
        (TOKENS, "no TLS): callers with a token of /t can log in."),
        (
            {**HTTPS, **STORES, **TOKENS},
            "https://10.0.0.1:8443/console/ (TLS): callers with a token of /t can log in.",
        ),
        ({**HTTPS, **STORES, **CERTIFICATES}, "(TLS): clients with a certificate can log in."),
        (
            {**HTTPS, **STORES, **CERTIFICATES, **TOKENS},
            "callers with a token of /t and clients with a certificate can log in.",
        ),
        (
            {**STORES, **CERTIFICATES, "authorizerd.decision.http": "https://10.0.0.1:1"},
            "warning: console: http://127.0.0.1:8182/console/ (loopback only, no TLS): nobody can",
        ),
    ],
)
def test_address_and_visitors_are_named(settings: dict[str, str], expected: str) -> None:
    (finding,) = examine_console(parse_values(BASE | settings, source="f"))
    assert expected in finding.line()
