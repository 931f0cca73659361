"""Flood one interface from one process, and count the answers.

    python -m tools.bench.flood_load PLAN

``PLAN`` is a file in msgpack. The process has a lower priority than the daemon. An *open loop*
offers requests at a fixed rate, regardless of the answers, up to what one core can generate.
Requests that the sockets do not accept are not counted as offered.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tools.bench.protocols import reader_of

NICENESS: Final = 10
CLOSED: Final = "closed"
_RECEIVE_BYTES: Final = 256 * 1024
_SMALL_BUFFER_BYTES: Final = 4096
_TRICKLE_SECONDS: Final = 0.2
_TICK_SECONDS: Final = 0.01
_CONNECT_SECONDS: Final = 2.0
_CONNECTS_PER_TURN: Final = 50
_BATCH_MAX: Final = 16


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """``first`` is sent once on each connection, ``again`` repeatedly."""

    address: str
    protocol: str
    connections: int
    seconds: float
    first: bytes = b""
    again: bytes = b""
    trickle: bytes = b""
    requests_per_second: float = 0.0
    reads: bool = True
    reconnects: bool = False


class FloodReport(msgspec.Struct, frozen=True):
    """``outcomes`` counts answers by kind, and connections that the daemon closed."""

    opened: int
    offered: int
    outcomes: dict[str, int]


class _Connection:
    def __init__(self, plan: Plan) -> None:
        host, _, port = plan.address.rpartition(":")
        self.socket = socket.socket()
        if not plan.reads:
            # A small buffer, so that unread answers soon fill the daemon's own.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER_BYTES)
        self.socket.settimeout(_CONNECT_SECONDS)
        self.socket.connect((host, int(port)))
        self.socket.setblocking(False)
        self.reader = reader_of(plan.protocol)
        self.sending = memoryview(plan.first)
        self.requests = 0
        self.trickled_at = 0.0


class _Flooder:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._poll = select.epoll()
        self._open: dict[int, _Connection] = {}
        self._outcomes: Counter[str] = Counter()
        self._opened = self._begun = self._offered = 0

    def run(self) -> FloodReport:
        started = time.monotonic()
        act = self._offer if self._plan.requests_per_second else self._press
        while (elapsed := time.monotonic() - started) < self._plan.seconds:
            self._connect()
            act(elapsed)
            for descriptor, events in self._poll.poll(_TICK_SECONDS):
                if connection := self._open.get(descriptor):
                    self._hear(connection, events)
        for connection in [*self._open.values()]:
            self._end(connection, by_peer=False)
        return FloodReport(self._opened, self._offered, dict(self._outcomes))

    def _connect(self) -> None:
        wanted = self._plan.connections
        if not self._plan.reconnects:
            # A connection that the daemon closed is not replaced.
            wanted -= self._opened - len(self._open)
        for _ in range(min(wanted - len(self._open), _CONNECTS_PER_TURN)):
            try:
                connection = _Connection(self._plan)
            except OSError as error:
                self._outcomes[type(error).__name__] += 1
                return
            self._opened += 1
            self._open[connection.socket.fileno()] = connection
            # EPOLLRDHUP reports the daemon's close even to connections that read nothing.
            self._poll.register(connection.socket, select.EPOLLIN | select.EPOLLRDHUP)

    def _press(self, elapsed: float) -> None:
        """Send on every connection: the repeated request, or the next byte of a slow one."""
        plan = self._plan
        for connection in [*self._open.values()]:
            if not connection.sending and plan.again:
                self._begin(connection, plan.again, 1)
            is_due = elapsed - connection.trickled_at > _TRICKLE_SECONDS
            if not connection.sending and plan.trickle and is_due:
                connection.trickled_at = elapsed
                connection.sending = memoryview(plan.trickle)
            self._guarded(connection, self._send)

    def _offer(self, elapsed: float) -> None:
        """Send the requests that are due, in batches, distributed over the connections."""
        due = int(elapsed * self._plan.requests_per_second) - self._begun
        open_now = [*self._open.values()]
        if not open_now or due <= 0:
            return
        each = max(1, min(_BATCH_MAX, due // len(open_now)))
        for connection, _ in zip(open_now, range(-(-due // each)), strict=False):
            if not connection.sending:
                self._begin(connection, self._plan.again * each, each)
            self._guarded(connection, self._send)

    def _begin(self, connection: _Connection, data: bytes, requests: int) -> None:
        connection.sending, connection.requests = memoryview(data), requests
        self._begun += requests

    def _send(self, connection: _Connection) -> None:
        """Send; count the requests as offered once the socket has accepted all of them."""
        while connection.sending:
            sent = connection.socket.send(connection.sending[:_RECEIVE_BYTES])
            connection.sending = connection.sending[sent:]
        self._offered += connection.requests
        connection.requests = 0

    def _hear(self, connection: _Connection, events: int) -> None:
        if self._plan.reads:
            self._guarded(connection, self._read)
        elif events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
            self._end(connection)
        else:  # nothing is read; do not report it again
            self._poll.modify(connection.socket, select.EPOLLRDHUP)

    def _read(self, connection: _Connection) -> None:
        data = connection.socket.recv(_RECEIVE_BYTES)
        self._outcomes.update(map(str, connection.reader.feed(data)))
        if not data:
            self._end(connection)

    def _guarded(self, connection: _Connection, act: Callable[[_Connection], None]) -> None:
        """Call ``act``. If the connection breaks, read the answer that may still be there."""
        try:
            act(connection)
        except BlockingIOError:
            pass
        except OSError:
            with suppress(OSError):
                while self._plan.reads and connection.socket.fileno() in self._open:
                    self._read(connection)
            self._end(connection)

    def _end(self, connection: _Connection, *, by_peer: bool = True) -> None:
        if self._open.pop(connection.socket.fileno(), None) is None:
            return
        # Before the close, after which the socket has no descriptor.
        self._poll.unregister(connection.socket)
        connection.socket.close()
        self._outcomes[CLOSED] += by_peer


def flood(plan: Plan) -> FloodReport:
    """Flood as planned; count errors of connections, and never raise them."""
    return _Flooder(plan).run()


if __name__ == "__main__":
    os.nice(NICENESS)
    plan = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    sys.stdout.buffer.write(msgspec.json.encode(flood(plan)) + b"\n")
