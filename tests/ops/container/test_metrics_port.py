from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection

import pytest

from authorizerd.container.metrics_port import MetricsPort, main
from tests.ops.container.servers import answering, closed_address, serving
from tests.support.daemon_process import Answer, ask

SECONDS_MAX = 30.0
FORMAT = "text/plain; version=1.0.0; charset=utf-8"
BODY = b"authorizerd_acls 7.0\n"


@contextmanager
def port(seconds_max: float = SECONDS_MAX) -> Iterator[str]:
    with (
        serving(answering(200, BODY, FORMAT)) as admin,
        serving(MetricsPort(("127.0.0.1", 0), admin, seconds_max)) as address,
    ):
        yield address


def get(address: str, path: str) -> Answer:
    with closing(HTTPConnection(address, timeout=SECONDS_MAX)) as connection:
        return ask(connection, "GET", path)


def test_metrics_are_served_unchanged() -> None:
    with port() as address:
        answer = get(address, "/metrics")
    assert (answer.status, answer.headers["Content-Type"], answer.body) == (200, FORMAT, BODY)


@pytest.mark.parametrize("path", ["/readyz", "/", "/metrics/../readyz", "/metrics?x=1"])
def test_other_paths_are_not_found(path: str) -> None:
    with port() as address:
        assert get(address, path).status == 404


def test_daemon_that_does_not_answer_is_a_bad_gateway() -> None:
    with serving(MetricsPort(("127.0.0.1", 0), closed_address())) as address:
        answer = get(address, "/metrics")
    assert answer.status == 502
    assert answer.body.startswith(b"the daemon does not answer: ")


def test_endless_request_is_closed_after_the_time_limit() -> None:
    with port(seconds_max=0.1) as address:
        host, _, number = address.rpartition(":")
        with socket.create_connection((host, int(number)), SECONDS_MAX) as endless:
            endless.sendall(b"GET /met")
            assert endless.recv(1) == b""


@pytest.mark.parametrize("listen", ["127.0.0.1", "127.0.0.1:http"])
def test_address_without_a_port_is_rejected(
    listen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--listen", listen])
    assert f"expected HOST:PORT, found {listen!r}" in capsys.readouterr().err


def test_invalid_port_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--listen", "127.0.0.1:99999"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("metrics_port: 127.0.0.1:99999: ")
