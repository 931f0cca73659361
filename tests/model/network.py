"""A network in memory that delays, splits, cuts and partitions connections, according to its seed.

**Invariant:** the bytes of one direction arrive in order, and none arrives twice. What was sent
before a cut may be lost from any byte on. Every choice comes from one ``random.Random``.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from random import Random
from typing import Final

import trio

BUFFER_BYTES: Final = 4096
"""A sender waits while the peer has not received this many bytes."""


class Host:
    """A process with streams and listeners. While it is stopped, nothing arrives or leaves."""

    def __init__(self) -> None:
        self.stopped_until = 0.0
        self.is_dead = False
        self.ends: dict[MemoryStream, None] = {}
        self.listeners: list[MemoryListener] = []

    @property
    def is_stopped(self) -> bool:
        return trio.current_time() < self.stopped_until

    @property
    def is_listening(self) -> bool:
        return bool(self.listeners)

    def stop(self, seconds: float) -> None:
        """Stop the process for a time."""
        self.stopped_until = trio.current_time() + seconds

    def kill(self) -> None:
        """Cut off all its connections, and close its listeners."""
        self.is_dead = True
        for listener in self.listeners:
            listener.close()
        for end in self.ends:
            end.cut_off()
        self.listeners.clear()
        self.ends.clear()


class Network:
    """Listeners by name, and the connections between them and clients.

    Attributes:
        delays_s: each piece of bytes takes one of these times.
        splits: True to deliver bytes in pieces of any size.
        partitions: during each, from a time until another, nothing arrives and nobody connects.
        faults: what has happened.
    """

    def __init__(
        self,
        chance: Random,
        delays_s: Sequence[float] = (0.0,),
        *,
        splits: bool = False,
        partitions: Sequence[tuple[float, float]] = (),
    ) -> None:
        self.chance: Final = chance
        self.delays_s = delays_s
        self.splits = splits
        self.partitions = partitions
        self.faults: Final[Counter[str]] = Counter()
        self._listeners: dict[str, list[MemoryListener]] = {}
        self._ends: dict[MemoryStream, None] = {}

    def listen(self, name: str, host: Host | None = None) -> MemoryListener:
        """Let clients connect to ``name`` from now on: to one of its listeners, if there are more.

        Args:
            host: the process that listens; None for one that is never stopped alone.
        """
        listener = MemoryListener(self, name, host or Host())
        self._listeners.setdefault(name, []).append(listener)
        return listener

    def stop_listening(self, listener: MemoryListener) -> None:
        for listeners in self._listeners.values():
            if listener in listeners:
                listeners.remove(listener)

    async def connect(self, name: str, cut_after: int | None = None) -> MemoryStream:
        """Return the client's end of a new connection.

        Args:
            cut_after: the connection is cut after this many bytes in either direction.

        Raises:
            ConnectionRefusedError: nobody listens there.
        """
        await self.arrive(self.chance.choice(self.delays_s))
        listeners = self._listeners.get(name)
        if not listeners:
            raise ConnectionRefusedError(name)
        listener = listeners[0] if len(listeners) == 1 else self.chance.choice(listeners)
        ours, theirs = self.new_pair(cut_after, listener.host)
        listener.add(theirs)
        return ours

    def new_pair(
        self, cut_after: int | None = None, host: Host | None = None
    ) -> tuple[MemoryStream, MemoryStream]:
        """Return both ends of a connection; the second one is ``host``'s."""
        near, far = Host(), host or Host()
        to_near = _Pipe(self, cut_after, sender=far, receiver=near)
        to_far = _Pipe(self, cut_after, sender=near, receiver=far)
        to_near.other, to_far.other = to_far, to_near
        ends = MemoryStream(self, to_near, to_far, near), MemoryStream(self, to_far, to_near, far)
        self._ends.update(dict.fromkeys(ends))
        far.ends[ends[1]] = None
        return ends

    async def arrive(self, delay_s: float) -> None:
        """Wait for ``delay_s``, and for the end of a partition."""
        await trio.sleep(delay_s)
        while (end_s := self.partition_end()) is not None:
            self.faults["waits for a partition"] += 1
            await trio.sleep_until(end_s)

    def was_partitioned(self, since: float) -> bool:
        """Return True if nothing arrived for a part of the time since then."""
        now = trio.current_time()
        return any(begin <= now and end > since for begin, end in self.partitions)

    def partition_end(self) -> float | None:
        """Return when the partition ends that is there now, None without one."""
        now = trio.current_time()
        return max((end for begin, end in self.partitions if begin <= now < end), default=None)

    def forget(self, end: MemoryStream) -> None:
        self._ends.pop(end, None)

    @property
    def ends_open(self) -> int:
        """The number of ends of connections that nobody has closed."""
        return len(self._ends)


class _Pipe:
    """One direction of a connection."""

    def __init__(
        self, network: Network, cut_after: int | None, *, sender: Host, receiver: Host
    ) -> None:
        self.other: _Pipe
        self._sender = sender
        self._receiver = receiver
        self._network = network
        self._left = cut_after
        self._pieces: deque[tuple[float, bytes]] = deque()
        self._held = 0
        self._arrives_at = 0.0
        self._changed = trio.lowlevel.ParkingLot()
        self.is_ended = False
        self.is_cut = False
        self.is_abandoned = False
        """True once the receiver has closed its end."""

    def cut(self) -> None:
        """Let the receiver get what is under way, and then an error; send no more."""
        self.is_cut = True
        self._changed.unpark_all()

    def drop_unsent(self) -> None:
        """Lose what a stopped sender has not sent yet."""
        if self._sender.is_stopped:
            kept = [each for each in self._pieces if each[0] < self._sender.stopped_until]
            self._pieces = deque(kept)

    def end(self) -> None:
        self.is_ended = True
        self._changed.unpark_all()

    def abandon(self) -> None:
        self.is_abandoned = True
        self._changed.unpark_all()

    async def send(self, data: bytes) -> None:
        while self._held >= BUFFER_BYTES and not (self.is_cut or self.is_abandoned):
            await self._changed.park()
        if self.is_cut or self.is_abandoned or self.is_ended:
            raise trio.BrokenResourceError
        if self._left is not None:
            data, lost = data[: self._left], len(data) - self._left
            self._left -= len(data)
            if lost > 0:
                self._network.faults["connections cut"] += 1
                self._hold(data)
                self.cut()
                self.other.cut()
                return
        self._hold(data)

    def _hold(self, data: bytes) -> None:
        network = self._network
        if data:
            delay_s = network.chance.choice(network.delays_s)
            sent_at = max(trio.current_time(), self._sender.stopped_until)
            self._arrives_at = max(self._arrives_at, sent_at + delay_s)
            self._pieces.append((self._arrives_at, data))
            self._held += len(data)
            self._changed.unpark_all()

    async def receive(self, size: int) -> bytes:
        while True:
            if self.is_abandoned:
                raise trio.ClosedResourceError
            if self._receiver.is_stopped:
                with trio.move_on_at(self._receiver.stopped_until):
                    await self._changed.park()
                continue
            if self._pieces:
                ready_at = self._network.partition_end() or self._pieces[0][0]
                if trio.current_time() >= ready_at:
                    return self._take(size)
                with trio.move_on_at(ready_at):
                    await self._changed.park()
                continue
            if self.is_cut:
                raise trio.BrokenResourceError
            if self.is_ended:
                return b""
            await self._changed.park()

    def _take(self, size: int) -> bytes:
        at, data = self._pieces.popleft()
        size = min(size, len(data))
        if self._network.splits:
            size = self._network.chance.randint(1, size)
        if size < len(data):
            self._pieces.appendleft((at, data[size:]))
        self._held -= size
        self._changed.unpark_all()
        return data[:size]


class MemoryStream(trio.abc.HalfCloseableStream):
    """One end of a connection."""

    def __init__(self, network: Network, incoming: _Pipe, outgoing: _Pipe, host: Host) -> None:
        self._host = host
        self._network = network
        self._incoming = incoming
        self._outgoing = outgoing

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        return await self._incoming.receive(max_bytes or 65536)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._incoming.is_abandoned:
            raise trio.ClosedResourceError
        await self._outgoing.send(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        self._outgoing.end()
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self._incoming.abandon()
        self._outgoing.end()
        self._network.forget(self)
        self._host.ends.pop(self, None)
        await trio.lowlevel.checkpoint()

    def cut_off(self) -> None:
        """End both directions at once, as the kernel does for a process that is killed."""
        self._incoming.abandon()
        self._outgoing.drop_unsent()
        self._outgoing.cut()
        self._network.forget(self)


class MemoryListener(trio.abc.Listener[trio.abc.HalfCloseableStream]):
    """Accept the connections of one name."""

    def __init__(self, network: Network, name: str, host: Host) -> None:
        self._network = network
        self.name: Final = name
        self.host: Final = host
        host.listeners.append(self)
        self._waiting: deque[MemoryStream] = deque()
        self._changed = trio.lowlevel.ParkingLot()

    def add(self, stream: MemoryStream) -> None:
        self._waiting.append(stream)
        self._changed.unpark_all()

    async def accept(self) -> trio.abc.HalfCloseableStream:
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            await self._changed.park()
        return self._waiting.popleft()

    def close(self) -> None:
        self._network.stop_listening(self)
        for each in self._waiting:  # the kernel resets connections that nobody accepted
            each.cut_off()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()
