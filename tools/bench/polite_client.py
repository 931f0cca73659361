"""Polite clients during a flood: open connections, a fixed rate, and each request timed.

    python -m tools.bench.polite_client PLAN

``PLAN`` is a file in msgpack. Each connection has its own schedule, which nothing moves, and one
request in flight. **A latency counts from the moment at which the request was due**, so a stall
also counts for the requests that were due during it. Refusals, by an answer or a closed connection,
are counted separately. After a refusal, a client waits a moment, reconnects if its connection was
closed, and counts the requests that were due meanwhile as refused, too.
"""

from __future__ import annotations

import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import msgspec

from tools.bench.figures import PERCENTS, percentile
from tools.bench.flood_surfaces import ANSWERED, Outcomes, outcomes_of

CONNECTIONS: Final = 16
"""Enough that no connection's schedule depends on answers that take less than 50 ms."""

_RECEIVE_BYTES: Final = 1 << 20
_TIMEOUT_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 0.05
_NO_CONNECTION: Final = "no connection"
_WAITING: Final = "waiting after a refusal"


class ClientPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The clients' requests; those due in the first ``skipped_seconds`` are not counted.

    ``requests_per_second`` is the rate of all connections together. ``ca_file`` has the CA's
    certificate for a server with TLS; otherwise it is "".
    """

    address: str
    outcomes: str
    opening: bytes
    request: bytes
    requests_per_second: float
    seconds: float
    skipped_seconds: float = 0.0
    connections: int = CONNECTIONS
    ca_file: str = ""


class ClientReport(msgspec.Struct, frozen=True):
    """``refused`` counts refusals by kind. Times are of answered requests, or 0 without any.

    ``timed`` is the number of answered requests.
    """

    timed: int
    refused: dict[str, int]
    latencies_ms: dict[int, float]
    max_ms: float

    def at(self, percent: int) -> float:
        """Return a percentile of the latencies, in ms."""
        return self.latencies_ms[percent]


class _Client:
    """One connection, reopened after it is lost."""

    def __init__(self, plan: ClientPlan) -> None:
        self._plan = plan
        self._socket: socket.socket | None = None
        self._outcomes: Outcomes = outcomes_of(plan.outcomes)
        self._tls = ssl.create_default_context(cafile=plan.ca_file) if plan.ca_file else None

    def ask(self) -> str:
        """Ask once; return the outcome."""
        try:
            connection = self._connected()
            connection.sendall(self._plan.request)
            while not (counts := self._outcomes.counts):
                data = connection.recv(_RECEIVE_BYTES)
                if not data:
                    raise ConnectionResetError
                self._outcomes.take(data)
        except OSError:
            # The daemon may have sent a refusal before it closed the connection.
            outcome = next(iter(self._outcomes.counts), _NO_CONNECTION)
            self.disconnect()
            return outcome
        # One request is in flight, so there is exactly one outcome.
        (outcome,) = counts
        counts.clear()
        return outcome

    def connect(self) -> None:
        """Open the connection; if that fails, the next request tries again."""
        with suppress(OSError):
            self._connected()

    def _connected(self) -> socket.socket:
        if self._socket is None:
            host, _, port = self._plan.address.rpartition(":")
            # The old decoder may hold a part of the lost connection's answer.
            self._outcomes = outcomes_of(self._plan.outcomes)
            plain = socket.create_connection((host, int(port)), _TIMEOUT_SECONDS)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = plain if self._tls is None else self._secure(plain, self._tls, host)
            self._socket.sendall(self._plan.opening)
        return self._socket

    def _secure(self, plain: socket.socket, tls: ssl.SSLContext, host: str) -> socket.socket:
        with ExitStack() as stack:
            stack.enter_context(plain)
            secured = tls.wrap_socket(plain, server_hostname=host)
            stack.pop_all()
            return secured

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _Counts:
    """The counts of one connection."""

    def __init__(self) -> None:
        self.times_ms: list[float] = []
        self.refused: Counter[str] = Counter()


def ask_steadily(plan: ClientPlan) -> ClientReport:
    """Ask at the plan's rate, for the plan's time."""
    interval = plan.connections / plan.requests_per_second
    begin = time.perf_counter()

    def run(number: int) -> _Counts:
        # Staggered, so that the requests are spread evenly.
        return _ask_on_time(plan, begin + number * interval / plan.connections, interval)

    with ThreadPoolExecutor(plan.connections) as threads:
        return _summarize([*threads.map(run, range(plan.connections))])


def _ask_on_time(plan: ClientPlan, first_due: float, interval: float) -> _Counts:
    """Ask on one connection, each time when a request is due or as soon after as possible."""
    client, counts = _Client(plan), _Counts()
    due, end = first_due, first_due + plan.seconds
    client.connect()
    while due < end:
        time.sleep(max(0.0, due - time.perf_counter()))
        outcome = client.ask()
        now = time.perf_counter()
        is_counted = due - first_due >= plan.skipped_seconds
        if outcome == ANSWERED:
            counts.times_ms += [(now - due) * 1000] * is_counted
            due += interval
            continue
        counts.refused[outcome] += is_counted
        due += interval
        while due < min(now + _RETRY_SECONDS, end):
            counts.refused[_WAITING] += due - first_due >= plan.skipped_seconds
            due += interval
        time.sleep(_RETRY_SECONDS)
    client.disconnect()
    return counts


def _summarize(every: Sequence[_Counts]) -> ClientReport:
    times_ms = sorted(each for counts in every for each in counts.times_ms)
    refused = sum((counts.refused for counts in every), Counter[str]())
    return ClientReport(
        len(times_ms),
        dict(refused),
        {percent: percentile(times_ms, percent) if times_ms else 0.0 for percent in PERCENTS},
        times_ms[-1] if times_ms else 0.0,
    )


def main() -> None:
    plan = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=ClientPlan)
    sys.stdout.buffer.write(msgspec.json.encode(ask_steadily(plan)) + b"\n")


if __name__ == "__main__":
    main()
