"""The limits of each endpoint's server."""

import math
from pathlib import Path

import pytest
import trio
import trio.testing

from authorizerd.config.bounds import METRICS_CONNECTIONS_PER_IP_MAX
from authorizerd.config.configuration import parse
from authorizerd.daemon.decision_servers import (
    ANONYMOUS_PATHS,
    new_decision_server,
    new_http_server,
    new_limits,
)
from authorizerd.daemon.decisions.paths import PathsHandler
from authorizerd.daemon.endpoints import ADMIN_HTTP, DECISION_HTTP, METRICS_HTTP
from authorizerd.protocol.http.messages import LOOPBACK_HOSTS, Request, Response
from tests.daemon.decision_place import Place
from tests.daemon.http_service import GET, ask, echo, receive_until
from tests.daemon.serving import serve_in_memory

pytestmark = pytest.mark.usefixtures("autojump_clock")

TEXT = "node.id=1\nlog.dirs=/log\nauthorizerd.metrics.http=http://0.0.0.0:9182\n"


@pytest.mark.parametrize(
    ("name", "per_ip", "most"),
    [
        (DECISION_HTTP, 100, 100),
        (METRICS_HTTP, 100, METRICS_CONNECTIONS_PER_IP_MAX),
        (METRICS_HTTP, 2, 2),
    ],
)
def test_one_address_cannot_fill_the_metrics_port(name: str, per_ip: int, most: int) -> None:
    """Otherwise one client could keep Prometheus and probes out; a reload keeps the limit."""
    configuration = parse(f"{TEXT}max.connections.per.ip={per_ip}\n", source="test")
    limits = new_limits(configuration, name, is_http=True)
    assert limits.of_address("10.0.0.1") == most
    again = limits.with_settings(configuration, limits.connections_max)
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


class Echo:
    """Answers every request with its path."""

    async def __call__(self, request: Request) -> Response:
        return await echo(request)


@pytest.mark.parametrize(
    ("path", "has_tokens", "keeps_its_place"),
    [
        *((path, True, False) for path in sorted(ANONYMOUS_PATHS)),
        *((path, False, False) for path in sorted(ANONYMOUS_PATHS)),
        ("/v1/acls", True, True),
        ("/v1/acls", False, False),
    ],
)
async def test_answer_that_needs_no_credentials_keeps_no_place(
    path: str, has_tokens: bool, keeps_its_place: bool, tmp_path: Path, nursery: trio.Nursery
) -> None:
    """Otherwise strangers could keep callers with a token out of the port.

    Where callers need no credentials, everybody is a stranger.
    """
    server = new_decision_server(
        parse(f"{TEXT}max.connections=1\n", source="test"),
        Place(tmp_path if has_tokens else None).callers,
        None,
        PathsHandler({path: Echo()}, {}),
    )
    listener = await serve_in_memory(nursery, server)
    await ask(listener.connect(), path)
    newcomer = listener.connect()
    await newcomer.send_all(GET.replace(b"/", path.encode(), 1))
    answer = await receive_until(
        newcomer, b"too many connections\n" if keeps_its_place else path.encode()
    )
    assert answer[:12] == (b"HTTP/1.1 503" if keeps_its_place else b"HTTP/1.1 200")
    assert server.statistics.connections_evicted == (not keeps_its_place)


@pytest.mark.parametrize("name", [METRICS_HTTP, ADMIN_HTTP])
async def test_slow_pollers_keep_nobody_out(name: str, nursery: trio.Nursery) -> None:
    """Whatever a stranger's connection has asked, a probe or Prometheus replaces it."""
    server = new_http_server(
        parse(TEXT, source="test"), name, echo, 1000, math.inf, LOOPBACK_HOSTS, None
    )
    listener = await serve_in_memory(nursery, server)
    pollers = [listener.connect() for _ in range(server.limits.connections_max)]
    for client in pollers:
        await ask(client, "/healthz")
    for probes in range(1, 20):
        await trio.sleep(5)
        probe = listener.connect()
        assert await ask(probe, "/readyz")
        await probe.aclose()
        await trio.testing.wait_all_tasks_blocked()
        pollers[probes % len(pollers)] = poller = listener.connect()
        await ask(poller, "/healthz")
    assert server.statistics.connections_refused == 0
