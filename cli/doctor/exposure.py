"""Check which ports other machines can reach, and what they could eavesdrop on.

The configuration itself rejects a decision port on a non-loopback address without tokens. These
checks warn if clients of a reachable port send credentials in the clear, or need none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from authorizerd.cli.doctor.finding import Finding, ok, warning
from authorizerd.config.configuration import Configuration
from authorizerd.config.endpoints import HttpEndpoint, is_loopback
from authorizerd.config.values import SecurityProtocol

_CHECK: Final = "exposure"


def examine_exposure(configuration: Configuration) -> Iterator[Finding]:
    """Yield one finding for each port that other machines can reach, or a single ok."""
    reachable = [*_examine_decision_ports(configuration), *_examine_listeners(configuration)]
    yield from reachable or [ok(_CHECK, "no port is reachable from other machines")]


def _examine_decision_ports(configuration: Configuration) -> Iterator[Finding]:
    stream = configuration.decision_stream
    for key, endpoint in (
        ("decision.http", configuration.decision_http),
        ("decision.stream", stream),
    ):
        if endpoint is not None and not is_loopback(endpoint):
            text = f"authorizerd.{key}: other machines can reach it, and tokens travel in the clear"
            advice = "put a proxy that speaks TLS in front, or use a trusted network"
            yield warning(_CHECK, text, advice)


def _examine_listeners(configuration: Configuration) -> Iterator[Finding]:
    for listener in configuration.listeners:
        if is_loopback(HttpEndpoint(host=listener.host, port=listener.port)):
            continue
        name = f"listeners: {listener.listener_name}"
        if listener.security_protocol is SecurityProtocol.PLAINTEXT:
            text = f"{name}: other machines can reach it, and every client is User:ANONYMOUS"
            yield warning(_CHECK, text, "make it SASL_PLAINTEXT, or listen on loopback")
        else:
            text = f"{name}: other machines can reach it, and passwords travel in the clear"
            yield warning(_CHECK, text, "use a trusted network")
