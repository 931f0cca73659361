"""A polite client during a flood: one connection, a limited rate, and each request timed.

    python -m ops.bench.polite_client PLAN

``PLAN`` is a file in msgpack. One request is in flight at a time, and no other falls due until it
is answered. Refusals, by an answer or a closed connection, are counted separately. After a refusal,
the client waits a moment, and reconnects if its connection was closed.
"""

from __future__ import annotations

import socket
import ssl
import sys
import time
from collections import Counter
from contextlib import ExitStack
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
    """The client's requests; those in the first ``skipped_seconds`` are not timed.

    ``ca_file`` has the CA's certificate for a server with TLS; otherwise it is "".
    """

    address: str
    outcomes: str
    opening: bytes
    request: bytes
    requests_per_second: float
    seconds: float
    skipped_seconds: float = 0.0
    ca_file: str = ""


class ClientReport(msgspec.Struct, frozen=True):
    """``refused`` counts refusals by kind. Times are of answered requests, or 0 without any."""

    answered: int
    refused: dict[str, int]
    p50_ms: float
    p99_ms: float
    max_ms: float


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


def ask_steadily(plan: ClientPlan) -> ClientReport:
    """Ask at the plan's rate, for the plan's time."""
    client = _Client(plan)
    times_ms: list[float] = []
    refused: Counter[str] = Counter()
    started = due = time.perf_counter()
    while due < started + plan.seconds:
        time.sleep(max(0.0, due - time.perf_counter()))
        # Count from now: a polite client does not catch up after a slow answer.
        due = time.perf_counter()
        outcome = client.ask()
        now = time.perf_counter()
        if outcome != ANSWERED:
            refused[outcome] += 1
            due = now + _RETRY_SECONDS
        else:
            if due - started >= plan.skipped_seconds:
                times_ms.append((now - due) * 1000)
        due += 1 / plan.requests_per_second
    client.disconnect()
    times_ms.sort()
    p50, p99 = (percentile(times_ms, rank) if times_ms else 0.0 for rank in (50, 99))
    longest = times_ms[-1] if times_ms else 0.0
    return ClientReport(len(times_ms), dict(refused), p50, p99, longest)


def main() -> None:
    plan = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=ClientPlan)
    sys.stdout.buffer.write(msgspec.json.encode(ask_steadily(plan)) + b"\n")


if __name__ == "__main__":
    main()
