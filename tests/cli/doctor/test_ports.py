"""The doctor's checks of addresses, which it releases at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizerd.cli.doctor.exposure import examine_ports
from authorizerd.cli.doctor.finding import Finding, Level
from authorizerd.config.configuration import Configuration, parse_values


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server


def configured(*, decision: int = 0, stream: str = "", metrics: str = "") -> Configuration:
    values = {
        "node.id": "1",
        "log.dirs": "/log",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "authorizerd.decision.http": f"http://127.0.0.1:{decision}",
        "authorizerd.decision.stream": stream,
        "authorizerd.admin.http": "http://127.0.0.1:0",
        "authorizerd.metrics.http": metrics,
    }
    return parse_values(values, source="f")


def of_decision(port: int, *, is_running: bool = False) -> Finding:
    return next(iter(examine_ports(configured(decision=port), is_running=is_running)))


def of_stream(path: Path, *, is_running: bool = False) -> Finding:
    return list(examine_ports(configured(stream=f"unix:{path}"), is_running=is_running))[-1]


def test_every_endpoint_is_examined() -> None:
    configuration = configured(stream="tcp://127.0.0.1:0", metrics="http://127.0.0.1:0")
    findings = list(examine_ports(configuration, is_running=False))
    assert [each.text.rpartition(": ")[0] for each in findings] == [
        "authorizerd.decision.http",
        "authorizerd.admin.http",
        "listeners: PLAINTEXT",
        "authorizerd.metrics.http",
        "authorizerd.decision.stream",
    ]
    assert len(list(examine_ports(configured(), is_running=False))) == 3


def test_port_in_use_is_an_error_unless_a_daemon_runs(listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    assert of_decision(port).level is Level.ERROR
    assert "in use" in of_decision(port).text
    assert of_decision(port, is_running=True).level is Level.OK
    listening.settimeout(0)
    with pytest.raises(BlockingIOError):
        listening.accept()  # the probe did not connect


def test_free_port_is_released_at_once() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert of_decision(port).level is Level.OK
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))


def test_address_of_another_machine_is_an_error() -> None:
    values = {"node.id": "1", "log.dirs": "/log", "listeners": "PLAINTEXT://192.0.2.1:0"}
    found = list(examine_ports(parse_values(values, source="f"), is_running=True))
    (finding,) = [each for each in found if "192.0.2.1" in each.text]
    assert finding.level is Level.ERROR
    assert finding.advice == "name an address of this machine"


def test_unix_socket_is_examined_and_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    assert of_stream(path).level is Level.OK
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        assert of_stream(path).level is Level.ERROR
        assert of_stream(path, is_running=True).level is Level.OK
    assert "left by an ended process" in of_stream(path).text
    assert path.is_socket()
    path.unlink()
    path.write_text("kept")
    assert of_stream(path).level is Level.ERROR
    assert path.read_text() == "kept"
    path.unlink()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert of_stream(path).level is Level.ERROR
