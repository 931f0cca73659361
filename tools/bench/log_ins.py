"""Benchmark log-ins with SCRAM, and the longest step of the event loop during them.

Each log-in is a new connection with three round trips. There is no peer.
"""

from __future__ import annotations

import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.protocol.records.scram import ScramMechanism
from tools.bench.closed_loop import LoadReport
from tools.bench.daemon_process import AUTHORIZERD, DaemonProcess, ready_daemon, serve_command
from tools.bench.event_loop import measure_stretches_of
from tools.bench.figures import Line
from tools.bench.processes import Command, capture_json, capture_output, cpu_seconds
from tools.bench.rounds import compare, compare_latencies
from tools.bench.sets import HOST

CONNECTIONS: Final = 16

_USER: Final = "bench"
_LISTENER: Final = "SASL_PLAINTEXT"
_SETTINGS: Final[Mapping[str, str]] = {
    "listeners": f"{_LISTENER}://{HOST}:0",
    "sasl.enabled.mechanisms": ",".join(mechanism.text for mechanism in ScramMechanism),
}
_STEP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The number of rounds, the seconds of each, and the mechanisms."""

    rounds: int
    seconds: float
    mechanisms: Sequence[ScramMechanism] = tuple(ScramMechanism)


FULL: Final = Extent(rounds=3, seconds=2.0)
QUICK: Final = Extent(rounds=1, seconds=0.05, mechanisms=(ScramMechanism.SCRAM_SHA_512,))


@dataclass(frozen=True, slots=True)
class _Round:
    report: LoadReport
    cpu_us: float


def measure_log_ins(directory: Path, extent: Extent) -> Iterator[Line]:
    """Yield the lines of each mechanism.

    Raises:
        ProcessError: the daemon failed, or refused a log-in.
    """
    shutil.rmtree(directory, ignore_errors=True)
    log_dir = directory / "log"
    password = secrets.token_urlsafe()
    _format(directory, log_dir, password)
    for mechanism in extent.mechanisms:
        with ready_daemon(directory, log_dir, _SETTINGS) as daemon:
            rounds = [
                _measure(daemon, mechanism, password, directory, extent.seconds)
                for _ in range(extent.rounds)
            ]
        what = f"log-ins, {mechanism.text}, {CONNECTIONS} at a time"
        yield compare(
            what, "/s", rounds, "", None,
            lambda each: each.report.requests_per_second, more_is_better=True,
        )  # fmt: skip
        yield from compare_latencies(what, rounds, "", None, attrgetter("report"))
        yield compare(
            f"{what}: the daemon's CPU for each", "µs", rounds, "", None, attrgetter("cpu_us")
        )
        yield from measure_stretches_of(
            f"{mechanism.text} log-ins",
            log_dir,
            directory,
            _SETTINGS,
            partial(
                _measure,
                mechanism=mechanism,
                password=password,
                directory=directory,
                seconds=extent.seconds,
            ),
            rounds=extent.rounds,
        )


def _format(directory: Path, log_dir: Path, password: str) -> None:
    """Make a log directory with the user's credentials."""
    arguments, _ = serve_command(directory, log_dir, _SETTINGS)
    config = arguments[2]
    command: list[str | Path] = [AUTHORIZERD, "format", "--config", config]
    for mechanism in ScramMechanism:
        command += ["--add-scram", f"{mechanism.text}=[name={_USER},password={password}]"]
    capture_output(command, timeout_seconds=_STEP_SECONDS)


def _measure(
    daemon: DaemonProcess,
    mechanism: ScramMechanism,
    password: str,
    directory: Path,
    seconds: float,
) -> _Round:
    ready = msgspec.json.decode((directory / "ready.json").read_bytes())
    command: Command = [
        sys.executable, "-m", "tools.bench.log_in_load", ready["listeners"][_LISTENER],
        mechanism.name, _USER, password, str(CONNECTIONS), str(seconds),
    ]  # fmt: skip
    before = cpu_seconds(daemon.process_id)
    report = capture_json(command, LoadReport, timeout_seconds=_STEP_SECONDS)
    used = cpu_seconds(daemon.process_id) - before
    return _Round(report, used / report.requests * 1e6)
