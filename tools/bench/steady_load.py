"""Ask over HTTP at a fixed rate, whatever the server does, on any number of connections.

    python -m tools.bench.steady_load HOST:PORT PATH BODIES CONNECTIONS RATE SECONDS [--first N]

Each request is due at a time that nothing moves, and **its latency counts from then**. So a stall
also counts for the requests that were due during it. The connections take turns. One that still
waits for an answer sends its next request as soon as it has it. ``BODIES`` and ``--first`` are as
in ``http_load``; any answer other than 200 ends the load.

*Lag* is how late a request was sent on a connection that was free: the generator's own delay.
"""

from __future__ import annotations

import argparse
import resource
import select
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import msgspec

from tools.bench.closed_loop import LoadError
from tools.bench.figures import PERCENTS, percentile
from tools.bench.http_load import STALLED_SECONDS, Connection, post
from tools.bench.processes import Command, capture_json

CONNECTIONS: Final = 16
_MORE_SECONDS: Final = 120.0


class SteadyReport(msgspec.Struct, frozen=True):
    """The results of one load; times in ms. ``latencies_ms`` has one for each of ``PERCENTS``."""

    requests: int
    latencies_ms: dict[int, float]
    max_ms: float
    lag_p99_ms: float

    def at(self, percent: int) -> float:
        """Return a percentile of the latencies, in ms."""
        return self.latencies_ms[percent]


class SteadyLoad(msgspec.Struct, frozen=True, kw_only=True):
    """``requests_per_second`` is the rate of all connections together."""

    host: str
    path: str
    bodies: Path
    requests_per_second: float
    seconds: float
    connections: int = CONNECTIONS
    first: int = 0

    def command(self) -> Command:
        """Return the command that generates this load, and prints a ``SteadyReport`` as JSON."""
        return [
            sys.executable, "-m", "tools.bench.steady_load", self.host, self.path, self.bodies,
            str(self.connections), str(self.requests_per_second), str(self.seconds),
            "--first", str(self.first),
        ]  # fmt: skip

    def run(self) -> SteadyReport:
        """Run the load in another process.

        Raises:
            ProcessError: a connection failed, or an answer was not 200.
        """
        seconds = self.seconds + _MORE_SECONDS
        return capture_json(self.command(), SteadyReport, timeout_seconds=seconds)


class _Client:
    """A connection, and the times at which its unanswered requests were due."""

    __slots__ = ("connection", "due_ns")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.due_ns: deque[int] = deque()


def drive(
    address: tuple[str, int],
    requests: Sequence[bytes],
    *,
    connections: int,
    requests_per_second: float,
    seconds: float,
    first: int = 0,
) -> SteadyReport:
    """Send as many requests as are due in ``seconds``, and wait for all answers.

    Raises:
        LoadError, OSError: the server does not answer as it should.
    """
    interval_ns, count = 1e9 / requests_per_second, int(requests_per_second * seconds)
    following = islice(cycle(requests), first % len(requests), None)
    latencies_ns: list[int] = []
    lags_ns: list[int] = [0]
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        clients = [_Client(Connection(address)) for _ in range(connections)]
        by_descriptor = {}
        for client in clients:
            stack.enter_context(client.connection.socket)
            poll.register(client.connection.socket, select.EPOLLIN)
            by_descriptor[client.connection.socket.fileno()] = client
        sent = 0
        begun_ns = time.perf_counter_ns()
        due_ns = begun_ns
        while len(latencies_ns) < count:
            now_ns = time.perf_counter_ns()
            while sent < count and due_ns <= now_ns:
                client = clients[sent % connections]
                client.due_ns.append(due_ns)
                if len(client.due_ns) == 1:
                    client.connection.ask(next(following))
                    lags_ns.append(client.connection.asked_ns - due_ns)
                sent += 1
                due_ns = begun_ns + int(sent * interval_ns)
            for descriptor in _wait(poll, due_ns if sent < count else None):
                client = by_descriptor[descriptor]
                if not client.connection.is_answered():
                    continue
                latencies_ns.append(time.perf_counter_ns() - client.due_ns.popleft())
                if client.due_ns:
                    client.connection.ask(next(following))
    return _summarize(latencies_ns, lags_ns)


def _wait(poll: select.epoll, until_ns: int | None) -> list[int]:
    """Return the descriptors that are ready, at the latest at ``until_ns``.

    Raises:
        LoadError: nothing is due any more, and the server does not answer.
    """
    seconds = STALLED_SECONDS
    if until_ns is not None:
        seconds = max(0.0, (until_ns - time.perf_counter_ns()) / 1e9)
    # epoll itself waits for whole milliseconds.
    ready, _, _ = select.select([poll.fileno()], [], [], seconds)
    if not ready and until_ns is None:
        raise LoadError(f"no answer in {STALLED_SECONDS:.0f} s")
    return [descriptor for descriptor, _ in poll.poll(0)] if ready else []


def _summarize(latencies_ns: list[int], lags_ns: list[int]) -> SteadyReport:
    latencies_ns.sort()
    lags_ns.sort()
    return SteadyReport(
        len(latencies_ns),
        {percent: percentile(latencies_ns, percent) / 1e6 for percent in PERCENTS},
        latencies_ns[-1] / 1e6,
        percentile(lags_ns, 99) / 1e6,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.steady_load")
    parser.add_argument("host")
    parser.add_argument("path")
    parser.add_argument("bodies", type=Path)
    parser.add_argument("connections", type=int)
    parser.add_argument("requests_per_second", type=float)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    name, _, port = given.host.rpartition(":")
    requests = [
        post(given.host, given.path, body) for body in given.bodies.read_bytes().splitlines()
    ]
    report = drive(
        (name, int(port)),
        requests,
        connections=given.connections,
        requests_per_second=given.requests_per_second,
        seconds=given.seconds,
        first=given.first,
    )
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
