"""Flood one interface from one process, and count the answers.

    python -m tools.bench.flood_load PLAN

The process has a lower priority than the daemon. An *open loop* offers requests at a fixed rate,
regardless of the answers. Requests that the sockets do not accept are not counted as offered.
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

from tools.bench.sender import Connection

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


class _Connection(Connection):
    requests = 0
    trickled_at = 0.0


class Flooder:
    """Floods as planned; counts connection errors and never raises them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._poll = select.epoll()
        self._open: dict[int, _Connection] = {}
        self._outcomes: Counter[str] = Counter()
        self._opened = self._begun = self._offered = 0

    def run(self) -> FloodReport:
        started = time.monotonic()
        while (elapsed := time.monotonic() - started) < self._plan.seconds:
            self._connect()
            self._press(elapsed)
            for descriptor, events in self._poll.poll(_TICK_SECONDS):
                if connection := self._open.get(descriptor):
                    self._hear(connection, events)
        for connection in [*self._open.values()]:
            self._end(connection, by_peer=False)
        return FloodReport(self._opened, self._offered, dict(self._outcomes))

    def _connect(self) -> None:
        plan, wanted = self._plan, self._plan.connections
        if not plan.reconnects:
            # Do not replace a connection that the daemon closed.
            wanted -= self._opened - len(self._open)
        for _ in range(min(wanted - len(self._open), _CONNECTS_PER_TURN)):
            try:
                first = memoryview(plan.first)
                connection = _Connection(plan.address, plan.protocol, first, None, _CONNECT_SECONDS)
            except OSError as error:
                self._outcomes[type(error).__name__] += 1
                return
            if not plan.reads:
                # A small buffer, so that unread answers soon fill the daemon's buffer.
                size = _SMALL_BUFFER_BYTES
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
            self._opened += 1
            self._open[connection.socket.fileno()] = connection
            # EPOLLRDHUP reports that the daemon closed, even for connections that read nothing.
            self._poll.register(connection.socket, select.EPOLLIN | select.EPOLLRDHUP)

    def _press(self, elapsed: float) -> None:
        """Send on each connection: the repeated request, or the next byte of a slow request.

        At a rate, only the requests that are due are sent, in batches.
        """
        plan, open_now = self._plan, [*self._open.values()]
        due = len(open_now)
        if plan.requests_per_second:
            due = int(elapsed * plan.requests_per_second) - self._begun
        each = max(1, min(_BATCH_MAX, due // max(1, len(open_now))))
        again = memoryview(plan.again * each)
        for number, connection in enumerate(open_now):
            is_due = elapsed - connection.trickled_at > _TRICKLE_SECONDS
            if not connection.sending and again and number * each < due:
                connection.sending, connection.requests = again, each
                self._begun += each
            elif not connection.sending and plan.trickle and is_due:
                connection.sending, connection.trickled_at = plan.trickle, elapsed
            self._guarded(connection, self._send)

    def _send(self, connection: _Connection) -> None:
        connection.pump()
        if not connection.sending:
            self._offered += connection.requests
            connection.requests = 0

    def _hear(self, connection: _Connection, events: int) -> None:
        if self._plan.reads:
            self._guarded(connection, self._read)
        elif events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
            self._end(connection)
        else:  # these clients read nothing; do not report it again
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
        # Before closing: afterwards the socket has no descriptor.
        self._poll.unregister(connection.socket)
        connection.socket.close()
        self._outcomes[CLOSED] += by_peer


if __name__ == "__main__":
    os.nice(NICENESS)
    plan = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    sys.stdout.buffer.write(msgspec.json.encode(Flooder(plan).run()) + b"\n")
