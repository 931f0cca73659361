"""Log-ins with SCRAM, each on a new connection, and the event loop's longest step during them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from authorizerd.protocol.records.scram import ScramMechanism
from tools.bench.event_loop import measure_stretches_of
from tools.bench.figures import Row, percentile_rows, row_of_rounds
from tools.bench.protocols import scram_opening
from tools.bench.run import Run
from tools.bench.sender import Plan, Report, send
from tools.bench.sets import HOST
from tools.daemon_process import AUTHORIZERD, DaemonProcess, ready_daemon, serve_command
from tools.processes import capture_output, cpu_seconds

CONNECTIONS: Final = 16
RATE: Final = 400.0
_USER: Final = "bench"
_LISTENER: Final = "SASL_PLAINTEXT"
_SETTINGS: Final[Mapping[str, str]] = {
    "listeners": f"{_LISTENER}://{HOST}:0",
    "sasl.enabled.mechanisms": ",".join(mechanism.text for mechanism in ScramMechanism),
}
_FORMAT_SECONDS: Final = 60.0


def measure_log_ins(run: Run) -> Iterator[Row]:
    """Measure each mechanism."""
    place, password = run.new_place("log-ins"), secrets.token_urlsafe()
    log_dir = place / "log"
    _format(place, log_dir, password)
    rounds, seconds = run.pick((3, 2.0), (1, 0.1))
    for mechanism in run.pick(tuple(ScramMechanism), (ScramMechanism.SCRAM_SHA_512,)):
        log_in = partial(_log_in, mechanism=mechanism, password=password, seconds=seconds)
        rates, cpu_us, times_ms = [], [], list[float]()
        with ready_daemon(place, log_dir, _SETTINGS) as daemon:
            for _ in range(rounds):
                before = cpu_seconds(daemon.process_id)
                report = log_in(daemon)
                rates.append(report.per_second)
                used = cpu_seconds(daemon.process_id) - before
                cpu_us.append(used / report.asked * 1e6)
                times_ms += log_in(daemon, rate=RATE).times_ms
        what = f"{mechanism.text}, {CONNECTIONS} at a time"
        yield row_of_rounds(what, "log-ins", "/s", rates, more_is_better=True)
        yield row_of_rounds(what, "the daemon's CPU for each", "µs", cpu_us)
        yield from percentile_rows(what, times_ms, of=f" at {RATE:g}/s")
        name = f"{mechanism.text} log-ins"
        yield from measure_stretches_of(name, log_dir, place, _SETTINGS, log_in, rounds=rounds)


def _format(directory: Path, log_dir: Path, password: str) -> None:
    """Make a log directory with the user's credentials."""
    config = serve_command(directory, log_dir, _SETTINGS)[0][2]
    command: list[str | Path] = [AUTHORIZERD, "format", "--config", config]
    for mechanism in ScramMechanism:
        command += ["--add-scram", f"{mechanism.text}=[name={_USER},password={password}]"]
    capture_output(command, timeout_seconds=_FORMAT_SECONDS)


def _log_in(
    daemon: DaemonProcess,
    *,
    mechanism: ScramMechanism,
    password: str,
    seconds: float,
    rate: float = 0.0,
) -> Report:
    plan = Plan(
        address=daemon.listeners[_LISTENER],
        protocol=f"scram:{mechanism.name}:{_USER}:{password}",
        requests=[scram_opening(mechanism)],
        connections=CONNECTIONS,
        is_fresh=True,
        seconds=seconds,
        rate=rate,
    )
    return send(plan)
