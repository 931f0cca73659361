"""What each gateway of docs/gateways.md does with requests, and without a daemon."""

from __future__ import annotations

import signal
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from subprocess import PIPE
from typing import Final

import pytest

from tests.end_to_end.gateways.api import ANSWER, questions_of, read_leniently, read_strictly
from tests.end_to_end.gateways.gateway import GATEWAYS, require
from tests.end_to_end.gateways.hostile import make_request
from tests.end_to_end.gateways.raw_client import Reply, send, send_all
from tests.end_to_end.gateways.rig import LOCAL, Rig, running_gateway
from tests.support.acls import acl
from tests.support.daemon_process import wait_until
from tests.support.fixture_types import TempPathFactory
from tests.support.kafka_connection import KafkaConnection
from tests.support.sizes import size

ORDERS: Final = acl("User:alice", "READ", topic="orders")
PAYMENTS: Final = acl("User:alice", "READ", topic="payments")
EVERYTHING_THAT_BEGINS_WITH_OK: Final = (
    acl("User:alice", "READ", topic="ok", pattern="PREFIXED"),
    acl("User:alice", "WRITE", topic="ok", pattern="PREFIXED"),
    acl("User:alice", "READ", group="ok", pattern="PREFIXED"),
)
LIES: Final = (
    ("X-Forwarded-User: admin",),
    ("X-Forwarded-User: admin", "X-Forwarded-User: admin"),
    ("X_Forwarded_User: admin",),
    ("X-Real-IP: 10.9.9.9", "X-Forwarded-For: 10.9.9.9"),
    ("X-Original-URI: /topics/orders", "X-Forwarded-Uri: /topics/orders"),
)
"""Headers by which a client might get what it may not."""
FAILURES: Final = range(500, 600)
THREADS: Final = 8
SEED: Final = 45


@pytest.fixture(scope="module", params=GATEWAYS, ids=lambda gateway: gateway.program)
def rig(request: pytest.FixtureRequest, tmp_path_factory: TempPathFactory) -> Iterator[Rig]:
    require(request.param)
    with running_gateway(tmp_path_factory.mktemp("gateway"), request.param) as rig:
        yield rig


def get(rig: Rig, path: str = "/topics/orders", *headers: str, user: str | None = "alice") -> Reply:
    """Send a request whose first header is the user's password."""
    password = [] if user is None else [f"Authorization: Basic {_base64(f'{user}:{user}-secret')}"]
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *password, *headers, "", ""]
    return send(rig.address, "\r\n".join(lines).encode())


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def test_request_passes_only_if_the_daemon_allows_it(rig: Rig) -> None:
    """A changed ACL decides the next request."""
    of_others = [
        acl("User:admin", "READ", topic="payments"),
        acl("User:alice", "READ", topic="payments", host="10.9.9.9"),
    ]
    with rig.daemon(ORDERS, *of_others) as daemon:
        assert get(rig).status == 200
        (seen,) = rig.api.take()
        assert (seen.method, seen.target) == ("GET", b"/topics/orders")
        denied = get(rig, "/topics/payments")
        assert (denied.status, denied.headers["content-type"][:10]) == (403, "text/plain")
        reason = b"User:alice may not READ TOPIC payments from 127.0.0.1: "
        assert denied.body.startswith(reason)
        assert [get(rig, "/topics/payments", *lies).status for lies in LIES] == [403] * len(LIES)
        for user in (None, "mallory"):
            unknown = get(rig, user=user)
            assert (unknown.status, "www-authenticate" in unknown.headers) == (401, True)
        assert get(rig, "/").status == 403
        assert rig.api.take() == []
        admin = KafkaConnection(daemon.ready["listeners"]["PLAINTEXT"])
        assert admin.create(PAYMENTS) == [None]
        assert get(rig, "/topics/payments").status == 200
        admin.delete_name("payments")
        assert get(rig, "/topics/payments").status == 403
        admin.close()
        assert len(rig.api.take()) == 1


@pytest.mark.parametrize(
    ("line", "status"), [("", 403), ("proxy_ignore_headers Cache-Control;", 200)]
)
def test_cache_of_nginx_keeps_no_answer_unless_it_must(
    tmp_path: Path, line: str, status: int
) -> None:
    """A removed ACL would live on in a cache. The daemon forbids it, and nginx can be told so."""
    caching = f"proxy_cache answers; proxy_cache_valid 200 1h; proxy_cache_key $request_uri; {line}"
    changes = {
        "access_log off;": "access_log off; proxy_cache_path cache keys_zone=answers:1m;",
        "proxy_ssl_verify on;": f"proxy_ssl_verify on; {caching}",
    }
    nginx = GATEWAYS[0]
    require(nginx)
    with running_gateway(tmp_path, nginx, changes) as rig, rig.daemon(ORDERS) as daemon:
        assert get(rig).status == 200
        with closing(KafkaConnection(daemon.ready["listeners"]["PLAINTEXT"])) as admin:
            admin.delete_name("orders")
        assert get(rig).status == status


def test_haproxy_judges_the_path_of_http_2_too(tmp_path: Path) -> None:
    """To HAProxy, the URL of such a request has a scheme and a host."""
    (haproxy,) = (each for each in GATEWAYS if each.program == "haproxy")
    require(haproxy)
    with running_gateway(tmp_path, haproxy) as rig, rig.daemon(ORDERS):
        for topic, status in (("orders", b"200"), ("payments", b"403")):
            url = f"http://{rig.address}/topics/{topic}"
            told = ("-o", "/dev/null", "-w", "%{http_version} %{http_code}")
            command = ("curl", "-s", "--http2-prior-knowledge", "-u", "alice:alice-secret", *told)
            assert subprocess.run((*command, url), stdout=PIPE, check=True).stdout == b"2 " + status
        assert [each.target for each in rig.api.take()] == [b"/topics/orders"]


def test_error_in_the_lua_of_haproxy_lets_nothing_pass(tmp_path: Path) -> None:
    """HAProxy goes on with the next rule after an action that fails."""
    haproxy = GATEWAYS[1]
    require(haproxy)
    changes = {"local given =": "core.no_such_function()\n    local given ="}
    with running_gateway(tmp_path, haproxy, changes) as rig, rig.daemon(ORDERS):
        assert get(rig).status in FAILURES
        assert rig.api.take() == []


def test_nothing_passes_without_an_answer(rig: Rig) -> None:
    """The gateway's own fault is never shown as the user's, by 401 or 403."""
    with rig.daemon(ORDERS) as daemon:
        assert get(rig).status == 200
        for change in rig.gateway.refusals:
            with rig.changed(daemon, *change):
                assert get(rig).status in FAILURES
            assert get(rig).status == 200
        if rig.gateway.has_time_limit:
            daemon.process.send_signal(signal.SIGSTOP)
            for _ in range(2):  # on the connection that is open, and on a new one
                assert get(rig).status in FAILURES
            daemon.process.send_signal(signal.SIGCONT)
        assert daemon.stop()[0] == 0
        assert get(rig).status in FAILURES
    with rig.daemon(ORDERS):
        assert get(rig).status == 200
    assert len(rig.api.take()) == 2 + len(rig.gateway.refusals)


def test_nothing_passes_while_the_daemon_is_not_ready(rig: Rig) -> None:
    """Here it stops deciding because it cannot write its audit, but must."""
    must = ("server.properties", "audit.required=false", "audit.required=true")
    with rig.daemon(ORDERS, log="/dev/full", required="false") as daemon:
        assert get(rig).status == 200
        with rig.changed(daemon, *must):
            wait_until(lambda: get(rig).status in FAILURES, "the daemon does not decide")
            rig.api.take()
            assert get(rig).status in FAILURES
            assert rig.api.take() == []
        assert get(rig).status == 200
        rig.api.take()


def test_no_request_passes_whose_question_was_not_asked(rig: Rig) -> None:
    """However the API reads a request that reaches it, the daemon has allowed just that."""
    random = Random(SEED)
    requests = [make_request(number, random) for number in range(size(400, 100_000))]
    with rig.daemon(*EVERYTHING_THAT_BEGINS_WITH_OK) as daemon:
        with ThreadPoolExecutor(THREADS) as threads:
            parts = [requests[start::THREADS] for start in range(THREADS)]
            replies = [*threads.map(lambda part: send_all(rig.address, part), parts)]
        assert daemon.stop()[0] == 0
    passed = [reply for part in replies for reply in part if reply.body == ANSWER]
    seen = rig.api.take()
    assert len(seen) == len(passed) > len(requests) / 20
    allowed = rig.allowed()
    for each in seen:
        strict = questions_of(*read_strictly(each))
        lenient = [questions_of(*reading) for reading in read_leniently(each)]
        assert strict, each
        assert strict.union(*lenient) <= allowed, each
        assert each.values("x-forwarded-user") == ["alice"], each
        assert {*each.values("x-real-ip", "x-forwarded-for")} == {LOCAL}, each
