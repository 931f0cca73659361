"""A polite client beside a flood: one connection, at most so many requests a second, each timed.

    python -m ops.bench.flood_client PLAN

``PLAN`` is a file in msgpack. One request is under way at a time; while it is, none falls due. What
is refused, in words or by an end of the connection, is counted apart, and the client waits a moment
before it goes on, on a new connection if it has lost the old one.
"""

from __future__ import annotations

import socket
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from ops.bench.figures import percentile
from ops.bench.flood_surfaces import ANSWERED, Outcomes, outcomes_of

_RECEIVE_BYTES: Final = 1 << 20
_TIMEOUT_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 0.05
_NO_CONNECTION: Final = "no connection"


class ClientPlan(msgspec.Struct, frozen=True, kw_only=True):
    """``skipped_seconds`` are those at the beginning that are not timed."""

    address: str
    outcomes: str
    opening: bytes
    request: bytes
    requests_per_second: float
    seconds: float
    skipped_seconds: float = 0.0


class ClientReport(msgspec.Struct, frozen=True):
    """``refused`` by kind; times are of what was answered, in ms, 0 where nothing was.

    ``first_answer_s`` is how long it took until the first.
    """

    answered: int
    refused: dict[str, int]
    first_answer_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float


class _Client:
    def __init__(self, plan: ClientPlan) -> None:
        self._plan = plan
        self._socket: socket.socket | None = None
        self._outcomes: Outcomes = outcomes_of(plan.outcomes)

    def ask(self) -> str:
        """Ask once; return how it ended."""
        try:
            connection = self._connected()
            connection.sendall(self._plan.request)
            while not (counts := self._outcomes.counts):
                data = connection.recv(_RECEIVE_BYTES)
                if not data:
                    raise ConnectionResetError
                self._outcomes.take(data)
        except OSError:
            outcome = next(iter(self._outcomes.counts), _NO_CONNECTION)
            self.disconnect()
            return outcome
        (outcome,) = counts
        counts.clear()
        return outcome

    def _connected(self) -> socket.socket:
        if self._socket is None:
            host, _, port = self._plan.address.rpartition(":")
            self._outcomes = outcomes_of(self._plan.outcomes)
            self._socket = socket.create_connection((host, int(port)), _TIMEOUT_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(self._plan.opening)
        return self._socket

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def ask_steadily(plan: ClientPlan) -> ClientReport:
    """Ask at the plan's pace for as long as it says."""
    client = _Client(plan)
    times_ms: list[float] = []
    refused: Counter[str] = Counter()
    started = due = time.perf_counter()
    first_answer_s = plan.seconds
    while due < started + plan.seconds:
        time.sleep(max(0.0, due - time.perf_counter()))
        due = time.perf_counter()
        outcome = client.ask()
        now = time.perf_counter()
        if outcome != ANSWERED:
            refused[outcome] += 1
            due = now + _RETRY_SECONDS
        else:
            first_answer_s = min(first_answer_s, now - started)
            if due - started >= plan.skipped_seconds:
                times_ms.append((now - due) * 1000)
        due += 1 / plan.requests_per_second
    client.disconnect()
    times_ms.sort()
    p50, p99 = (percentile(times_ms, rank) if times_ms else 0.0 for rank in (50, 99))
    longest = times_ms[-1] if times_ms else 0.0
    return ClientReport(len(times_ms), dict(refused), first_answer_s, p50, p99, longest)


def main() -> None:
    plan = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=ClientPlan)
    sys.stdout.buffer.write(msgspec.json.encode(ask_steadily(plan)) + b"\n")


if __name__ == "__main__":
    main()
