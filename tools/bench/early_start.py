"""An early listener during a load: how soon it opens, and how fast it answers.

A super user sends requests at a fixed rate, from the opening of the listener until the daemon has
loaded. Each request is timed from when it was due, so a long wait also counts for the requests that
were due during it. Another user asks in every fifth turn, and each endpoint is tried until it
opens.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import count, cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from authorizerd.acl.steps import finish
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.kafka.messages import decode_response, encode_request
from tools.bench.daemon_process import DaemonProcess, serve_command
from tools.bench.figures import Line, percentile, supported_percent
from tools.bench.processes import ProcessError, running

LIMIT_MS: Final = 20.0
EARLY: Final = "EARLY"
LATE: Final = "LATE"
ENDPOINTS: Final = (EARLY, LATE, "decision_http", "decision_stream", "admin_http")

_INTERVAL_NS: Final = 10_000_000
_OTHER_EACH: Final = 5
"""In every fifth turn, the other user asks too, and closed endpoints are tried."""

_TIMEOUT_SECONDS: Final = 60.0
_RESPONSE_BYTES_MAX: Final = 1 << 20
_USERS: Final = {"root": "root-secret", "alice": "alice-secret"}
_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SETTINGS: Final = {
    "listeners": f"{EARLY}://127.0.0.1:0,{LATE}://127.0.0.1:0",
    "listener.security.protocol.map": f"{EARLY}:SASL_PLAINTEXT,{LATE}:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    f"listener.name.{EARLY.lower()}.plain.sasl.jaas.config": _LOGIN
    + "".join(f' user_{user}="{password}"' for user, password in _USERS.items())
    + ";",
    "super.users": "User:root",
    "early.start.listeners": EARLY,
}
_ASKED: Final[tuple[tuple[ApiKey, dict[str, object]], ...]] = (
    (
        ApiKey.DESCRIBE_CLUSTER,
        {"include_cluster_authorized_operations": True, "endpoint_type": 1,
         "include_fenced_brokers": False},
    ),
    (
        ApiKey.METADATA,
        {"topics": None, "allow_auto_topic_creation": False,
         "include_topic_authorized_operations": False},
    ),
)  # fmt: skip
_VERSIONS: Final = {
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.DESCRIBE_CLUSTER: 2,
    ApiKey.METADATA: 13,
}


class EarlyStart(msgspec.Struct, frozen=True):
    """The measurements of one start; ``opened_s`` has the seconds from the start, by endpoint.

    ``refused`` counts the other user's requests that got AUTHORIZER_NOT_READY. After the first one
    that was served, none was refused.
    """

    acls: int
    opened_s: dict[str, float]
    super_user_ms: list[float]
    refused: int


class _Client:
    """One connection, logged in as ``user``."""

    def __init__(self, address: str, user: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket: Final = socket.create_connection((host, int(port)), _TIMEOUT_SECONDS)
        # Nagle's algorithm would hold a request back and add to its time.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection: Final = KafkaClientConnection("bench", _RESPONSE_BYTES_MAX)
        self.ask(ApiKey.SASL_HANDSHAKE, mechanism="PLAIN")
        token = f"\0{user}\0{_USERS[user]}".encode()
        if self.ask(ApiKey.SASL_AUTHENTICATE, auth_bytes=token).error_code:
            raise ProcessError(f"{address}: {user} may not log in")

    def ask(self, api_key: ApiKey, **fields: object) -> Any:  # noqa: ANN401 - an entity
        version = _VERSIONS[api_key]
        body = finish(encode_request(api_key, version, SimpleNamespace(**fields)))
        self.socket.sendall(self._connection.frame_request(api_key, version, body))
        while (response := self._connection.next_response()) is None:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ProcessError("the daemon closed a connection")
            self._connection.receive_data(data)
        return finish(decode_response(api_key, version, response.body))

    def is_refused(self) -> bool:
        """Return True if the daemon tells this client that the ACLs are not loaded."""
        api_key, fields = _ASKED[0]
        return bool(self.ask(api_key, **fields).error_code == ErrorCode.AUTHORIZER_NOT_READY)


class _Endpoints:
    """Records when each endpoint of a daemon opened."""

    def __init__(self, addresses: dict[str, str], started_ns: int) -> None:
        self._addresses = addresses
        self._started_ns = started_ns
        self.opened_s: dict[str, float] = {}

    @property
    def are_all_open(self) -> bool:
        return len(self.opened_s) == len(self._addresses)

    def try_closed(self) -> None:
        """Try the endpoints that were not open yet."""
        for name, address in self._addresses.items():
            if name not in self.opened_s and _is_open(address):
                self.opened_s[name] = (time.perf_counter_ns() - self._started_ns) / 1e9


def _is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _TIMEOUT_SECONDS).close()
    except ConnectionRefusedError:
        return False
    return True


def start_early(log_dir: Path, directory: Path) -> EarlyStart:
    """Start a daemon on ``log_dir``, and measure until it has loaded and every endpoint is open.

    Raises:
        ProcessError: the daemon did not load, or gave a wrong answer.
    """
    arguments, _ = serve_command(directory, log_dir, _SETTINGS)
    command = [Path(sys.executable).with_name("authorizerd"), *arguments]
    daemon_log = directory / "daemon.log"
    # Read before the process exists, so that its own start counts.
    started_ns = time.perf_counter_ns()
    with ExitStack() as stack:
        process = stack.enter_context(running(command, daemon_log))
        addresses = _bound(process, daemon_log)
        endpoints = _Endpoints(addresses, started_ns)
        try:
            _wait_for(EARLY, endpoints)
            # In the order of _USERS: root is the super user.
            super_user, other = (_Client(addresses[EARLY], user) for user in _USERS)
            for client in (super_user, other):
                stack.enter_context(client.socket)
            super_user_ms, refused = _ask_while_loading(super_user, other, endpoints)
            daemon = DaemonProcess(
                process.pid,
                addresses["decision_http"],
                addresses["decision_stream"],
                addresses["admin_http"],
            )
            acls = int(daemon.metric("authorizerd_acls"))
        except (OSError, DecodeError) as error:
            raise ProcessError(f"the early listener: {type(error).__name__}: {error}") from error
    return EarlyStart(acls, endpoints.opened_s, super_user_ms, refused)


def _bound(process: subprocess.Popen[bytes], daemon_log: Path) -> dict[str, str]:
    """Return the addresses in the daemon's log, once it has bound all of them."""
    # Read the log, because the daemon writes its ready file only after the load.
    give_up = time.monotonic() + _TIMEOUT_SECONDS
    while True:
        found = [
            line.partition("authorizerd: ")[2].split(": bound to ")
            for line in daemon_log.read_text().splitlines()
            if ": bound to " in line
        ]
        if len(found) == len(ENDPOINTS):
            return {name: address for name, address in found}  # noqa: C416 - they are lists
        if process.poll() is not None or time.monotonic() > give_up:
            raise ProcessError(f"the daemon bound no ports; see {daemon_log}")
        time.sleep(0.002)


def _wait_for(name: str, endpoints: _Endpoints) -> None:
    give_up = time.monotonic() + _TIMEOUT_SECONDS
    while name not in endpoints.opened_s:
        if time.monotonic() > give_up:
            raise ProcessError(f"{name} did not open in {_TIMEOUT_SECONDS:.0f} s")
        endpoints.try_closed()
        time.sleep(0.001)


def _ask_while_loading(
    super_user: _Client, other: _Client, endpoints: _Endpoints
) -> tuple[list[float], int]:
    """Return the super user's times in ms, and the number of the other user's refusals."""
    times_ms: list[float] = []
    refused, is_loading = 0, True
    requests = cycle(_ASKED)
    due_ns = time.perf_counter_ns()
    give_up_ns = due_ns + int(_TIMEOUT_SECONDS * 1e9)
    for turn in count():
        if not is_loading and endpoints.are_all_open:
            break
        if due_ns > give_up_ns:
            raise ProcessError(f"not loaded in {_TIMEOUT_SECONDS:.0f} s")
        api_key, fields = next(requests)
        if super_user.ask(api_key, **fields).error_code:
            raise ProcessError(f"the super user was refused {api_key.name}")
        if is_loading:
            times_ms.append((time.perf_counter_ns() - due_ns) / 1e6)
        if turn % _OTHER_EACH == 0:
            is_refused = other.is_refused()
            if is_refused and not is_loading:
                raise ProcessError("a user was refused after the ACLs were loaded")
            refused += is_refused
            is_loading = is_refused
            endpoints.try_closed()
        due_ns += _INTERVAL_NS
        time.sleep(max(0, due_ns - time.perf_counter_ns()) / 1e9)
    return times_ms, refused


def measure_early_start(log_dir: Path, directory: Path) -> list[Line]:
    """Return the lines of a daemon that loads ``log_dir``.

    Raises:
        ProcessError: as ``start_early``.
    """
    early = start_early(log_dir, directory)
    times_ms = sorted(early.super_user_ms)
    percent = supported_percent(len(times_ms))
    where = f"early listener during a load of {early.acls:,} ACLs"
    super_user = f"{where}: a super user's request"
    return [
        Line(what=f"{super_user}, median", unit="ms", ours=percentile(times_ms, 50)),
        Line(
            what=f"{super_user}, p{percent}",
            unit="ms",
            ours=percentile(times_ms, percent),
            limit=LIMIT_MS,
        ),
        Line(what=f"{super_user}, slowest of {len(times_ms)}", unit="ms", ours=times_ms[-1]),
        Line(
            what=f"{where}: others' requests, each answered AUTHORIZER_NOT_READY",
            unit="requests",
            ours=early.refused,
            more_is_better=True,
        ),
        *(
            Line(what=f"{where}: {name} opened after", unit="s", ours=early.opened_s[name])
            for name in ENDPOINTS
        ),
    ]
