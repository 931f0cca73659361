from __future__ import annotations

import socket

import pytest

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.connection import SocketLine, connect, probe
from authorizerd.replay.load.lanes.surfaces import StreamSurface
from tests.ops.replay.load.lanes.target_server import TargetServer

MS = 1_000_000


def test_probe_asks_one_question() -> None:
    with TargetServer(token="id.secret") as server:
        probe(server.address, StreamSurface("id.secret"))
        assert server.hellos == 1
        assert server.asked == []


def test_rejected_token_names_the_target() -> None:
    with TargetServer(token="id.secret") as server, pytest.raises(LoadError) as raised:
        probe(server.address, StreamSurface(None))
    assert str(raised.value) == (
        f"target {server.address}: it rejects the token (58 SASL_AUTHENTICATION_FAILED)"
    )


def test_unreachable_target_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(LoadError, match=f"target {address}: Connection refused"):
        probe(address, StreamSurface(None))
    with pytest.raises(LoadError, match=r"target nowhere\.invalid:1: "):
        probe("nowhere.invalid:1", StreamSurface(None))


def test_closed_connection_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listener.settimeout(10)
        with socket.create_connection(("127.0.0.1", port)) as _:
            accepted, _ = listener.accept()
            accepted.close()
    with pytest.raises(LoadError, match="target"):
        probe(f"127.0.0.1:{port}", StreamSurface(None))


def test_socket_line_does_not_block() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        line = SocketLine(ours, 0)
        assert line.receive() is None
        taken = 0
        while sent := line.send(b"x" * 65536):
            taken += sent
        assert taken > 0
        assert not line.wait(line.now_ns(), to_send=True)
        theirs.sendall(b"answer")
        assert line.wait(line.now_ns() + 10_000 * MS, to_send=False)
        assert line.receive() == b"answer"
        theirs.shutdown(socket.SHUT_WR)
        assert line.wait(line.now_ns() + 10_000 * MS, to_send=False)
        assert line.receive() == b""


def test_missing_unix_socket_is_named() -> None:
    with pytest.raises(LoadError, match=r"target unix:/nowhere/stream: No such file"):
        connect("unix:/nowhere/stream", StreamSurface(None))
