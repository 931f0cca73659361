"""Ask a server over HTTP from another process: with wrk if it is installed, else from Python.

wrk takes less CPU time per request than ``http_load``, so it takes less from a server on the same
machine. ``http_load`` is used without wrk, and for loads of less than a second, which wrk cannot
time. Table lines name it.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tools.bench.closed_loop import LoadReport
from tools.bench.figures import PERCENTS
from tools.bench.processes import Command, ProcessError, capture_json, capture_output, decode_output

WRK: Final = "wrk"
PYTHON: Final = "Python generator"

_SCRIPT: Final = Path(__file__).with_name("wrk.lua")
_MORE_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLoad:
    """A closed loop: ``connections`` that each ask again as soon as they have an answer.

    ``bodies`` is a file with one body per line. ``first`` is the number of the first body to ask.
    ``has_ids`` gives each request an X-Request-ID of its own.
    """

    host: str
    path: str
    bodies: Path
    first: int
    connections: int
    seconds: float
    token_file: Path | None = None
    ca_file: Path | None = None
    has_ids: bool = False


class _WrkReport(msgspec.Struct):
    requests: int
    microseconds: int
    refused: int
    failed: int
    p50_us: int
    p90_us: int
    p99_us: int
    max_us: int

    def percentiles_ms(self) -> tuple[float, float, float]:
        return self.p50_us / 1000, self.p90_us / 1000, self.p99_us / 1000


def generator_for(seconds: float) -> str:
    """Return the name of the generator for a load of ``seconds``."""
    return WRK if seconds >= 1 and shutil.which(WRK) else PYTHON


def generate(load: HttpLoad) -> LoadReport:
    """Run one load to its end. With wrk, answers other than 2xx are counted as refused.

    Raises:
        ProcessError: a connection failed, or, with the Python generator, an answer was not 200.
    """
    if generator_for(load.seconds) == WRK:
        return _run_wrk(load)
    return _run_python(load)


def _run_wrk(load: HttpLoad) -> LoadReport:
    # wrk verifies no certificate; the table's answers were checked by a client that does.
    scheme = "http" if load.ca_file is None else "https"
    command: Command = [
        WRK, "-t1", f"-c{load.connections}", f"-d{round(load.seconds)}s",
        f"--timeout={_ANSWER_SECONDS}s", "-s", _SCRIPT, f"{scheme}://{load.host}",
    ]  # fmt: skip
    environment = {
        **os.environ,
        "BODIES": str(load.bodies),
        "REQUEST_PATH": load.path,
        "FIRST": str(load.first),
        **({} if load.token_file is None else {"TOKEN_FILE": str(load.token_file)}),
        **({"HAS_IDS": "1"} if load.has_ids else {}),
    }
    printed = capture_output(
        command, timeout_seconds=load.seconds + _MORE_SECONDS, environment=environment
    )
    # wrk prints its own summary first.
    report = decode_output(printed.splitlines()[-1] if printed else b"", _WrkReport, command)
    answered = report.requests - report.refused
    if report.failed or answered <= 0:
        raise ProcessError(
            f"wrk: {load.host}{load.path}: {report.failed} requests failed, {answered} of "
            f"{report.requests} were answered with 2xx"
        )
    return LoadReport(
        requests=report.requests,
        requests_per_second=answered / (report.microseconds / 1e6),
        timed=report.requests,
        latencies_ms=dict(zip(PERCENTS, report.percentiles_ms(), strict=True)),
        max_ms=report.max_us / 1000,
        refused=report.refused,
    )


def _run_python(load: HttpLoad) -> LoadReport:
    command: Command = [
        sys.executable, "-m", "tools.bench.http_load", load.host, load.path, load.bodies,
        str(load.connections), str(load.seconds), "--first", str(load.first),
        *(() if load.token_file is None else ("--token", load.token_file)),
        *(() if load.ca_file is None else ("--ca", load.ca_file)),
        *(("--ids",) if load.has_ids else ()),
    ]  # fmt: skip
    return capture_json(command, LoadReport, timeout_seconds=load.seconds + _MORE_SECONDS)
