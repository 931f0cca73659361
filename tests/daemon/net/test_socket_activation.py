import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from authorizerd.daemon.errors import StartError
from authorizerd.daemon.net.binding import listen_at
from authorizerd.daemon.net.socket_activation import (
    adopt,
    adopt_unix,
    check_names,
    take_inherited_sockets,
)

KEY = "authorizerd.decision.http"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listening(stack: ExitStack, host: str = "127.0.0.1") -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return stack.enter_context(socket.create_server((host, 0), family=family))


def port_of(bound: socket.socket) -> int:
    return int(bound.getsockname()[1])


def environment_of(count: int | str, names: str, pid: int | None = None) -> dict[str, str]:
    return {
        "LISTEN_PID": str(os.getpid() if pid is None else pid),
        "LISTEN_FDS": str(count),
        "LISTEN_FDNAMES": names,
    }


def handed(stack: ExitStack, *kinds: socket.SocketKind, listens: bool = True) -> int:
    """Duplicate sockets to consecutive inheritable descriptors; return the first."""
    first = 600
    for number, kind in enumerate(kinds, first):
        with socket.socket(socket.AF_INET, kind) as bound:
            bound.bind(("127.0.0.1", 0))
            if listens:
                bound.listen()
            os.dup2(bound.fileno(), number)
    return first


def test_sockets_are_taken_by_name_and_not_inherited_further(stack: ExitStack) -> None:
    """The variables are removed too. One endpoint may have several sockets."""
    tcp = socket.SOCK_STREAM
    environment = environment_of(3, "a:b:a") | {"LISTEN_PIDFDID": "1", "HOME": "/"}
    first = handed(stack, tcp, tcp, tcp)
    taken = take_inherited_sockets(environment, first_descriptor=first)
    every = [each for sockets in taken.values() for each in sockets]
    for each in every:
        stack.enter_context(each)
    assert {name: len(sockets) for name, sockets in taken.items()} == {"a": 2, "b": 1}
    assert sorted(each.fileno() for each in every) == [first, first + 1, first + 2]
    assert not any(each.get_inheritable() for each in every)
    assert environment == {"HOME": "/"}


def test_sockets_for_another_process_are_ignored() -> None:
    """The variables are still removed."""
    for environment in (environment_of(1, "a", pid=1), {}, environment_of(0, "")):
        assert take_inherited_sockets(environment, first_descriptor=900) == {}
        assert environment == {}


@pytest.mark.parametrize(
    ("count", "names", "error"),
    [
        ("two", "a:b", "LISTEN_FDS: expected a number of sockets, found 'two'"),
        ("-1", "a", "found '-1'"),
        ("9999", "a", "found '9999'"),
        ("2", "a", "LISTEN_FDNAMES: expected 2 names separated by colons, found 'a'"),
        ("1", "a", r"LISTEN_FDS: descriptor 900 \('a'\): Bad file descriptor"),
    ],
)
def test_invalid_variables_are_errors(count: str, names: str, error: str) -> None:
    with pytest.raises(StartError, match=error):
        take_inherited_sockets(environment_of(count, names), first_descriptor=900)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_socket_that_does_not_listen_is_refused(stack: ExitStack, kind: socket.SocketKind) -> None:
    """It may be a datagram socket, or a connection that another process accepted."""
    first = handed(stack, kind, listens=False)
    with pytest.raises(StartError, match=r"descriptor 600 \('a'\): expected a listening socket"):
        take_inherited_sockets(environment_of(1, "a"), first_descriptor=first)


def test_file_descriptor_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "file", "w") as file, pytest.raises(StartError, match="Socket operation"):
        take_inherited_sockets(environment_of(1, "a"), first_descriptor=file.fileno())


def test_unknown_endpoint_name_is_an_error(stack: ExitStack) -> None:
    bound = listening(stack)
    check_names({"decision_http": [bound]}, {"decision_http", "PLAINTEXT"})
    error = r"'decision-http' \(.*: expected one of PLAINTEXT, decision_http$"
    with pytest.raises(StartError, match=error):
        check_names({"decision-http": [bound]}, {"decision_http", "PLAINTEXT"})


async def test_early_client_waits_and_is_accepted_by_an_open_endpoint(stack: ExitStack) -> None:
    bound = listening(stack)
    endpoint = await adopt([bound], "127.0.0.1", port_of(bound), KEY)
    assert endpoint.address == f"127.0.0.1:{port_of(bound)}"
    early = await trio.open_tcp_stream("127.0.0.1", port_of(bound))
    [listener] = endpoint.listen()
    with trio.fail_after(5):
        async with early, await listener.accept():
            await endpoint.wait_until_listening()
    endpoint.close()


@pytest.mark.parametrize("port", [0, None])
async def test_addresses_of_localhost_need_one_port(stack: ExitStack, port: int | None) -> None:
    bound = listening(stack)
    await adopt([bound], "localhost", port_of(bound) if port is None else port, KEY)
    if port == 0:
        other = listening(stack)
        with pytest.raises(StartError, match=f"listens at 127.0.0.1:{port_of(other)}, not"):
            await adopt([bound, other], "localhost", port, KEY)


@pytest.mark.parametrize(
    ("found", "configured", "error"),
    [
        ("0.0.0.0", "127.0.0.1", "the inherited socket's 0.0.0.0 is not a loopback address"),
        ("::", "::1", "the inherited socket's :: is not a loopback address"),
        ("0.0.0.0", "localhost", "the inherited socket's 0.0.0.0 is not a loopback address"),
        (
            "127.0.0.1",
            "127.0.0.2",
            r"the inherited socket listens at 127.0.0.1:\d+, not at 127.0.0.2:",
        ),
        ("127.0.0.1", None, r"the inherited socket listens at 127.0.0.1:\d+, not at \*:"),
        ("::1", "127.0.0.1", r"the inherited socket listens at \[::1\]:\d+, not at 127.0.0.1:"),
        ("127.0.0.1", "nowhere.invalid", r"nowhere.invalid:\d+: "),
    ],
)
async def test_socket_of_another_host_is_refused(
    stack: ExitStack, found: str, configured: str | None, error: str
) -> None:
    """The conditions for a configured address apply: loopback, or credentials."""
    bound = listening(stack, found)
    with pytest.raises(StartError, match=f"{KEY}: {error}"):
        await adopt([bound], configured, port_of(bound), KEY)


def let_every_name_resolve_to(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    async def resolve(_: object, port: int, **__: object) -> list[object]:
        return [(socket.AF_UNSPEC, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts]

    monkeypatch.setattr("authorizerd.daemon.net.socket_activation.trio.socket.getaddrinfo", resolve)


async def test_loopback_is_judged_by_the_sockets_own_address(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = listening(stack, "0.0.0.0")

    let_every_name_resolve_to(monkeypatch, "0.0.0.0")
    with pytest.raises(StartError, match="not a loopback address"):
        await adopt([bound], "localhost", port_of(bound), KEY)


async def test_socket_of_every_interface_fits_an_empty_host(stack: ExitStack) -> None:
    bound = listening(stack, "0.0.0.0")
    endpoint = await adopt([bound], None, port_of(bound), KEY)
    assert endpoint.port == port_of(bound)


async def test_socket_of_another_port_is_refused(stack: ExitStack) -> None:
    bound = listening(stack)
    error = f"{KEY}: the inherited socket listens at 127.0.0.1:{port_of(bound)}, not at 127.0.0.1:1"
    with pytest.raises(StartError, match=error):
        await adopt([bound], "127.0.0.1", 1, KEY)


def unix(stack: ExitStack, path: Path | str) -> socket.socket:
    bound = stack.enter_context(socket.socket(socket.AF_UNIX))
    bound.bind(str(path))
    bound.listen()
    return bound


async def test_inherited_unix_socket_is_not_removed(stack: ExitStack, tmp_path: Path) -> None:
    """Its file belongs to its creator. The path may contain a symbolic link."""
    (tmp_path / "run").mkdir()
    (tmp_path / "var").symlink_to(tmp_path / "run")
    bound = unix(stack, tmp_path / "run/stream")
    endpoint = adopt_unix([bound], tmp_path / "var/stream", KEY)
    [listener] = endpoint.listen()
    with trio.fail_after(5):
        async with await trio.open_unix_socket(tmp_path / "run/stream"), await listener.accept():
            pass
    endpoint.close()
    assert (tmp_path / "run/stream").is_socket()


async def test_unix_sockets_and_ports_must_be_configured(stack: ExitStack, tmp_path: Path) -> None:
    """Another path, an abstract name, or two sockets for one path are mismatches as well."""
    path = tmp_path / "stream"
    bound = unix(stack, path)
    for wrong in (listening(stack), unix(stack, tmp_path / "other"), unix(stack, f"\0{path}")):
        with pytest.raises(StartError, match=f"{KEY}: .* not at unix:{path}"):
            adopt_unix([wrong], path, KEY)
    with pytest.raises(StartError, match=f"{KEY}: 2 sockets are inherited"):
        adopt_unix([bound, bound], path, KEY)
    with pytest.raises(StartError, match=f"listens at {path}, not at 127.0.0.1:1"):
        await adopt([bound], "127.0.0.1", 1, KEY)


async def test_workers_accept_from_inherited_sockets(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_every_name_resolve_to(monkeypatch, "127.0.0.1", "::1")
    bound = listening(stack)
    with socket.socket(socket.AF_INET6) as six:
        six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        six.bind(("::1", port_of(bound)))
        six.listen()
        endpoint = await adopt([bound, six], "localhost", port_of(bound), KEY)
        place = endpoint.place("decision_http")
        assert place.descriptors == (bound.fileno(), six.fileno())
        copies = tuple(os.dup(descriptor) for descriptor in place.descriptors)
        for copy in copies:
            os.set_inheritable(copy, True)
        listeners = await listen_at(type(place)("decision_http", descriptors=copies))
        assert not any(os.get_inheritable(copy) for copy in copies)
        with trio.fail_after(5):
            for host, listener in zip(("127.0.0.1", "::1"), listeners, strict=True):
                async with (
                    await trio.open_tcp_stream(host, port_of(bound)),
                    await listener.accept(),
                ):
                    pass
        for listener in listeners:
            await listener.aclose()
