import os
import socket
import stat
from pathlib import Path

import pytest
import trio

from authorizerd.daemon.errors import StartError
from authorizerd.daemon.net import binding
from authorizerd.daemon.net.binding import SocketFile, bind, bind_unix, listen_at
from authorizerd.protocol.worker_feed import WorkerAddress

KEY = "authorizerd.decision.http"


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def test_bound_endpoint_refuses_clients_until_it_listens() -> None:
    endpoint = await bind("127.0.0.1", 0, KEY)
    port = port_of(endpoint.address)
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream("127.0.0.1", port)
    listeners = endpoint.listen()
    async with await trio.open_tcp_stream("127.0.0.1", port), await listeners[0].accept():
        pass
    endpoint.close()


async def test_address_in_use_is_an_error_at_the_bind() -> None:
    first = await bind("127.0.0.1", 0, KEY)
    first.listen()
    port = port_of(first.address)
    reason = "Address already in use: end the process that listens there, or change the key"
    with pytest.raises(StartError, match=f"{KEY}: 127.0.0.1:{port}: {reason}"):
        await bind("127.0.0.1", port, KEY)
    first.close()


async def test_address_of_another_machine_is_an_error_with_a_remedy() -> None:
    reason = "Cannot assign requested address: expected an address of this machine"
    with pytest.raises(StartError, match=f"^{KEY}: 192.0.2.1:0: {reason}$"):
        await bind("192.0.2.1", 0, KEY)


async def test_address_taken_before_listening_is_an_error() -> None:
    """Two processes may bind an address, but only one may listen."""
    first = await bind("127.0.0.1", 0, KEY)
    second = await bind("127.0.0.1", port_of(first.address), KEY)
    first.listen()
    with pytest.raises(StartError, match=KEY):
        second.listen()
    first.close()
    second.close()


async def test_addresses_of_localhost_get_the_same_port() -> None:
    endpoint = await bind("localhost", 0, KEY)
    listeners = endpoint.listen()
    ports = {listener.socket.getsockname()[1] for listener in listeners}
    assert ports == {port_of(endpoint.address)}
    endpoint.close()


async def test_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(StartError, match=r"192\.0\.2\.1"):
        await bind("192.0.2.1", 0, KEY)


async def connect_to(path: Path, listener: trio.SocketListener) -> None:
    """Check that a client reaches this listener."""
    async with await trio.open_unix_socket(path), await listener.accept():
        pass


STREAM_KEY = "authorizerd.decision.stream"


async def test_unix_socket_refuses_until_it_listens_and_is_removed_at_end(tmp_path: Path) -> None:
    """Only its owner and its group may connect."""
    path = tmp_path / "stream"
    endpoint = await bind_unix(path, STREAM_KEY)
    assert endpoint.address == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    with pytest.raises(ConnectionRefusedError):
        await trio.open_unix_socket(path)
    listeners = endpoint.listen()
    await connect_to(path, listeners[0])
    endpoint.close()
    assert not path.exists()
    endpoint.close()


async def test_link_in_the_place_of_a_new_socket_changes_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user who may write to the folder replaces the socket as soon as it is bound."""
    path, other = tmp_path / "stream", tmp_path / "secret"
    other.touch(mode=0o600)

    class ReplacedAtOnce(SocketFile):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            path.unlink()
            path.symlink_to(other)

    monkeypatch.setattr(binding, "SocketFile", ReplacedAtOnce)
    endpoint = await bind_unix(path, STREAM_KEY)
    assert stat.S_IMODE(other.stat().st_mode) == 0o600
    endpoint.close()


async def test_socket_left_by_a_killed_process_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
        left.listen()
    endpoint = await bind_unix(path, STREAM_KEY)
    (listener,) = endpoint.listen()
    await connect_to(path, listener)
    endpoint.close()


async def test_socket_of_another_daemon_at_the_path_is_kept(tmp_path: Path) -> None:
    """Another daemon starts while this one drains. Its file must get another inode number."""
    path = tmp_path / "stream"
    first = await bind_unix(path, STREAM_KEY)
    (listener,) = first.listen()
    number = path.stat().st_ino
    await listener.aclose()
    second = await bind_unix(path, STREAM_KEY)
    assert path.stat().st_ino != number
    (listener,) = second.listen()
    first.close()
    await connect_to(path, listener)
    second.close()
    assert not path.exists()


async def test_daemon_that_lost_its_socket_file_ends(tmp_path: Path) -> None:
    """Two daemons start at one path. No client could connect to the one whose file was replaced."""
    path = tmp_path / "stream"
    first = await bind_unix(path, STREAM_KEY)
    second = await bind_unix(path, STREAM_KEY)
    with pytest.raises(StartError, match=f"{STREAM_KEY}: unix:{path}: another process has bound"):
        first.listen()
    (listener,) = second.listen()
    first.close()
    await connect_to(path, listener)
    second.close()


async def test_socket_file_that_is_gone_at_the_end_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    endpoint = await bind_unix(path, STREAM_KEY)
    path.unlink()
    endpoint.close()


async def test_unix_socket_in_use_is_an_error_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    first = await bind_unix(path, STREAM_KEY)
    (listener,) = first.listen()
    with pytest.raises(StartError, match=f"{STREAM_KEY}: unix:{path}: Address already in use"):
        await bind_unix(path, STREAM_KEY)
    async with listener, await trio.open_unix_socket(path):
        pass
    first.close()


@pytest.mark.parametrize("kind", ["file", "directory", "link to a file", "link to nowhere"])
async def test_other_file_at_the_path_is_an_error_and_kept(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "stream", tmp_path / "other"
    if kind == "file":
        path.write_text("kept")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(other)
        if kind == "link to a file":
            other.write_text("kept")
    with pytest.raises(StartError, match=f"unix:{path}: the file exists, but is not a socket"):
        await bind_unix(path, STREAM_KEY)
    assert path.is_symlink() or path.is_dir() or path.read_text() == "kept"


async def test_missing_folder_of_a_unix_socket_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "stream"
    with pytest.raises(StartError, match=f"{STREAM_KEY}: unix:{path}: No such file"):
        await bind_unix(path, STREAM_KEY)


async def test_workers_listen_at_a_shared_address() -> None:
    """The daemon only holds the address. Workers may come and go."""
    endpoint = await bind("localhost", 0, KEY, is_shared=True)
    port = port_of(endpoint.address)
    place = endpoint.place("decision_http")
    first, second = await listen_at(place), await listen_at(place)
    for listener in first:
        await listener.aclose()
    async with await trio.open_tcp_stream("127.0.0.1", port):
        with trio.fail_after(5):
            async with await second[-1].accept():
                pass
    for listener in second:
        await listener.aclose()
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream("127.0.0.1", port)
    endpoint.close()


@pytest.mark.parametrize("are_listening", [True, False])
async def test_address_of_another_daemons_workers_is_not_shared(are_listening: bool) -> None:
    """Otherwise some clients would reach a daemon with another log.

    Workers do not listen before the ACLs are loaded.
    """
    first = await bind("127.0.0.1", 0, KEY, is_shared=True)
    listeners = await listen_at(first.place("decision_http")) if are_listening else []
    with pytest.raises(StartError, match=f"{KEY}: .*Address already in use"):
        await bind("127.0.0.1", port_of(first.address), KEY, is_shared=True)
    for listener in listeners:
        await listener.aclose()
    first.close()


async def test_address_that_cannot_be_shared_is_an_error() -> None:
    other = await bind("127.0.0.1", 0, KEY)
    other.listen()
    place = other.place("decision_http")
    with pytest.raises(StartError, match="decision_http: Address already in use"):
        await listen_at(place)
    other.close()


async def test_workers_accept_from_the_inherited_unix_socket(tmp_path: Path) -> None:
    endpoint = await bind_unix(tmp_path / "stream", KEY)
    place = endpoint.place("decision_stream")
    [descriptor] = place.descriptors
    [listener] = await listen_at(WorkerAddress(place.name, descriptors=(os.dup(descriptor),)))
    async with await trio.open_unix_socket(tmp_path / "stream"), await listener.accept():
        pass
    await listener.aclose()
    endpoint.close()


@pytest.mark.parametrize("others", [["0.0.0.0"], ["127.0.0.1", "0.0.0.0"]])
async def test_localhost_must_be_this_machine_alone(
    monkeypatch: pytest.MonkeyPatch, others: list[str]
) -> None:
    """A name server may say anything, and callers on loopback are trusted."""

    async def resolve(_: object, port: int, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in others]

    monkeypatch.setattr("authorizerd.daemon.net.binding.trio.socket.getaddrinfo", resolve)
    with pytest.raises(
        StartError, match=r"^key: localhost:0: 0\.0\.0\.0 is not a loopback address"
    ):
        await bind("localhost", 0, "key")
    bound = await bind("authorizer.example", 0, "key")
    bound.close()
