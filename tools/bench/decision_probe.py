"""Ask a daemon for one decision at a time while it does other work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Final

import msgspec

from tools.bench.closed_loop import LoadError
from tools.bench.figures import Line, percentile, supported_percent

Probe = Callable[[], float]
"""Asks for a decision; returns its time in ms."""

_STEP_SECONDS: Final = 30.0
_PROBE_PAUSE_SECONDS: Final = 0.003
_QUESTION: Final = (
    b'{"subject":{"type":"user","id":"bench-update"},"action":{"name":"READ"},'
    b'"resource":{"type":"topic","id":"described-0-0000000001"},"context":{"host":"127.0.0.1"}}'
)


def make_line(what: str, times_ms: list[float]) -> Line:
    """Return the line of the highest percentile that the times support."""
    percent = supported_percent(len(times_ms))
    return Line(
        what=f"AuthZEN decisions, 1 connection, {what}: p{percent}",
        unit="ms",
        ours=percentile(sorted(times_ms), percent),
    )


def ask_while(probe: Probe, goes_on: Callable[[], bool]) -> list[float]:
    """Call ``probe`` repeatedly, at least once; return its times."""
    times = [probe()]
    while goes_on():
        # Pause, so that the probes add little to the daemon's load.
        time.sleep(_PROBE_PAUSE_SECONDS)
        times.append(probe())
    return times


@contextmanager
def open_probe(host: str) -> Iterator[Probe]:
    """Yield a function that asks for one decision on a persistent connection; it returns its ms."""
    headers = {"Content-Type": "application/json"}
    with closing(HTTPConnection(host, timeout=_STEP_SECONDS)) as connection:

        def probe() -> float:
            began_ns = time.perf_counter_ns()
            connection.request("POST", "/access/v1/evaluation", _QUESTION, headers)
            answer = connection.getresponse().read()
            taken_ms = (time.perf_counter_ns() - began_ns) / 1e6
            if msgspec.json.decode(answer).get("decision") is not True:
                raise LoadError(f"a decision was answered with {answer!r}")
            return taken_ms

        yield probe
