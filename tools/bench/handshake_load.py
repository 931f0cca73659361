"""Generate load with TLS handshakes: each connection asks one question and is closed.

It runs as a separate process. No session is resumed, so every handshake is a full one. Answers are
counted, not handshakes: with TLS 1.3, the client completes the handshake before the server does.

    python -m tools.bench.handshake_load HOST:PORT PATH BODIES CONNECTIONS SECONDS CA [NICENESS]

``CONNECTIONS`` are in progress at a time. The time of one runs from before the TCP connection until
its answer is complete. A refused or broken connection is counted and replaced.
"""

from __future__ import annotations

import os
import select
import ssl
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from time import perf_counter_ns
from typing import Final

import msgspec

from tools.bench.closed_loop import LoadError, LoadReport, Stopwatch
from tools.bench.http_load import STALLED_SECONDS, Connection, post

FAILED_MAX: Final = 1000


class HandshakeReport(msgspec.Struct, frozen=True):
    """The results; ``load`` has the times of the answered connections."""

    load: LoadReport
    failed: int


class _FreshConnection(Connection):
    """A connection whose handshake is not complete yet."""

    __slots__ = ("_is_secured", "_request", "begun_ns")

    def __init__(self, address: tuple[str, int], request: bytes, tls: ssl.SSLContext) -> None:
        self.begun_ns: Final = perf_counter_ns()
        super().__init__(address, tls, is_secured=False)
        self._request = request
        self._is_secured = False

    def goes_on(self) -> bool:
        """Do the next steps without blocking; return False once the answer is complete.

        Raises:
            LoadError, OSError: see ``Connection.is_answered``; or the handshake failed.
        """
        assert isinstance(self.socket, ssl.SSLSocket)
        if not self._is_secured:
            try:
                self.socket.do_handshake()
            except ssl.SSLWantReadError:
                return True
            self._is_secured = True
            self.ask(self._request)
            return True
        return not self.is_answered()


def drive(
    address: tuple[str, int],
    requests: Sequence[bytes],
    connections: int,
    seconds: float,
    tls: ssl.SSLContext,
) -> HandshakeReport:
    """Connect and ask, again and again, for ``seconds``.

    Raises:
        LoadError: nothing arrived for some seconds, or too many connections failed.
        OSError: the server accepts no connection.
    """
    following = cycle(requests)
    failed = 0
    stopwatch = Stopwatch(seconds)
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        in_progress: dict[int, _FreshConnection] = {}
        stack.callback(_close, in_progress)
        while stopwatch.is_running:
            while len(in_progress) < connections:
                begun = _FreshConnection(address, next(following), tls)
                in_progress[begun.socket.fileno()] = begun
                begun.goes_on()
                poll.register(begun.socket, select.EPOLLIN)
            ready = poll.poll(STALLED_SECONDS)
            if not ready:
                raise LoadError(f"nothing arrived in {STALLED_SECONDS:.0f} s")
            for descriptor, _ in ready:
                connection = in_progress[descriptor]
                try:
                    if connection.goes_on():
                        continue
                    stopwatch.tick()
                    stopwatch.record(connection.begun_ns)
                except (LoadError, OSError) as error:
                    stopwatch.tick()
                    failed += 1
                    if failed > FAILED_MAX:
                        raise LoadError(f"more than {FAILED_MAX} failed: {error!r}") from error
                del in_progress[descriptor]
                connection.socket.close()
    return HandshakeReport(stopwatch.report(), failed)


def _close(in_progress: Mapping[int, _FreshConnection]) -> None:
    for connection in in_progress.values():
        connection.socket.close()


def main() -> None:
    host, path, bodies, connections, seconds, ca_file, *niceness = sys.argv[1:]
    os.nice(int(niceness[0]) if niceness else 0)
    name, _, port = host.rpartition(":")
    requests = [post(host, path, body) for body in Path(bodies).read_bytes().splitlines()]
    tls = ssl.create_default_context(cafile=ca_file)
    report = drive((name, int(port)), requests, int(connections), float(seconds), tls)
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
