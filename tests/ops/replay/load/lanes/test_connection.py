from __future__ import annotations

import socket

import pytest

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.connection import SocketLine, connect, probe
from authorizerd.replay.load.lanes.surfaces import StreamSurface
from tests.ops.replay.load.lanes.target_server import target_server

MS = 1_000_000


def test_a_target_that_is_there_welcomes_a_probe() -> None:
    """It is asked one question, and left."""
    with target_server(token="id.secret") as server:
        probe(server.address, StreamSurface("id.secret"))
        assert server.hellos == 1
        assert server.asked == []


def test_a_token_that_is_refused_is_one_line_that_names_the_target() -> None:
    """No token, or a wrong one."""
    with target_server(token="id.secret") as server, pytest.raises(LoadError) as raised:
        probe(server.address, StreamSurface(None))
    assert str(raised.value) == (
        f"target {server.address}: it rejects the token (58 SASL_AUTHENTICATION_FAILED)"
    )


def test_where_nobody_listens_is_one_line_that_names_the_target() -> None:
    """An address that refuses, and a name that there is not."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(LoadError, match=f"target {address}: Connection refused"):
        probe(address, StreamSurface(None))
    with pytest.raises(LoadError, match=r"target nowhere\.invalid:1: "):
        probe("nowhere.invalid:1", StreamSurface(None))


def test_who_closes_at_once_has_not_answered() -> None:
    """A port of something else."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listener.settimeout(10)
        with socket.create_connection(("127.0.0.1", port)) as _:
            accepted, _ = listener.accept()
            accepted.close()
    with pytest.raises(LoadError, match="target"):
        probe(f"127.0.0.1:{port}", StreamSurface(None))


def test_a_line_neither_blocks_nor_forgets() -> None:
    """A full socket takes nothing; what came is received; the end is empty bytes."""
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


def test_a_unix_socket_that_is_not_there_is_named() -> None:
    """The path stands in the line."""
    with pytest.raises(LoadError, match=r"target unix:/nowhere/stream: No such file"):
        connect("unix:/nowhere/stream", StreamSurface(None))
