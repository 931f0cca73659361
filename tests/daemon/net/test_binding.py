from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest
import trio

from authorizerd.daemon.errors import StartError
from authorizerd.daemon.net.binding import bind, bind_unix, listen_at
from authorizerd.protocol.worker_feed import Place

KEY = "authorizerd.decision.http"


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def test_a_bound_endpoint_refuses_until_it_listens() -> None:
    """Until the gate opens a client is refused at once instead of waiting; then it is accepted."""
    endpoint = await bind("127.0.0.1", 0, KEY)
    port = port_of(endpoint.address)
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream("127.0.0.1", port)
    listeners = endpoint.listen()
    async with await trio.open_tcp_stream("127.0.0.1", port), await listeners[0].accept():
        pass
    endpoint.close()


async def test_an_address_in_use_is_found_at_once() -> None:
    """The start fails before anything is loaded; the error names key and address."""
    first = await bind("127.0.0.1", 0, KEY)
    first.listen()
    port = port_of(first.address)
    with pytest.raises(StartError, match=f"{KEY}: 127.0.0.1:{port}: Address already in use"):
        await bind("127.0.0.1", port, KEY)
    first.close()


async def test_an_address_taken_between_binding_and_listening_is_named() -> None:
    """Two processes may bind an address, but only one may listen."""
    first = await bind("127.0.0.1", 0, KEY)
    second = await bind("127.0.0.1", port_of(first.address), KEY)
    first.listen()
    with pytest.raises(StartError, match=KEY):
        second.listen()
    first.close()
    second.close()


async def test_every_address_of_localhost_gets_the_same_port() -> None:
    """A client that tries any of localhost's addresses finds the daemon."""
    endpoint = await bind("localhost", 0, KEY)
    listeners = endpoint.listen()
    ports = {listener.socket.getsockname()[1] for listener in listeners}
    assert ports == {port_of(endpoint.address)}
    endpoint.close()


async def test_an_address_of_another_machine_is_named() -> None:
    """The address is from the documentation's network, which no machine has."""
    with pytest.raises(StartError, match=r"192\.0\.2\.1"):
        await bind("192.0.2.1", 0, KEY)


STREAM_KEY = "authorizerd.decision.stream"


async def test_a_unix_socket_refuses_until_it_listens_and_goes_when_it_is_closed(
    tmp_path: Path,
) -> None:
    """It behaves like a port; only its owner and its group may connect."""
    path = tmp_path / "stream"
    endpoint = await bind_unix(path, STREAM_KEY)
    assert endpoint.address == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    with pytest.raises(ConnectionRefusedError):
        await trio.open_unix_socket(path)
    listeners = endpoint.listen()
    async with await trio.open_unix_socket(path), await listeners[0].accept():
        pass
    endpoint.close()
    assert not path.exists()
    endpoint.close()


async def test_a_socket_that_a_killed_process_has_left_is_replaced(tmp_path: Path) -> None:
    """Nobody listens on it, so the start removes it."""
    path = tmp_path / "stream"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
        left.listen()
    endpoint = await bind_unix(path, STREAM_KEY)
    (listener,) = endpoint.listen()
    async with await trio.open_unix_socket(path), await listener.accept():
        pass
    endpoint.close()


async def test_the_socket_of_another_daemon_at_the_path_is_kept(tmp_path: Path) -> None:
    """One that was begun while this one drains; its file may not get our file's number."""
    path = tmp_path / "stream"
    first = await bind_unix(path, STREAM_KEY)
    (listener,) = first.listen()
    number = path.stat().st_ino
    await listener.aclose()
    second = await bind_unix(path, STREAM_KEY)
    assert path.stat().st_ino != number
    (listener,) = second.listen()
    first.close()
    async with await trio.open_unix_socket(path), await listener.accept():
        pass
    second.close()
    assert not path.exists()


async def test_of_two_daemons_that_start_at_one_path_the_one_without_its_file_ends(
    tmp_path: Path,
) -> None:
    """Nobody would ever reach it, and it would say that it is ready."""
    path = tmp_path / "stream"
    first = await bind_unix(path, STREAM_KEY)
    second = await bind_unix(path, STREAM_KEY)
    with pytest.raises(StartError, match=f"{STREAM_KEY}: unix:{path}: another process has bound"):
        first.listen()
    (listener,) = second.listen()
    first.close()
    async with await trio.open_unix_socket(path), await listener.accept():
        pass
    second.close()


async def test_a_socket_that_somebody_else_has_removed_is_no_error(tmp_path: Path) -> None:
    """The shutdown continues."""
    path = tmp_path / "stream"
    endpoint = await bind_unix(path, STREAM_KEY)
    path.unlink()
    endpoint.close()


async def test_a_socket_in_use_is_refused_and_kept(tmp_path: Path) -> None:
    """The other daemon keeps it; the error names key and path."""
    path = tmp_path / "stream"
    first = await bind_unix(path, STREAM_KEY)
    (listener,) = first.listen()
    with pytest.raises(StartError, match=f"{STREAM_KEY}: unix:{path}: Address already in use"):
        await bind_unix(path, STREAM_KEY)
    async with listener, await trio.open_unix_socket(path):
        pass
    first.close()


@pytest.mark.parametrize("kind", ["file", "directory", "link to a file", "link to nowhere"])
async def test_what_is_no_socket_is_refused_and_kept(tmp_path: Path, kind: str) -> None:
    """The file may belong to somebody, so it is never removed."""
    path, other = tmp_path / "stream", tmp_path / "other"
    if kind == "file":
        path.write_text("kept")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(other)
        if kind == "link to a file":
            other.write_text("kept")
    with pytest.raises(StartError, match=f"unix:{path}: the file exists, and is not a socket"):
        await bind_unix(path, STREAM_KEY)
    assert path.is_symlink() or path.is_dir() or path.read_text() == "kept"


async def test_a_place_where_no_socket_can_be_is_named(tmp_path: Path) -> None:
    """The folder does not exist."""
    path = tmp_path / "nowhere" / "stream"
    with pytest.raises(StartError, match=f"{STREAM_KEY}: unix:{path}: No such file"):
        await bind_unix(path, STREAM_KEY)


async def test_a_shared_address_is_accepted_at_by_who_listens() -> None:
    """The daemon holds the address without listening; workers listen, and may come and go."""
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


async def test_what_another_daemon_s_workers_listen_at_is_not_shared() -> None:
    """Sharing it would send some clients to a daemon with another log."""
    first = await bind("127.0.0.1", 0, KEY, is_shared=True)
    listeners = await listen_at(first.place("decision_http"))
    with pytest.raises(StartError, match=f"{KEY}: .*Address already in use"):
        await bind("127.0.0.1", port_of(first.address), KEY, is_shared=True)
    for listener in listeners:
        await listener.aclose()
    first.close()


async def test_an_address_that_cannot_be_shared_is_named() -> None:
    """Another process listens there already."""
    other = await bind("127.0.0.1", 0, KEY)
    other.listen()
    place = other.place("decision_http")
    with pytest.raises(StartError, match="decision_http: Address already in use"):
        await listen_at(place)
    other.close()


async def test_workers_accept_from_the_one_unix_socket(tmp_path: Path) -> None:
    """They inherit its descriptor."""
    endpoint = await bind_unix(tmp_path / "stream", KEY)
    place = endpoint.place("decision_stream")
    [descriptor] = place.descriptors
    [listener] = await listen_at(Place(place.name, descriptors=(os.dup(descriptor),)))
    async with await trio.open_unix_socket(tmp_path / "stream"), await listener.accept():
        pass
    await listener.aclose()
    endpoint.close()
