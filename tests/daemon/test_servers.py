"""The limits of each endpoint's server."""

from __future__ import annotations

import pytest

from authorizerd.config.bounds import METRICS_CONNECTIONS_PER_IP_MAX
from authorizerd.config.configuration import parse
from authorizerd.daemon.endpoints import DECISION_HTTP, METRICS_HTTP
from authorizerd.daemon.servers import new_limits

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
