"""Check whether each address could be bound.

**Invariant:** an address is bound as the daemon binds it, but never listened on, and is released at
once. So no client can connect to this command, and the daemon can still listen on the address.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import trio

from authorizerd.cli.doctor.finding import Finding, error, ok, warning
from authorizerd.config.configuration import Configuration
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.net.binding import bind

CONNECT_TIMEOUT_S: Final = 1

_CHECK: Final = "ports"


def examine_ports(configuration: Configuration, *, is_running: bool) -> Iterator[Finding]:
    """Yield one finding for each endpoint.

    Args:
        is_running: True if a process, probably the daemon, holds the lock of the log's directory.
            Its addresses are then in use.
    """
    http, admin = configuration.decision_http, configuration.admin_http
    metrics, stream = configuration.metrics_http, configuration.decision_stream
    addresses = [
        ("authorizerd.decision.http", http.host, http.port),
        ("authorizerd.admin.http", admin.host, admin.port),
        *(
            (f"listeners: {each.listener_name}", each.host, each.port)
            for each in configuration.listeners
        ),
    ]
    if metrics is not None:
        addresses.append(("authorizerd.metrics.http", metrics.host, metrics.port))
    if stream is not None and stream.path is None:
        addresses.append(("authorizerd.decision.stream", stream.host, stream.port))
    for key, host, port in addresses:
        yield _examine_address(key, host, port, is_running=is_running)
    if stream is not None and stream.path is not None:
        yield _examine_path("authorizerd.decision.stream", Path(stream.path), is_running=is_running)


def _examine_address(key: str, host: str | None, port: int, *, is_running: bool) -> Finding:
    try:
        trio.run(_bind_and_close, host, port, key)
    except StartError as fault:
        cause = fault.__cause__
        if isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE:
            return _in_use(str(fault), is_running=is_running)
        return error(_CHECK, str(fault), _advice(cause))
    return ok(_CHECK, f"{key}: {host or '*'}:{port or 'any port'} is free")


async def _bind_and_close(host: str | None, port: int, key: str) -> None:
    (await bind(host, port, key)).close()


def _advice(cause: BaseException | None) -> str:
    if isinstance(cause, PermissionError):
        return "choose a port above 1023, or give the daemon CAP_NET_BIND_SERVICE"
    return "name an address of this machine"


def _in_use(text: str, *, is_running: bool) -> Finding:
    if is_running:
        return ok(_CHECK, f"{text}, probably by the running daemon, since the log is locked")
    advice = (
        "find the process (ss -ltnp) and end it, or choose another address; "
        "ignore this if it is systemd, with the socket unit of this daemon"
    )
    return error(_CHECK, f"{text} by another program: no daemon runs on this log", advice)


def _examine_path(key: str, path: Path, *, is_running: bool) -> Finding:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        if os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True):
            return ok(_CHECK, f"{key}: unix:{path} is free")
        advice = f"let the daemon's user write to {path.parent}"
        return error(_CHECK, f"{key}: unix:{path} cannot be created", advice)
    except OSError as fault:
        return error(_CHECK, f"{key}: unix:{path}: {fault.strerror}", "correct the path")
    if not stat.S_ISSOCK(mode):
        return error(_CHECK, f"{key}: unix:{path}: exists, but is not a socket", "move it away")
    # The socket's file outlives its process: only a connection shows if a process still listens.
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CONNECT_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return ok(
                _CHECK, f"{key}: unix:{path}: left by an ended process; the daemon will remove it"
            )
        except OSError as fault:
            text = f"{key}: unix:{path}: {fault.strerror or fault}"
            return warning(_CHECK, text, "find out which process listens there (ss -lxp)")
    return _in_use(f"{key}: unix:{path}: Address already in use", is_running=is_running)
