"""Check the ports: whether they can be bound, who can reach them, and what can be overheard.

The configuration itself rejects a decision port on a non-loopback address without credentials.
These checks warn if clients of a reachable port send secrets in the clear, or need no credentials.
It is an error if these clients are super users. The console counts as a port.

**Invariant:** an address is bound as the daemon would, but never listened on, and released at once.
So no client can connect to this command, and the daemon can still listen on the address.
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
from authorizerd.config.endpoints import Endpoint, HttpEndpoint, StreamEndpoint, is_loopback
from authorizerd.config.tls import ClientAuth
from authorizerd.config.values import OAUTHBEARER, PLAIN, SecurityProtocol
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.kafka.login.authentication import ANONYMOUS
from authorizerd.daemon.net.binding import bind

_CHECK: Final = "exposure"
_REACHABLE: Final = "other machines can reach it"
_SUPER_USER: Final = ", a super user: anyone may do anything, such as change ACLs"
_REMOVE: Final = f"remove {ANONYMOUS} from super.users, or listen on loopback"


def examine_exposure(configuration: Configuration) -> Iterator[Finding]:
    """Yield one finding for each port that other machines can reach, or a single OK."""
    listeners = (
        _judge_listener(configuration, listener)
        for listener in configuration.listeners
        if not is_loopback(HttpEndpoint(host=listener.host, port=listener.port))
    )
    reachable = [*_examine_own_ports(configuration), *listeners]
    yield from reachable or [ok(_CHECK, "no port is reachable from other machines")]


def list_own_ports(
    configuration: Configuration,
) -> Iterator[tuple[str, StreamEndpoint | HttpEndpoint]]:
    """Yield the ports other than the listeners, each with its key after ``authorizerd.``."""
    ports = {
        "decision.http": configuration.decision_http,
        "decision.stream": configuration.decision_stream,
        "admin.http": configuration.admin_http,
        "metrics.http": configuration.metrics_http,
    }
    yield from ((key, port) for key, port in ports.items() if port is not None)


def _examine_own_ports(configuration: Configuration) -> Iterator[Finding]:
    for key, endpoint in list_own_ports(configuration):
        if is_loopback(endpoint):
            continue
        scheme = "tls" if key == "decision.stream" else "https"
        text = f"authorizerd.{key}: {_REACHABLE}"
        if endpoint.is_tls:
            yield ok(_CHECK, f"{text}, over TLS")
            continue
        risk = "metrics" if key == "metrics.http" else "tokens"
        advice = f"use {scheme}://, with authorizerd.http.ssl.keystore.location"
        yield warning(_CHECK, f"{text}, and {risk} travel in the clear", advice)


def _judge_listener(configuration: Configuration, listener: Endpoint) -> Finding:
    name = listener.listener_name
    text = f"listeners: {name}: {_REACHABLE}"
    is_open = ANONYMOUS in configuration.super_users
    match listener.security_protocol:
        case SecurityProtocol.PLAINTEXT:
            risk = f"{text}, and every client is {ANONYMOUS}"
            if is_open:
                return error(_CHECK, f"{risk}{_SUPER_USER}", _REMOVE)
            return warning(_CHECK, risk, "make it SASL_SSL, or listen on loopback")
        case SecurityProtocol.SASL_PLAINTEXT:
            mechanisms = configuration.sasl_listeners[name].mechanisms
            risk = "requests and answers travel"
            if PLAIN in mechanisms or OAUTHBEARER in mechanisms:
                risk = "passwords travel" if PLAIN in mechanisms else "tokens travel"
            return warning(_CHECK, f"{text}, and {risk} in the clear", "make it SASL_SSL")
        case SecurityProtocol.SSL:
            if configuration.listener_tls[name].client_auth is ClientAuth.REQUIRED:
                return ok(_CHECK, f"{text}, over TLS with client certificates")
            risk = f"clients without a certificate are {ANONYMOUS}"
            if is_open:
                return error(_CHECK, f"{text}, and {risk}{_SUPER_USER}", _REMOVE)
            advice = (
                f"set listener.name.{name.lower()}.ssl.client.auth=required, or make it SASL_SSL"
            )
            return warning(_CHECK, f"{text}, and {risk}", advice)
        case SecurityProtocol.SASL_SSL:
            return ok(_CHECK, f"{text}, over TLS with authentication")


_CONSOLE: Final = "console"
_KEY: Final = "authorizerd.console"


def examine_console(configuration: Configuration) -> Iterator[Finding]:
    """Yield one finding: that the console is off, or its address and visitors.

    The configuration itself rejects an admin port that other machines can reach without TLS or
    without credentials, and ``examine_access`` reads the tokens file.
    """
    if not configuration.console:
        yield ok(_CONSOLE, f"off: {_KEY}=true turns it on")
        return
    tokens_file, has_client_auth = configuration.tokens_file, configuration.has_client_auth
    address = _find_address(configuration.admin_http)
    visitors = []
    if tokens_file is not None:
        visitors.append(f"callers with a token of {tokens_file}")
    if has_client_auth and configuration.admin_http.is_tls:
        visitors.append("clients with a certificate")
    if visitors:
        yield ok(_CONSOLE, f"{address}: {' and '.join(visitors)} can log in")
    elif has_client_auth:
        advice = "set authorizerd.tokens.file, or use https:// in authorizerd.admin.http"
        text = "nobody can log in: this address takes no certificates, and there are no tokens"
        yield warning(_CONSOLE, f"{address}: {text}", advice)
    else:
        yield ok(_CONSOLE, f"{address}: everyone on this machine, without authentication")


def _find_address(admin: HttpEndpoint) -> str:
    scheme, protection = ("https", "TLS") if admin.is_tls else ("http", "loopback only, no TLS")
    host = f"[{admin.host}]" if ":" in (admin.host or "") else admin.host or "*"
    return f"{scheme}://{host}:{admin.port or 'any port'}/console/ ({protection})"


CONNECT_TIMEOUT_S: Final = 1

_PORTS: Final = "ports"


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
            (f"listeners: {listener.listener_name}", listener.host, listener.port)
            for listener in configuration.listeners
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
        advice = "name an address of this machine"
        if isinstance(cause, PermissionError):
            advice = "choose a port above 1023, or give the daemon CAP_NET_BIND_SERVICE"
        return error(_PORTS, str(fault), advice)
    return ok(_PORTS, f"{key}: {host or '*'}:{port or 'any port'} is free")


async def _bind_and_close(host: str | None, port: int, key: str) -> None:
    (await bind(host, port, key)).close()


def _in_use(text: str, *, is_running: bool) -> Finding:
    if is_running:
        return ok(_PORTS, f"{text}, probably by the running daemon, since the log is locked")
    advice = (
        "find the process (ss -ltnp) and end it, or choose another address; "
        "ignore this if it is systemd, with the socket unit of this daemon"
    )
    return error(_PORTS, f"{text} by another program: no daemon runs on this log", advice)


def _examine_path(key: str, path: Path, *, is_running: bool) -> Finding:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        if os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True):
            return ok(_PORTS, f"{key}: unix:{path} is free")
        advice = f"let the daemon's user write to {path.parent}"
        return error(_PORTS, f"{key}: unix:{path} cannot be created", advice)
    except OSError as fault:
        return error(_PORTS, f"{key}: unix:{path}: {fault.strerror}", "correct the path")
    if not stat.S_ISSOCK(mode):
        return error(_PORTS, f"{key}: unix:{path}: exists, but is not a socket", "move it away")
    # The socket's file outlives its process: only a connection shows whether a process listens.
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CONNECT_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return ok(
                _PORTS, f"{key}: unix:{path}: left by an ended process; the daemon will remove it"
            )
        except OSError as fault:
            text = f"{key}: unix:{path}: {fault.strerror or fault}"
            return warning(_PORTS, text, "find out which process listens there (ss -lxp)")
    return _in_use(f"{key}: unix:{path}: Address already in use", is_running=is_running)
