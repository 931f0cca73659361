"""Listening sockets that systemd passes to this process, each named after its endpoint.

**Invariant:** the sockets are removed from the environment at once, and no other process inherits
them by accident. An inherited socket is used only if it listens at the configured address, so the
conditions for a configured address (loopback, or credentials) apply to it too. No connection is
accepted before its endpoint opens; early clients wait in the socket's queue.

Source: sd_listen_fds(3), systemd.socket(5).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Final

import trio

from authorizerd.config.endpoints import HttpEndpoint, is_loopback, loopback_error
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.net.binding import BoundEndpoint

InheritedSockets = Mapping[str, Sequence[socket.socket]]

FIRST_DESCRIPTOR: Final = 3
_COUNT: Final = re.compile("[0-9]{1,3}")


def take_inherited_sockets(
    environment: MutableMapping[str, str], *, first_descriptor: int = FIRST_DESCRIPTOR
) -> InheritedSockets:
    """Return the sockets by name; none if the variables are for another process.

    Raises:
        StartError: a descriptor has no name, or is not a listening socket.
    """
    # Remove the variables even if they are for another process: no child must see them.
    pid = environment.pop("LISTEN_PID", "")
    count = environment.pop("LISTEN_FDS", "")
    names = environment.pop("LISTEN_FDNAMES", "")
    environment.pop("LISTEN_PIDFDID", "")
    if pid != str(os.getpid()) or count in ("", "0"):
        return {}
    if not _COUNT.fullmatch(count):
        raise StartError(f"LISTEN_FDS: expected a number of sockets, found {count!r}")
    named = names.split(":")
    if len(named) != int(count):
        reason = f"expected {count} names separated by colons, found {names!r}"
        raise StartError(f"LISTEN_FDNAMES: {reason}")
    inherited: dict[str, list[socket.socket]] = {}
    for descriptor, name in enumerate(named, first_descriptor):
        inherited.setdefault(name, []).append(_open(descriptor, name))
    return inherited


def _open(descriptor: int, name: str) -> socket.socket:
    subject = f"LISTEN_FDS: descriptor {descriptor} ({name!r})"
    try:
        os.set_inheritable(descriptor, False)
        inherited = socket.socket(fileno=descriptor)
        listens = inherited.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise StartError(f"{subject}: {error.strerror or error}") from error
    if not listens:
        inherited.close()
        raise StartError(
            f"{subject}: expected a listening socket; check that its unit does not set Accept=yes"
        )
    return inherited


def check_names(inherited: InheritedSockets, endpoints: Collection[str]) -> None:
    """Raise an error unless every socket is named after one of ``endpoints``.

    Raises:
        StartError: a socket matches no endpoint, so nothing would accept from it.
    """
    for name in inherited:
        if name not in endpoints:
            known = ", ".join(sorted(endpoints))
            raise StartError(
                f"LISTEN_FDNAMES: unknown endpoint {name!r} (FileDescriptorName= of a socket unit):"
                f" expected one of {known}"
            )


async def adopt(
    sockets: Sequence[socket.socket], host: str | None, port: int, key: str
) -> BoundEndpoint:
    """Take over the sockets of an endpoint that is configured to listen at ``host`` and ``port``.

    Args:
        host: None means every interface.
        port: 0 means any port, the same for all sockets.

    Raises:
        StartError: a socket listens elsewhere, or ``host`` has no address; the error names ``key``.
    """
    try:
        resolved = await trio.socket.getaddrinfo(
            host, port, type=trio.socket.SOCK_STREAM, flags=trio.socket.AI_PASSIVE
        )
    except OSError as error:
        raise StartError(
            f"{key}: {_format_address(host, port)}: {error.strerror or error}"
        ) from error
    # A host name may have several addresses; the socket may listen at any of them.
    hosts = {address[0] for *_, address in resolved}
    wanted = port
    for each in sockets:
        if each.family not in (socket.AF_INET, socket.AF_INET6):
            raise _mismatch(key, str(each.getsockname()), _format_address(host, wanted))
        found_host, found_port = each.getsockname()[:2]
        found = HttpEndpoint(host=found_host, port=found_port)
        if is_loopback(HttpEndpoint(host=host, port=port)) and not is_loopback(found):
            # Check the bound address, not the name: on loopback, callers need no credentials.
            raise StartError(f"{key}: the inherited socket's {loopback_error(found)}")
        if found_host not in hosts or (port and found_port != port):
            raise _mismatch(
                key, _format_address(found_host, found_port), _format_address(host, wanted)
            )
        port = found_port
    return _to_endpoint(sockets, key)


def adopt_unix(sockets: Sequence[socket.socket], path: Path, key: str) -> BoundEndpoint:
    """Take over the Unix socket of an endpoint that is configured to listen at ``path``.

    Raises:
        StartError: it listens elsewhere, or there are several sockets; the error names ``key``.
    """
    for each in sockets:
        found = each.getsockname()
        is_path = each.family == socket.AF_UNIX and isinstance(found, str)
        if not is_path or os.path.realpath(found) != os.path.realpath(path):
            raise _mismatch(key, str(found), f"unix:{path}")
    if len(sockets) > 1:
        raise StartError(f"{key}: {len(sockets)} sockets are inherited for unix:{path}")
    return _to_endpoint(sockets, key, path)


def _format_address(host: str | None, port: int) -> str:
    return f"[{host}]:{port}" if host and ":" in host else f"{host or '*'}:{port}"


def _mismatch(key: str, found: str, wanted: str) -> StartError:
    return StartError(
        f"{key}: the inherited socket listens at {found}, not at {wanted}:"
        " change this key, or ListenStream= of the socket unit"
    )


def _to_endpoint(
    sockets: Sequence[socket.socket], key: str, path: Path | None = None
) -> BoundEndpoint:
    adopted = [trio.socket.from_stdlib_socket(each) for each in sockets]
    return BoundEndpoint(key, adopted, path, is_inherited=True)
