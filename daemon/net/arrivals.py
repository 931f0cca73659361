"""The arrivals of one endpoint: connections without a task that wait to be served.

An accepted connection waits here until its peer has sent something to answer; then it is served in
its turn. So a peer that sends nothing, or part of a TLS hello, costs only a few system calls.

**Invariant:** in each turn of the event loop, at most STARTS_PER_TURN arrivals begin to be served,
and at most one of these is a TLS hello that is answered before its connection is served. Otherwise,
an arrival's bytes are not read here: its connection reads all of them.
"""

from __future__ import annotations

import select
import socket
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Self

import trio

from authorizerd.acl.hosts import host_address
from authorizerd.daemon.net.connection_limits import ConnectionLimits, network_of

if TYPE_CHECKING:  # commands that open no port need no TLS
    from authorizerd.tls.server import AnsweredHello

STARTS_PER_TURN: Final = 2
LOOKS_PER_TURN: Final = 8
_PEEK_BYTES: Final = 4096
_PEEK: Final = socket.MSG_PEEK | socket.MSG_DONTWAIT
_EVENTS: Final = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET


class Ending(Enum):
    """Why a server ended a connection."""

    TIMED_OUT = auto()
    EXPIRED = auto()
    EVICTED = auto()
    DRAINED = auto()


class Arrival:
    """The socket of a connection that is not served yet: it has no task and no buffers."""

    __slots__ = ("accepted_at", "address", "answered", "network", "socket", "source")

    def __init__(self, accepted: socket.socket, limits: ConnectionLimits, now: float) -> None:
        """Find out who the peer is.

        Raises:
            BrokenResourceError: the peer has already disconnected.
        """
        self.socket: Final = accepted
        self.accepted_at: Final = now
        self.address: Final = peer_address(accepted)
        self.network: Final = network_of(self.address)
        self.source: Final = limits.source_of(self.address)
        self.answered: AnsweredHello | None = None  # the TLS handshake after the first hello

    def end(self, _: Ending) -> None:
        self.socket.close()


class Opening(Enum):
    """Whether the first bytes of a connection can be answered."""

    PARTIAL = auto()
    """More bytes are needed before anything can be answered."""
    READY = auto()
    DOUBTFUL = auto()
    """The peer has yet to show that it waits for an answer, so it comes after others.

    Once more bytes have arrived, it is classified again.
    """


class ArrivalQueue:
    """Arrivals that have sent enough to be served; all operations take constant time.

    **Invariant:** networks take turns, however many arrivals each has. Within a network, the newest
    comes first: under overload, the older ones have waited too long anyway.
    """

    def __init__(self) -> None:
        self._networks: Final[OrderedDict[str | None, dict[Arrival, None]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._networks)

    def add(self, arrival: Arrival) -> None:
        self._networks.setdefault(arrival.network, {})[arrival] = None

    def discard(self, arrival: Arrival) -> None:
        """Remove an arrival, if it is there."""
        waiting = self._networks.get(arrival.network)
        if waiting is not None:
            waiting.pop(arrival, None)
            if not waiting:
                del self._networks[arrival.network]

    def pop(self) -> Arrival:
        """Remove and return the next arrival."""
        network, waiting = self._networks.popitem(last=False)
        arrival, _ = waiting.popitem()
        if waiting:
            self._networks[network] = waiting  # behind all others
        return arrival


class Arrivals:
    """The connections that wait to be served. Use it as a context manager around ``run``.

    Args:
        classify: classifies the first bytes of a connection. It may answer them, and raise OSError
            if the connection is broken.
        may_start: returns True while another connection may be served.
        start: begins to serve a connection, or returns False if its peer must send more first.
        end: ends a connection whose peer has closed it. Both call ``discard`` first, unless
            ``start`` returns False.
    """

    def __init__(
        self,
        classify: Callable[[Arrival, bytes], Opening],
        may_start: Callable[[], bool],
        start: Callable[[Arrival], bool],
        end: Callable[[Arrival], None],
    ) -> None:
        self._classify: Final = classify
        self._may_start: Final = may_start
        self._start: Final = start
        self._end: Final = end
        self._epoll: Final = select.epoll()
        self._waiting: Final[dict[Arrival, None]] = {}  # in order of arrival
        self._silent: Final[dict[int, Arrival]] = {}
        self._ready: Final = ArrivalQueue()
        self._doubtful: Final = ArrivalQueue()
        self._may_go_on = trio.Event()
        self._is_finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for arrival in self._waiting:
            arrival.socket.close()
        self._epoll.close()

    def add(self, arrival: Arrival) -> None:
        """Wait until this connection can be served, and serve it in its turn.

        After ``finish``, it is served or ended at once.
        """
        self._waiting[arrival] = None
        if self._is_finished:
            self._serve_or_end(arrival)
        elif not self._look(arrival):
            self._watch_for_more(arrival)

    def discard(self, arrival: Arrival) -> None:
        """Forget a connection before its socket is closed."""
        self._waiting.pop(arrival, None)
        self._ready.discard(arrival)
        self._doubtful.discard(arrival)
        self._forget(arrival)

    def wake(self) -> None:
        """Check again whether another connection may be served."""
        self._may_go_on.set()

    def find_late(self, accepted_before: float) -> list[Arrival]:
        """Return the connections that have waited since before this time."""
        late = []
        for arrival in self._waiting:
            if arrival.accepted_at > accepted_before:
                break
            late.append(arrival)
        return late

    def finish(self) -> bool:
        """From now on, serve each connection whose first request has arrived, and end all others.

        Return True if there was one to serve.
        """
        self._is_finished = True
        is_any_served = self._serve_all()
        for arrival in [*self._silent.values()]:
            is_any_served |= self._serve_or_end(arrival)
        return is_any_served

    def _serve_or_end(self, arrival: Arrival) -> bool:
        if not self._look(arrival):
            self._end(arrival)
        return self._serve_all()

    def _serve_all(self) -> bool:
        """Serve all connections whose first request has arrived; return True if there was one."""
        is_any_served = bool(self._ready or self._doubtful)
        for queue in (self._ready, self._doubtful):
            while queue:
                self._start_next(queue)
        return is_any_served

    def _start_next(self, queue: ArrivalQueue) -> bool:
        """Serve the next connection; return False if its peer must send more first."""
        arrival = queue.pop()
        if self._start(arrival):
            return True
        if self._is_finished:
            self._end(arrival)
        else:
            self._watch_for_more(arrival)
        return False

    async def run(self) -> None:
        """Serve the connections in their turns until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            while True:
                if self._start_some():
                    await trio.lowlevel.checkpoint()
                else:
                    self._may_go_on = trio.Event()
                    await self._may_go_on.wait()

    def _start_some(self) -> bool:
        """Serve the next connections; return False if no other one may be served."""
        for _ in range(STARTS_PER_TURN):
            queue = self._ready or self._doubtful
            if not (queue and self._may_start()):
                return False
            is_served = self._start_next(queue)
            # A hello that was answered took a key exchange and a signature. And a flood of doubtful
            # connections must not use up the time of others.
            if not is_served or queue is self._doubtful:
                break
        return True

    async def _watch(self) -> None:
        descriptor = self._epoll.fileno()
        while True:
            await trio.lowlevel.wait_readable(descriptor)
            for silent, events in self._epoll.poll(0, LOOKS_PER_TURN):
                arrival = self._silent.get(silent)
                if arrival is not None and not self._look(arrival) and events & ~select.EPOLLIN:
                    self._end(arrival)  # nothing can follow the part that has arrived

    def _look(self, arrival: Arrival) -> bool:
        """Examine what has arrived; return False if the connection must keep waiting."""
        try:
            opening = arrival.socket.recv(_PEEK_BYTES, _PEEK)
        except BlockingIOError:
            return False
        except OSError:
            opening = b""
        try:
            kind = self._classify(arrival, opening) if opening else None
        except OSError:  # the peer may reset the connection at any time
            kind = None
        if kind is None:
            self._end(arrival)
            return True
        if kind is Opening.PARTIAL and len(opening) < _PEEK_BYTES:
            return False
        if kind is Opening.DOUBTFUL:
            self._doubtful.add(arrival)
            self._watch_for_more(arrival)
        else:
            self._doubtful.discard(arrival)
            self._forget(arrival)
            self._ready.add(arrival)
        self._may_go_on.set()
        return True

    def _watch_for_more(self, arrival: Arrival) -> None:
        descriptor = arrival.socket.fileno()
        if descriptor not in self._silent:
            self._silent[descriptor] = arrival
            self._epoll.register(descriptor, _EVENTS)

    def _forget(self, arrival: Arrival) -> None:
        descriptor = arrival.socket.fileno()
        if self._silent.get(descriptor) is arrival:
            del self._silent[descriptor]
            self._epoll.unregister(descriptor)


def has_ended(accepted: socket.socket) -> bool:
    """Return True if the peer has closed a connection without sending anything."""
    try:
        return not accepted.recv(1, _PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def to_stream(accepted: socket.socket) -> trio.SocketStream:
    return trio.SocketStream(trio.socket.from_stdlib_socket(accepted))


def peer_address(connected: trio.socket.SocketType | socket.socket) -> str | None:
    """Return the peer's address in the form that Kafka compares, None if the peer has none.

    A link-local address ends with the number of its zone.

    Raises:
        BrokenResourceError: the peer has already disconnected.
    """
    if connected.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        text, _, *flow_and_zone = connected.getpeername()
    except OSError as error:
        raise trio.BrokenResourceError(str(error)) from error
    if any(flow_and_zone[1:]):
        text = f"{text}%{flow_and_zone[1]}"
    host = host_address(text)
    return text if host is None else host
