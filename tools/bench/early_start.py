"""An early listener during a load: how soon it opens, and how fast it answers.

A super user sends requests at a fixed rate, from the opening of the listener until the daemon has
loaded, each timed from when it was due. In every fifth turn, another user asks, too, and endpoints
that are still closed are tried.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.kafka_rig.admin import Admin
from tests.kafka_rig.properties import PLAIN_LOGIN
from tests.kafka_rig.rig import RigError
from tests.support.daemon_process import wait_until
from tools.bench.figures import MeasurementError, Row, percentile_rows, rows
from tools.bench.run import Run
from tools.bench.sets import wide
from tools.daemon_process import AUTHORIZERD, DaemonProcess, serve_command
from tools.processes import running

LIMIT_MS: Final = 20.0
EARLY, LATE = "EARLY", "LATE"
ENDPOINTS: Final = (EARLY, LATE, "decision_http", "decision_stream", "admin_http")

_INTERVAL_NS: Final = 10_000_000
_OTHER_EACH: Final = 5
_TIMEOUT_SECONDS: Final = 60.0
_TOPIC: Final = "a-topic"
_USERS: Final = {"root": "root-secret", "alice": "alice-secret"}
_SETTINGS: Final = {
    "listeners": f"{EARLY}://127.0.0.1:0,{LATE}://127.0.0.1:0",
    "listener.security.protocol.map": f"{EARLY}:SASL_PLAINTEXT,{LATE}:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    f"listener.name.{EARLY.lower()}.plain.sasl.jaas.config": PLAIN_LOGIN
    + "".join(f' user_{user}="{password}"' for user, password in _USERS.items())
    + ";",
    "super.users": "User:root",
    "early.start.listeners": EARLY,
}


def _is_refused(client: Admin) -> bool:
    try:
        client.may_describe(_TOPIC)
    except RigError as error:
        if ErrorCode.AUTHORIZER_NOT_READY.name not in str(error):
            raise
        return True
    return False


@dataclass
class EarlyStart:
    """One start. ``opened_s`` has the seconds until each endpoint opened.

    ``refused`` counts the other user's requests that got AUTHORIZER_NOT_READY. After the first one
    that was served, none was refused.
    """

    addresses: dict[str, str]
    started_ns: int
    opened_s: dict[str, float] = field(default_factory=dict)
    super_user_ms: list[float] = field(default_factory=list)
    refused: int = 0

    def try_closed(self) -> dict[str, float]:
        """Try the endpoints that were not open yet; return when the open ones opened."""
        for name, address in self.addresses.items():
            if name not in self.opened_s:
                host, _, port = address.rpartition(":")
                try:
                    socket.create_connection((host, int(port)), _TIMEOUT_SECONDS).close()
                except ConnectionRefusedError:
                    continue
                self.opened_s[name] = (time.perf_counter_ns() - self.started_ns) / 1e9
        return self.opened_s

    def ask_while_loading(self, super_user: Admin, other: Admin) -> None:
        """Ask until the daemon has loaded and every endpoint is open."""
        turn, is_loading, due_ns = 0, True, time.perf_counter_ns()
        give_up = time.monotonic() + _TIMEOUT_SECONDS
        while is_loading or len(self.opened_s) < len(self.addresses):
            if time.monotonic() > give_up:
                raise MeasurementError(f"not loaded in {_TIMEOUT_SECONDS:.0f} s")
            if not super_user.may_describe(_TOPIC):
                raise MeasurementError("the super user was refused")
            if is_loading:
                self.super_user_ms.append((time.perf_counter_ns() - due_ns) / 1e6)
            if turn % _OTHER_EACH == 0:
                is_refused = _is_refused(other)
                if is_refused and not is_loading:
                    raise MeasurementError("a user was refused after the ACLs were loaded")
                self.refused += is_refused
                is_loading = is_refused
                self.try_closed()
            turn, due_ns = turn + 1, due_ns + _INTERVAL_NS
            time.sleep(max(0, due_ns - time.perf_counter_ns()) / 1e9)


def start_early(log_dir: Path, directory: Path) -> tuple[EarlyStart, int]:
    """Start a daemon on ``log_dir``; measure until it has loaded. Return also how many ACLs."""
    arguments, _ = serve_command(directory, log_dir, _SETTINGS)
    daemon_log = directory / "daemon.log"
    # Read before the process exists, so that its own start counts.
    started_ns = time.perf_counter_ns()
    with ExitStack() as stack:
        process = stack.enter_context(running([AUTHORIZERD, *arguments], daemon_log))
        # Read the log, because the daemon writes its ready file only after the load.
        wait_until(lambda: len(_bound(daemon_log)) == len(ENDPOINTS), "ports", pause_seconds=0.001)
        early = EarlyStart(_bound(daemon_log), started_ns)
        wait_until(lambda: EARLY in early.try_closed(), EARLY, pause_seconds=0.001)
        # In the order of _USERS: root is the super user.
        super_user, other = (
            stack.enter_context(Admin(early.addresses[EARLY], *user)) for user in _USERS.items()
        )
        early.ask_while_loading(super_user, other)
        daemon = DaemonProcess(process.pid, "", "", early.addresses["admin_http"])
        return early, int(daemon.metric("authorizerd_acls"))


def _bound(daemon_log: Path) -> dict[str, str]:
    """Return the addresses in the daemon's log."""
    lines = (line.partition("authorizerd: ")[2] for line in daemon_log.read_text().splitlines())
    return dict(line.split(": bound to ") for line in lines if ": bound to " in line)


def measure_early_start(run: Run) -> Iterator[Row]:
    """Measure the start of a daemon on the largest set."""
    log_dir = run.log_of(run.pick(wide(50_000, 10), wide(1000, 2)))
    early, acls = start_early(log_dir, run.new_place("early-start"))
    what, times_ms, of = f"during a load of {acls:,} ACLs", early.super_user_ms, "a super user"
    for row in percentile_rows(what, times_ms, of=of):
        yield replace(row, limit=LIMIT_MS) if row.metric.endswith(("p90", "p99")) else row
    yield from rows(what, (f"{of}, slowest of {len(times_ms)}", "ms", max(times_ms)))
    metric = "others' requests, each answered AUTHORIZER_NOT_READY"
    yield from rows(what, (metric, "requests", early.refused))
    opened = ((f"{name} opened after", "s", early.opened_s[name]) for name in ENDPOINTS)
    yield from rows(what, *opened)
