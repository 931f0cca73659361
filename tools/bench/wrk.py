"""The highest rate of a server: over HTTP by wrk, whose times are not used.

wrk is a closed loop: while a server stalls it asks nothing, so its percentiles leave out what a
stall delays (coordinated omission). The sender measures other protocols, new connections, and the
loads of quick runs, which are shorter than wrk can be.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

import msgspec

from tools.bench.figures import MeasurementError
from tools.bench.protocols import HTTP, STREAM
from tools.bench.sender import Plan, send_together
from tools.processes import Command, capture_output, decode_output

_WRK: Final = "wrk"
_SCRIPT: Final = Path(__file__).with_name("wrk.lua")
_MORE_SECONDS: Final = 60.0


class Rate(msgspec.Struct, frozen=True):
    """``requests`` were answered (with 2xx), ``refused`` were answered otherwise."""

    requests: int
    per_second: float
    refused: int


class _Printed(msgspec.Struct):
    requests: int
    microseconds: int
    refused: int
    failed: int


def measure_rate(plan: Plan) -> Rate:
    """Ask as fast as the server answers; on streams, each connection from its own process.

    Raises:
        MeasurementError: requests failed, or none was answered.
        ProcessError: wrk failed.
    """
    if plan.protocol != HTTP or plan.is_fresh or plan.seconds < 1:
        count = plan.connections if plan.protocol == STREAM else 1
        each = msgspec.structs.replace(plan, rate=0.0, connections=plan.connections // count)
        reports = send_together(*[each] * count)
        return Rate(
            sum(report.answered for report in reports),
            sum(report.per_second for report in reports),
            sum(report.refused for report in reports),
        )
    scheme = "https" if plan.ca_file else "http"
    # wrk verifies no certificate; the answers were checked by a client that does.
    command: Command = [
        _WRK, "-t1", f"-c{plan.connections}", f"-d{round(plan.seconds)}s",
        f"--timeout={plan.answer_seconds:.0f}s", "-s", _SCRIPT, f"{scheme}://{plan.address}",
    ]  # fmt: skip
    with NamedTemporaryFile(prefix="bench-", suffix=".requests") as file:
        for request in plan.requests:
            file.write(b"%d\n%b" % (len(request), request))
        file.flush()
        environment = {**os.environ, "REQUESTS": file.name, "FIRST": str(plan.first)}
        limit = plan.seconds + _MORE_SECONDS
        printed = capture_output(command, timeout_seconds=limit, environment=environment)
    # wrk prints its own summary first.
    found = decode_output(printed.splitlines()[-1] if printed else b"", _Printed, command)
    answered = found.requests - found.refused
    if found.failed or answered <= 0:
        raise MeasurementError(
            f"{plan.address}: {found.failed} requests failed, {answered} of {found.requests} "
            "were answered with 2xx"
        )
    return Rate(answered, answered / (found.microseconds / 1e6), found.refused)
