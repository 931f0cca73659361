"""An early listener while ACLs load: how soon it opens, and how fast it answers.

A super user sends requests at a fixed rate, from the opening of the listener until the daemon has
loaded; each request is timed from when it was due. In every fifth turn, another user also asks, and
the endpoints that are still closed are tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.kafka_rig.admin import Admin
from tests.kafka_rig.properties import PLAIN_LOGIN
from tests.kafka_rig.rig import RigError
from tests.support.daemon_process import connect, wait_until
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
_WAIT: Final = (60.0, 0.001)
"""Maximum seconds of a step, and seconds between two checks."""
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


def _bound(daemon_log: Path) -> dict[str, str]:
    """Return the addresses in the daemon's log."""
    lines = (line.partition("authorizerd: ")[2] for line in daemon_log.read_text().splitlines())
    return dict(line.split(": bound to ") for line in lines if ": bound to " in line)


def measure_early_start(run: Run) -> Iterator[Row]:
    """Measure the start of a daemon on the largest set."""
    log_dir = run.log_of(run.pick(wide(50_000, 10), wide(1000, 2)))
    directory = run.new_place("early-start")
    arguments, _ = serve_command(directory, log_dir, _SETTINGS)
    daemon_log, opened_s = directory / "daemon.log", dict[str, float]()
    # Read the clock before the process exists, so that its own start counts.
    started = time.perf_counter()

    def try_closed() -> int:
        """Try the endpoints that were not open yet; return how many are open now."""
        for name in addresses.keys() - opened_s.keys():
            with suppress(ConnectionRefusedError), connect(addresses[name]):
                opened_s[name] = time.perf_counter() - started
        return len(opened_s)

    def are_open() -> bool:
        if _is_refused(other):
            raise MeasurementError("a user was refused after the ACLs were loaded")
        return try_closed() == len(ENDPOINTS)

    with ExitStack() as stack:
        stack.enter_context(running([AUTHORIZERD, *arguments], daemon_log))
        # Read the log, because the daemon writes its ready file only after the load.
        wait_until(lambda: len(_bound(daemon_log)) == len(ENDPOINTS), "ports", *_WAIT)
        addresses = _bound(daemon_log)
        wait_until(lambda: try_closed() > 0 and EARLY in opened_s, EARLY, *_WAIT)
        # In the order of _USERS: root is the super user.
        super_user, other = (
            stack.enter_context(Admin(addresses[EARLY], *user)) for user in _USERS.items()
        )
        times_ms, refused = _ask_while_loading(super_user, other, try_closed)
        wait_until(are_open, "all endpoints", *_WAIT)
        acls = int(DaemonProcess(0, "", "", addresses["admin_http"]).metric("authorizerd_acls"))
    what, of = f"during a load of {acls:,} ACLs", "a super user"
    for row in percentile_rows(what, times_ms, of=of):
        yield replace(row, limit=LIMIT_MS) if row.metric.endswith(("p90", "p99")) else row
    yield from rows(
        what,
        (f"{of}, slowest of {len(times_ms)}", "ms", max(times_ms)),
        ("others' requests, each answered AUTHORIZER_NOT_READY", "requests", refused),
        *((f"{name} opened after", "s", opened_s[name]) for name in ENDPOINTS),
    )


def _ask_while_loading(
    super_user: Admin, other: Admin, try_closed: Callable[[], object]
) -> tuple[list[float], int]:
    """Ask until the daemon has loaded; return the super user's times, and other users' refusals."""
    times_ms, refused, due_ns = list[float](), -1, time.perf_counter_ns()
    give_up, is_loading = time.monotonic() + _WAIT[0], True
    while is_loading:
        if time.monotonic() > give_up:
            raise MeasurementError(f"not loaded in {_WAIT[0]:.0f} s")
        for _ in range(_OTHER_EACH):
            if not super_user.may_describe(_TOPIC):
                raise MeasurementError("the super user was refused")
            times_ms.append((time.perf_counter_ns() - due_ns) / 1e6)
            due_ns += _INTERVAL_NS
            time.sleep(max(0, due_ns - time.perf_counter_ns()) / 1e9)
        try_closed()
        is_loading, refused = _is_refused(other), refused + 1
    return times_ms, refused
