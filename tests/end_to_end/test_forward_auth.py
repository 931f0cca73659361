"""Real daemons answer the bytes that gateways send."""

import socket
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from tests.support.admin_client import binding, create_acls, new_admin
from tests.support.daemon_process import (
    SECONDS_MAX,
    DaemonProcess,
    connect,
    new_log,
    run,
    running,
    wait_until,
    write_config,
)

ROUTES = "routes:\n  - POST /topics/{topic} -> WRITE TOPIC {topic}\n"
BY_NGINX = (
    "GET /v1/forward-auth HTTP/1.0", "Host: localhost", "X-Original-Method: POST",
    "X-Original-URI: /topics/orders", "X-Real-IP: 10.0.0.1", "X-Forwarded-User: root",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gateways")
    (folder / "routes.yaml").write_text(ROUTES)
    return folder


@pytest.fixture(scope="module")
def daemon(folder: Path) -> Iterator[DaemonProcess]:
    config = {"authorizerd.routes.file": str(folder / "routes.yaml")}
    with running(folder, new_log(folder), config, super_users="User:root;User:ANONYMOUS") as daemon:
        yield daemon


def write(*lines: str, body: str = "") -> bytes:
    return "\r\n".join((*lines, "", body)).encode()


def exchange(daemon: DaemonProcess, data: bytes) -> bytes:
    """Return all that the daemon answers to these bytes, after which nothing follows."""
    with connect(daemon.ready["decision_http"]) as connection:
        connection.settimeout(SECONDS_MAX)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def statuses(answers: bytes) -> list[int]:
    return [int(each[:3]) for each in answers.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize(("changed", "status"), [
    ({}, 200),
    ({"X-Forwarded-User: root": "X-Forwarded-User: alice"}, 403),
    ({"X-Forwarded-User: root": "X: y"}, 401),
    ({"/topics/orders": "/topics/../orders"}, 403),
    ({"/topics/orders": "/topics/or ders"}, 403),
    ({"/topics/orders": "/topics/orders\r\nX-Original-URI: /topics/orders"}, 403),
    ({"root": "root\r\nx-forwarded-user: root"}, 403),
    ({"10.0.0.1": "10.0.0.1\r\nX-Real-IP: 10.0.0.1"}, 403),
    ({"POST": "POST\r\nX-HTTP-Method-Override: PUT"}, 403),
    ({"Host: localhost": "Host: localhost\r\nHost: localhost"}, 400),
    ({"Host: localhost": "Host: example.com"}, 403),
    ({"Host: localhost": "Host: localhost\r\n X-Folded: a"}, 400),
    ({"Host: localhost": "Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 1"},
     400),
    ({"Host: localhost": "Host: localhost\r\nX-Real-IP : 10.0.0.2"}, 400),
    ({"Host: localhost": "Host: localhost\nX-A: b"}, 400),
    ({"HTTP/1.0": "HTTP/1.0\r\nX-Original-URI: "}, 403),
    ({"HTTP/1.0": "HTTP/2.0"}, 505),
    ({"GET": "PROPFIND"}, 501),
    ({"GET": "get"}, 400),
    ({"/v1/forward-auth ": "/v1/forward-auth/x "}, 403),
    ({"/v1/forward-auth ": "/v1/forward-auth/../forward-auth "}, 403),
    ({"/v1/forward-auth ": "//v1/forward-auth "}, 404),
    ({"/v1/forward-auth ": "/V1/forward-auth "}, 404),
    ({"/v1/forward-auth ": "http://localhost/v1/forward-auth "}, 200),
])  # fmt: skip
def test_bytes_of_a_gateway_get_one_answer(
    daemon: DaemonProcess, changed: dict[str, str], status: int
) -> None:
    data = write(*BY_NGINX)
    for before, after in changed.items():
        assert before.encode() in data
        data = data.replace(before.encode(), after.encode(), 1)
    assert statuses(exchange(daemon, data)) == [status]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
def test_connection_is_kept_for_many_questions(
    daemon: DaemonProcess, version: str, method: str
) -> None:
    """A body, which is ignored, does not become the next request."""
    first = f"{method} /v1/forward-auth HTTP/{version}"
    body = write(*BY_NGINX)
    kept = write(
        first, *BY_NGINX[1:], "Connection: keep-alive", f"Content-Length: {len(body)}",
        body=body.decode(),
    )  # fmt: skip
    denied = kept.replace(b"User: root", b"User: bob", 1)
    last = write(first, *BY_NGINX[1:], "Connection: close")
    answers = exchange(daemon, kept + denied + kept + last)
    assert statuses(answers) == [200, 403, 200, 200]
    assert answers.count(b"may not WRITE TOPIC orders") == (1 if method == "HEAD" else 2)


def test_change_of_the_acls_counts_at_once(daemon: DaemonProcess) -> None:
    data = write(*BY_NGINX).replace(b"root", b"writer")
    denied = 'authorizerd_decisions_total{result="denied",surface="ForwardAuth"}'
    before = daemon.metric(denied)
    assert statuses(exchange(daemon, data)) == [403]
    assert daemon.metric(denied) == before + 1
    right = binding("orders", principal="User:writer", operation=AclOperation.WRITE)
    assert create_acls(new_admin(daemon), right) == [None]
    assert statuses(exchange(daemon, data)) == [200]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_reload_replaces_the_table_or_keeps_it(tmp_path: Path, workers: str) -> None:
    """Also in workers. A gateway without its token gets 503, never the user's 401."""
    routes, tokens = tmp_path / "routes.yaml", tmp_path / "tokens"
    routes.write_text(ROUTES)
    tokens.write_text(f"g {sha256(b'secret').hexdigest()} Service:gateway\n")
    config = {
        "authorizerd.routes.file": str(routes),
        "authorizerd.workers": workers,
        "authorizerd.tokens.file": str(tokens),
        "authorizerd.callers.ask": "Service:gateway",
    }
    by_token = write(*BY_NGINX, "Authorization: Bearer g.secret")
    with running(tmp_path, new_log(tmp_path), config, super_users="User:root") as daemon:
        assert statuses(exchange(daemon, by_token)) == [200]
        allowed = 'authorizerd_decisions_total{result="allowed",surface="ForwardAuth"}'
        wait_until(lambda: daemon.metric(allowed) >= 1, "the decision is counted")
        assert statuses(exchange(daemon, write(*BY_NGINX))) == [503]
        assert statuses(exchange(daemon, by_token.replace(b"secret", b"wrong"))) == [503]
        routes.write_text(f"{ROUTES}  - GET /x\n")
        daemon.reload(f"the configuration is not reloaded: {routes}:3: routes: 'GET /x': expected")
        assert statuses(exchange(daemon, by_token)) == [200]
        routes.write_text(ROUTES.replace("/topics/", "/v3/"))
        daemon.reload()
        moved = by_token.replace(b"/topics/", b"/v3/")
        wait_until(lambda: statuses(exchange(daemon, moved)) == [200], "the routes are replaced")
        wait_until(lambda: statuses(exchange(daemon, by_token)) == [403], "in each process")
        assert daemon.stop()[0] == 0


def test_faulty_file_prevents_the_start(tmp_path: Path) -> None:
    routes = tmp_path / "routes.yaml"
    routes.write_text("routes:\n  - GET /x\n  - PUT /x\n")
    log_dir = new_log(tmp_path)
    config = write_config(tmp_path, log_dir, {"authorizerd.routes.file": str(routes)})
    done = run("serve", "--config", config)
    assert done.returncode == 1
    assert f"{routes}:2: routes: 'GET /x': expected METHOD PATTERN -> QUESTION" in done.stderr


def test_without_a_file_there_is_no_such_path(tmp_path: Path) -> None:
    with running(tmp_path, new_log(tmp_path)) as daemon:
        assert statuses(exchange(daemon, write(*BY_NGINX))) == [404]
