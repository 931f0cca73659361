"""Outages: a daemon is stopped or killed, or three restart one by one, while clients ask.

The clients are ``replay load --reconnect`` and, over HTTP, wrk beside it. wrk counts a latency from
the sending of a request. During an outage it sends none, so its latencies do not show the outage.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.replay.load.report import LoadReport
from tests.support.daemon_process import wait_until
from tools.bench.audit_logs import kind_traffic, write_audit_log
from tools.bench.figures import MeasurementError, Row, rows
from tools.bench.loads import Load, Printed, run_wrk
from tools.bench.replay_sides import read_result, time_job
from tools.bench.run import Run
from tools.bench.servers import server_of
from tools.bench.sets import kind
from tools.daemon_process import AUTHORIZERD, PATIENT, DaemonProcess, ready_daemon
from tools.processes import find_program, free_port, running

SECONDS: Final = 30
_RATE: Final = 500
_LANES: Final = 2
_LEAD_SECONDS: Final = 3.0
"""The time for which clients ask before the first outage."""
_PAUSE_SECONDS: Final = 3.0
"""The time between the restarts of two daemons."""
_LIMIT_SECONDS: Final = 120.0
_BALANCER: Final = """defaults
  mode tcp
  timeout connect 1s
  timeout client 60s
  timeout server 60s
  option redispatch 1
listen daemons
  bind 127.0.0.1:{port}
  option httpchk
  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host localhost
  default-server check inter 100ms fall 1 rise 1 on-marked-down shutdown-sessions
"""


@dataclass(slots=True)
class _Daemon:
    """A daemon that can be ended and started again at the same addresses."""

    place: Path
    log_dir: Path
    stack: ExitStack = field(default_factory=ExitStack)
    process: DaemonProcess = field(init=False)
    settings: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        names = {"decision.http": "http", "decision.stream": "tcp", "admin.http": "http"}
        self.settings = {**PATIENT} | {
            f"authorizerd.{name}": f"{scheme}://127.0.0.1:{free_port()}"
            for name, scheme in names.items()
        }

    def start(self) -> None:
        self.process = self.stack.enter_context(
            ready_daemon(self.place, self.log_dir, self.settings)
        )

    def restart(self, number: int = signal.SIGTERM) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.process_id, number)
        self.stack.close()
        self.start()

    def address(self, case: Case) -> str:
        return self.process.decision_http if case.is_http else self.process.decision_stream

    def is_asked(self) -> bool:
        surface = '{result="allowed",surface="%s"}'
        names = (surface % "Stream", surface % "AuthZEN")
        return any(self.process.metric(f"authorizerd_decisions_total{name}") for name in names)


@dataclass(frozen=True, slots=True)
class Case:
    """What happens to how many daemons, and the port that is asked."""

    what: str
    count: int
    end: Callable[[Sequence[_Daemon]], None]
    surface: str

    def __str__(self) -> str:
        return f"{self.what}, {self.surface}"

    @property
    def is_http(self) -> bool:
        return self.surface == "HTTP"


def _stop(daemons: Sequence[_Daemon]) -> None:
    daemons[0].restart()


def _kill(daemons: Sequence[_Daemon]) -> None:
    daemons[0].restart(signal.SIGKILL)


def _restart_one_by_one(daemons: Sequence[_Daemon]) -> None:
    for daemon in daemons:
        daemon.restart()
        time.sleep(_PAUSE_SECONDS)


CASES: Final = tuple(
    Case(what, count, end, surface)
    for what, count, end in (
        ("a daemon is stopped, and started again", 1, _stop),
        ("a daemon is killed, and started again", 1, _kill),
        ("three daemons behind HAProxy restart one by one", 3, _restart_one_by_one),
    )
    for surface in ("stream", "HTTP")
)


def measure_outages(run: Run) -> Iterator[Row]:
    """Measure each kind of outage on the decision stream and over HTTP."""
    place = run.new_place("outages")
    log, table = place / "audit.log", place / "table"
    write_audit_log(log, "kind", 20_000, run.pick(kind_traffic().distinct, 500))
    ingest: list[str | Path] = [AUTHORIZERD, "replay", "ingest", "--input", log, "--out", table]
    time_job(ingest, place / "ingest.log")
    for number, case in enumerate(run.pick(CASES, CASES[3:4])):
        if case.count > 1 and find_program("haproxy") is None:
            continue
        folder = place / str(number)
        with ExitStack() as stack:
            daemons = []
            for each in range(case.count):
                daemon = _Daemon(folder / str(each), run.copy_log(kind(), folder / str(each)))
                stack.callback(daemon.stack.close)
                daemon.start()
                daemons.append(daemon)
            address = daemons[0].address(case)
            if case.count > 1:
                address = _balance(stack, folder, daemons, case)
            yield from _measure(run, case, folder, table, address, daemons)


def _balance(stack: ExitStack, folder: Path, daemons: Sequence[_Daemon], case: Case) -> str:
    """Run HAProxy before the daemons, and return its address."""
    program, port = find_program("haproxy"), free_port()
    assert program is not None, "the caller has looked"
    lines = [_BALANCER.format(port=port)]
    for number, daemon in enumerate(daemons):
        probe = daemon.process.admin_http.rpartition(":")[2]
        lines.append(f"  server d{number} {daemon.address(case)} check port {probe}\n")
    (folder / "haproxy.cfg").write_text("".join(lines))
    words: list[str | Path] = [program, "-db", "-f", folder / "haproxy.cfg"]
    stack.enter_context(running(words, folder / "haproxy.log"))
    return f"127.0.0.1:{port}"


def _measure(
    run: Run, case: Case, folder: Path, table: Path, address: str, daemons: Sequence[_Daemon]
) -> Iterator[Row]:
    out, seconds = folder / "load", run.pick(SECONDS, 10)
    words: list[str | Path] = [
        AUTHORIZERD, "replay", "load", "--events", table, "--out", out, "--target", address,
        "--surface", case.surface.lower(), "--rate", f"{_RATE}", "--loop", "0",
        "--lanes", f"{_LANES}", "--duration", f"{seconds}", "--reconnect", "60",
        "--max-send-lag", "1000",
    ]  # fmt: skip
    with ThreadPoolExecutor(1) as threads, running(words, folder / "load.log") as loading:
        wait_until(lambda: any(each.is_asked() for each in daemons), "the load has begun")
        wrk = threads.submit(_run_wrk, daemons[0], address, seconds) if case.is_http else None
        time.sleep(_LEAD_SECONDS)
        case.end(daemons)
        loading.wait(_LIMIT_SECONDS)
        printed = None if wrk is None else wrk.result()
    report = msgspec.json.decode(read_result(out / "load.json"), type=LoadReport)
    latency = report.latency
    if not report.valid or latency is None or not report.reconnects:
        raise MeasurementError(f"{case}: not valid, or no outage: {report.invalid_reasons}")
    what = str(case)
    yield from rows(
        what,
        ("longest outage", "s", report.longest_outage_s),
        ("asked again", "", report.lost),
        ("dropped after 10 s", "", report.dropped),
        ("p99 from when it was due", "ms", latency.corrected.p99_ms or 0.0),
        ("p99 from when it was sent", "ms", latency.service.p99_ms or 0.0),
    )
    if printed is not None:
        yield from rows(
            what,
            ("wrk, p99", "ms", printed.p99_microseconds / 1000),
            ("wrk, longest", "ms", printed.longest_microseconds / 1000),
        )


def _run_wrk(daemon: _Daemon, address: str, seconds: float) -> Printed:
    server = replace(server_of(daemon.process), host=address)
    target = server.target([*kind().questions()], Load(connections=_LANES))
    return run_wrk(target.next_plan(seconds))
