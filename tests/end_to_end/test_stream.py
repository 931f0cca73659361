"""The decision stream of a real daemon, over TCP and over a Unix socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from authorizerd.protocol.decisions.stream import Answer, StreamClientConnection, StreamQuestion
from tests.end_to_end.test_admin_clients import binding, created, new_log
from tests.support.daemon_process import SECONDS_MAX, DaemonProcess, run, running, write_config

FRAME_BYTES_MAX = 1 << 20
READ, TOPIC = 3, 2


class Client:
    """A blocking client of one connection."""

    def __init__(self, address: str, token: str | None = None) -> None:
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(SECONDS_MAX)
            self.socket.connect(address.removeprefix("unix:"))
        else:
            host, _, port = address.rpartition(":")
            self.socket = socket.create_connection((host, int(port)), SECONDS_MAX)
        self.connection = StreamClientConnection(FRAME_BYTES_MAX)
        self.socket.sendall(self.connection.hello(token))
        while (greeting := self.connection.next_greeting()) is None:
            self.receive()
        self.greeting = greeting

    def receive(self) -> None:
        data = self.socket.recv(65536)
        assert data, "the daemon has closed the connection"
        self.connection.receive_data(data)

    def answer(self) -> Answer:
        while (answer := self.connection.next_answer()) is None:
            self.receive()
        return answer

    def ask(self, *questions: StreamQuestion, number: int = 1, min_offset: int = -1) -> Answer:
        self.socket.sendall(self.connection.ask(number, list(questions), min_offset))
        return self.answer()


@pytest.fixture(params=["tcp", "unix"])
def daemon(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DaemonProcess]:
    place = "tcp://127.0.0.1:0" if request.param == "tcp" else f"unix:{tmp_path}/stream"
    config = {"authorizerd.decision.stream": place}
    with running(tmp_path, new_log(tmp_path), config, super_users="User:ANONYMOUS") as daemon:
        yield daemon


def test_many_questions_a_frame_many_frames_in_flight(daemon: DaemonProcess) -> None:
    """Answers come in order, each with the offset that it was judged at."""
    client = Client(daemon.ready["decision_stream"])
    assert (client.greeting.error_code, client.greeting.version) == (0, 1)
    admin = AdminClient({"bootstrap.servers": daemon.ready["listeners"]["PLAINTEXT"]})
    assert created(admin, binding()) == [None]
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
    client.socket.close()
    address = daemon.ready["decision_stream"]
    assert daemon.stop()[0] == 0
    assert not (address.startswith("unix:") and Path(address[5:]).exists())


def test_a_frame_may_wait_for_an_offset(daemon: DaemonProcess) -> None:
    """Earlier answers come at once; its own comes when the change is applied."""
    client = Client(daemon.ready["decision_stream"])
    may: StreamQuestion = ("User:alice", None, READ, TOPIC, "orders")
    before = client.ask(may)
    assert before.decisions == b"\0"
    ahead = client.connection.ask(2, [may])
    client.socket.sendall(ahead + client.connection.ask(3, [may], before.offset + 1))
    assert client.answer().correlation_id == 2
    admin = AdminClient({"bootstrap.servers": daemon.ready["listeners"]["PLAINTEXT"]})
    assert created(admin, binding()) == [None]
    waited = client.answer()
    assert (waited.correlation_id, waited.decisions) == (3, b"\1")
    assert waited.offset >= before.offset + 1
    client.socket.close()


def test_a_daemon_that_cannot_start_leaves_no_socket(tmp_path: Path) -> None:
    """Another of its ports is in use: nothing stands where it would have served."""
    path = tmp_path / "stream"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = {
            "authorizerd.decision.stream": f"unix:{path}",
            "authorizerd.decision.http": f"http://127.0.0.1:{taken.getsockname()[1]}",
        }
        done = run("serve", "--config", write_config(tmp_path, new_log(tmp_path), config))
    assert (done.returncode, "Address already in use" in done.stderr) == (1, True)
    assert not path.exists()


def test_where_another_daemon_serves_none_is_started(tmp_path: Path) -> None:
    """A Unix socket in use is refused by its key, and its daemon goes on."""
    config = {"authorizerd.decision.stream": f"unix:{tmp_path}/stream"}
    second = tmp_path / "second"
    second.mkdir()
    with running(tmp_path, new_log(tmp_path), config) as daemon:
        done = run("serve", "--config", write_config(second, new_log(second), config))
        assert done.returncode == 1
        key, address = *config, daemon.ready["decision_stream"]
        assert f"{key}: {address}: Address already in use" in done.stderr
        client = Client(address)
        assert client.greeting.error_code == 0
        client.socket.close()


def test_a_stream_that_is_served_nowhere_has_no_address(tmp_path: Path) -> None:
    """The ready file says null, and the metrics have no such server."""
    with running(tmp_path, new_log(tmp_path), {"authorizerd.decision.stream": ""}) as daemon:
        assert daemon.ready["decision_stream"] is None
        with pytest.raises(AssertionError, match="no metric"):
            daemon.metric('authorizerd_stream_connections{listener="decision_stream"}')
