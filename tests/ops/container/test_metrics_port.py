"""The port that hands on /metrics: that alone, and to a next caller whatever the last one did."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest

from authorizerd.container.metrics_port import MetricsPort, main
from tests.ops.container.test_probe import answering, served

SECONDS_MAX = 30.0
FORMAT = "text/plain; version=1.0.0; charset=utf-8"
BODY = b"authorizerd_acls 7.0\n"


@contextmanager
def port(seconds_max: float = SECONDS_MAX) -> Iterator[str]:
    with (
        served(answering(200, BODY, FORMAT)) as admin,
        served(MetricsPort(("127.0.0.1", 0), admin, seconds_max)) as address,
    ):
        yield address


def get(address: str, path: str) -> tuple[int, str | None, bytes]:
    connection = HTTPConnection(address, timeout=SECONDS_MAX)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type"), response.read()
    finally:
        connection.close()


def test_metrics_are_handed_on_as_they_are() -> None:
    """Their format stands in Content-Type."""
    with port() as address:
        assert get(address, "/metrics") == (200, FORMAT, BODY)


@pytest.mark.parametrize("path", ["/readyz", "/", "/metrics/../readyz", "/metrics?x=1"])
def test_nothing_else_is_handed_on(path: str) -> None:
    """Whatever the admin port may answer some day."""
    with port() as address:
        assert get(address, path)[0] == 404


def test_a_daemon_that_does_not_answer_is_a_bad_gateway() -> None:
    """Prometheus then counts the target as down."""
    gone = answering(200, b"")
    gone.server_close()
    admin = f"127.0.0.1:{gone.server_port}"
    with served(MetricsPort(("127.0.0.1", 0), admin)) as address:
        status, _, body = get(address, "/metrics")
    assert status == 502
    assert body.startswith(b"the daemon does not answer: ")


def test_a_caller_that_never_ends_does_not_hold_up_the_next() -> None:
    """It is hung up on after some seconds; here after a tenth of one."""
    with port(seconds_max=0.1) as address:
        host, _, number = address.rpartition(":")
        with socket.create_connection((host, int(number)), SECONDS_MAX) as endless:
            endless.sendall(b"GET /met")
            assert endless.recv(1) == b""


@pytest.mark.parametrize("listen", ["127.0.0.1", "127.0.0.1:http"])
def test_an_address_without_a_port_is_refused(
    listen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the address in the error."""
    with pytest.raises(SystemExit):
        main(["--listen", listen])
    assert f"{listen!r} is not HOST:PORT" in capsys.readouterr().err


def test_a_port_that_does_not_exist_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback for a typing error."""
    assert main(["--listen", "127.0.0.1:99999"]) == 1
    assert capsys.readouterr().err.startswith("metrics_port: 127.0.0.1:99999: ")
