"""The limits of each endpoint's server."""

from __future__ import annotations

import pytest

from authorizerd.config.bounds import METRICS_CONNECTIONS_PER_IP_MAX
from authorizerd.config.configuration import parse
from authorizerd.daemon.decision_servers import new_limits
from authorizerd.daemon.endpoints import DECISION_HTTP, METRICS_HTTP

TEXT = "node.id=1\nlog.dirs=/log\nauthorizerd.metrics.http=http://0.0.0.0:9182\n"


@pytest.mark.parametrize(
    ("name", "per_ip", "most"),
    [
        (DECISION_HTTP, 100, 100),
        (METRICS_HTTP, 100, METRICS_CONNECTIONS_PER_IP_MAX),
        (METRICS_HTTP, 2, 2),
    ],
)
def test_one_address_cannot_take_all_connections_of_the_metrics_port(
    name: str, per_ip: int, most: int
) -> None:
    """Otherwise one client could keep Prometheus and probes out; a reload keeps the limit."""
    configuration = parse(f"{TEXT}max.connections.per.ip={per_ip}\n", source="test")
    limits = new_limits(configuration, name, is_http=True)
    assert limits.of_address("10.0.0.1") == most
    again = limits.with_settings(configuration.reloadable, limits.connections_max)
    assert again.of_address("10.0.0.1") == most


def test_listener_may_have_a_lower_limit_than_the_others() -> None:
    configuration = parse(
        "node.id=1\nlog.dirs=/log\nlisteners=A://127.0.0.1:1,B://127.0.0.1:2\n"
        "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\n"
        "max.connections=100\nlistener.name.a.max.connections=7\n",
        source="test",
    )
    limits = {name: new_limits(configuration, name) for name in ("A", "B", DECISION_HTTP)}
    assert {name: each.connections_max for name, each in limits.items()} == {
        "A": 7,
        "B": 100,
        DECISION_HTTP: 100,
    }
