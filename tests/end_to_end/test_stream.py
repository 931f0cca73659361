"""The decision stream of a real daemon, over TCP and over a Unix socket."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizerd.protocol.decisions.stream import StreamQuestion
from tests.support.admin_client import binding, create_acls, new_admin
from tests.support.daemon_process import DaemonProcess, new_log, run, running, write_config
from tests.support.stream_connection import StreamConnection

READ, TOPIC = 3, 2


@pytest.fixture(params=["tcp", "unix"])
def daemon(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DaemonProcess]:
    place = "tcp://127.0.0.1:0" if request.param == "tcp" else f"unix:{tmp_path}/stream"
    config = {"authorizerd.decision.stream": place}
    with running(tmp_path, new_log(tmp_path), config, super_users="User:ANONYMOUS") as daemon:
        yield daemon


def test_frames_are_answered_in_order(daemon: DaemonProcess) -> None:
    """A frame has many questions, and many frames are in flight. Each answer has its log offset."""
    client = StreamConnection(daemon.ready["decision_stream"])
    assert (client.greeting.error_code, client.greeting.version) == (0, 1)
    assert create_acls(new_admin(daemon), binding()) == [None]
    may: StreamQuestion = ("User:alice", None, READ, TOPIC, "orders")
    may_not: StreamQuestion = ("User:bob", "10.0.0.1", "READ", "TOPIC", "orders")
    for number in range(500):
        frame = client.connection.ask(number, [may, may_not] * (number % 7))
        client.socket.sendall(frame)
    for number in range(500):
        answer = client.answer()
        assert answer.correlation_id == number
        assert (answer.error_code, answer.decisions) == (0, b"\1\0" * (number % 7))
        assert answer.offset > client.greeting.offset
    client.close()
    address = daemon.ready["decision_stream"]
    assert daemon.stop()[0] == 0
    assert not (address.startswith("unix:") and Path(address[5:]).exists())


def test_failed_start_leaves_no_unix_socket(tmp_path: Path) -> None:
    """The start fails because another port of the daemon is in use."""
    path = tmp_path / "stream"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = {
            "authorizerd.decision.stream": f"unix:{path}",
            "authorizerd.decision.http": f"http://127.0.0.1:{taken.getsockname()[1]}",
        }
        done = run("serve", "--config", write_config(tmp_path, new_log(tmp_path), config))
    assert (done.returncode, "Address already in use" in done.stderr) == (1, True)
    assert not path.exists()


def test_disabled_stream_has_no_address_and_no_metrics(tmp_path: Path) -> None:
    with running(tmp_path, new_log(tmp_path), {"authorizerd.decision.stream": ""}) as daemon:
        assert daemon.ready["decision_stream"] is None
        with pytest.raises(AssertionError, match="no metric"):
            daemon.metric('authorizerd_stream_connections{listener="decision_stream"}')
