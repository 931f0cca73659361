"""The runtime of the blocking client: sockets whose waits block the thread."""

from __future__ import annotations

import math
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from types import TracebackType

from authorizerd_client.errors import TimedOutError
from authorizerd_client.protocol import RECEIVE_BYTES
from authorizerd_client.runtime import Event, Expired
from authorizerd_client.values import Address


class _Over(Exception):
    """A limit is over. It passes all blocks up to the one of its limit, as a cancellation would."""

    def __init__(self, limit: _Limit) -> None:
        super().__init__()
        self.limit = limit


class _Limit:
    def __init__(self, runtime: BlockingRuntime, deadline: float) -> None:
        self.deadline = deadline
        self._runtime = runtime

    async def __aenter__(self) -> None:
        self._outer = self._runtime.tightest
        if self.deadline < self._outer.deadline:
            self._runtime.tightest = self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._runtime.tightest = self._outer
        if isinstance(error, _Over) and error.limit is self:
            raise Expired from None

    @property
    def seconds_left(self) -> float | None:
        """Return how long the next step may block; None for no limit.

        Raises:
            _Over: there is no time left. (A socket's timeout of 0 would make it non-blocking.)
        """
        if self.deadline == math.inf:
            return None
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise _Over(self)
        return seconds


class _Turn:
    def __init__(self, runtime: BlockingRuntime, deadline: float) -> None:
        self._runtime = runtime
        self._deadline = deadline

    def __enter__(self) -> None:
        seconds = max(0.0, self._deadline - time.monotonic())
        if not self._runtime.turn.acquire(timeout=-1 if seconds == math.inf else seconds):
            raise TimedOutError("other threads used the connection until the time limit")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and not isinstance(error, Exception):
            # KeyboardInterrupt may be raised after bytes were received and before they are used.
            for stream in [*self._runtime.streams]:
                stream.close()
        self._runtime.turn.release()
        if self._runtime.closing.is_set():
            self._runtime.finish_if_idle()


def _open_socket(address: Address, seconds: float | None) -> socket.socket:
    if address.path is None:
        connected = socket.create_connection((address.host, address.port), seconds)
        # Otherwise a small frame may wait until the peer has acknowledged the one before.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.settimeout(seconds)
        connected.connect(address.path)
    except BaseException:
        connected.close()
        raise
    return connected


class _Stream:
    def __init__(self, runtime: BlockingRuntime, connected: socket.socket) -> None:
        self._runtime = runtime
        self._socket = connected
        # A socket with a timeout would make twice as many system calls.
        connected.setblocking(False)
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(connected, select.POLLIN)
        self._writable.register(connected, select.POLLOUT)

    async def send_all(self, data: bytes) -> None:
        sent = self._send(data)
        while sent < len(data):
            self._runtime.wait_for(self._writable)
            sent += self._send(memoryview(data)[sent:])

    async def receive(self) -> bytes:
        self._runtime.wait_for(self._readable)
        return self._socket.recv(RECEIVE_BYTES)

    def _send(self, data: bytes | memoryview) -> int:
        """Return how many bytes were sent; 0 if the socket's buffer is full."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    def shut_down(self) -> None:
        """End the connection while another thread may be using it."""
        with suppress(OSError):
            # Closing it would not wake a thread that is receiving.
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._runtime.streams.discard(self)
        self._socket.close()


class BlockingRuntime:
    """Blocking sockets behind coroutines that never suspend.

    Attributes:
        turn: the lock of the thread that is in a call. Only it may use what follows.
        tightest: the limit that ends first.
        streams: the open connections.
        closing: set, by any thread, once all calls are to end.
    """

    now = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.tightest = _Limit(self, math.inf)
        self.streams: set[_Stream] = set()
        self.closing = threading.Event()
        self._finish: Callable[[], None] | None = None

    def limit(self, deadline: float) -> _Limit:
        return _Limit(self, deadline)

    def take_turn(self, deadline: float) -> _Turn:
        return _Turn(self, deadline)

    def end_calls(self, finish: Callable[[], None]) -> None:
        self._finish = finish
        self.closing.set()
        for stream in [*self.streams]:
            stream.shut_down()
        self.finish_if_idle()

    def finish_if_idle(self) -> None:
        if self._finish is not None and self.turn.acquire(blocking=False):
            try:
                self._finish()
            finally:
                self.turn.release()

    async def sleep_until(self, moment: float) -> None:
        limit = self.tightest
        # Unlike `time.sleep`, this wait is ended by `end_calls`.
        self.closing.wait(max(0.0, min(moment, limit.deadline) - time.monotonic()))
        if limit.deadline < moment and not self.closing.is_set():
            raise _Over(limit)

    async def connect(self, address: Address) -> _Stream:
        limit = self.tightest
        try:
            connected = _open_socket(address, limit.seconds_left)
        except TimeoutError as error:
            if error.errno is None:
                raise _Over(limit) from None
            raise  # the operating system's limit was shorter
        stream = _Stream(self, connected)
        self.streams.add(stream)
        if self.closing.is_set():  # `end_calls` may not have seen the stream
            stream.close()
            raise OSError("the client was closed")
        return stream

    def wait_for(self, socket_is_ready: select.poll) -> None:
        """Block until a socket is ready, or the tightest limit is over."""
        limit = self.tightest
        seconds = limit.seconds_left
        if not socket_is_ready.poll(None if seconds is None else seconds * 1000):
            raise _Over(limit)

    def new_lock(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def new_event(self) -> Event:
        raise AssertionError("threads take turns, so no call waits for another")
