"""The socket and the clock of a lane.

**Invariant:** no call waits longer than its caller allows, and each error names the target.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from contextlib import ExitStack, suppress
from typing import Final

from authorizerd.protocol.errors import DecodeError
from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.surfaces import (
    Answer,
    HttpSurface,
    StreamSurface,
    Surface,
    check_welcome,
)
from authorizerd.replay.load.lanes.target import Target, new_context, parse_target, tls_reason
from authorizerd.replay.load.plan.questions import HTTP
from authorizerd.replay.plans import LoadPlan

CONNECT_SECONDS: Final = 10.0
_RECEIVE_BYTES: Final = 256 * 1024
_NOT_YET: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_TLS_ALERT: Final = b"\x15\x03"
_TLS_HINT: Final = b"this port expects TLS"
"""Part of the daemon's answer to a client without TLS over HTTP."""


def connect(plan: LoadPlan) -> tuple[socket.socket, Surface]:
    """Connect to the plan's target, and return once it has answered the greeting.

    Raises:
        LoadError: the target does not answer, or rejects this client; the text names the target.
    """
    target, tls = parse_target(plan), new_context(plan)
    is_http = plan.surface == HTTP
    surface = HttpSurface(target.host, plan.token) if is_http else StreamSurface(plan.token)
    with ExitStack() as stack:
        try:
            connected = stack.enter_context(_connected(target, tls))
            # A target that rejects the client's certificate may already have closed the connection,
            # but its alert has arrived.
            with suppress(ConnectionError, ssl.SSLEOFError):
                connected.sendall(surface.greeting())
            check_welcome(_receive_answer(connected, surface))
        except (LoadError, DecodeError, OSError) as error:
            raise LoadError(f"target {target.text}: {reason_of(error)}") from error
        connected.setblocking(False)
        stack.pop_all()
    return connected, surface


def _receive_answer(connected: socket.socket, surface: Surface) -> Answer:
    give_up = time.monotonic() + CONNECT_SECONDS
    while (answer := surface.next_answer()) is None:
        data = connected.recv(_RECEIVE_BYTES)
        if not data:
            raise LoadError("it closed the connection without an answer")
        is_plain = not isinstance(connected, ssl.SSLSocket)
        if is_plain and (data.startswith(_TLS_ALERT) or _TLS_HINT in data):
            raise LoadError("it expects TLS: use tls://HOST:PORT or https://HOST:PORT")
        # Each recv has its own time limit, so a trickle of bytes would never reach it.
        if time.monotonic() > give_up:
            raise LoadError(f"it did not answer within {CONNECT_SECONDS:g} s")
        surface.receive_data(data)
    return answer


def reason_of(error: Exception) -> str:
    """Return a short text for a connection error."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return tls_reason(error)
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    if isinstance(error, DecodeError):
        return f"its answer is not a frame: {error}"
    return str(error)


def _connected(target: Target, tls: ssl.SSLContext | None) -> socket.socket:
    if isinstance(target.address, tuple):
        connected = socket.create_connection(target.address, CONNECT_SECONDS)
        # Nagle's algorithm would hold a frame back and add to its latency.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # wrap_socket closes the socket if the handshake fails.
        return tls.wrap_socket(connected, server_hostname=target.address[0]) if tls else connected
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.settimeout(CONNECT_SECONDS)
        connected.connect(target.address)
    except OSError:
        connected.close()
        raise
    return connected


class SocketLine:
    """One connection, and a clock that counts from the load's start."""

    def __init__(self, connected: socket.socket, start_ns: int) -> None:
        self._socket = connected
        self._sockets = (connected,)
        self._start_ns = start_ns

    def now_ns(self) -> int:
        """Return the time since the start; it is negative before the start."""
        return time.monotonic_ns() - self._start_ns

    def send(self, data: bytes | memoryview) -> int:
        """Return the number of bytes that the socket accepted; 0 if its buffer is full."""
        try:
            return self._socket.send(data)
        except _NOT_YET:
            return 0

    def receive(self) -> bytes | None:
        """Return the received bytes; None if there are none yet, empty at the end of the stream."""
        try:
            return self._socket.recv(_RECEIVE_BYTES)
        except _NOT_YET:
            return None

    def wait(self, until_ns: int, *, to_send: bool) -> bool:
        """Wait until ``until_ns``, or until bytes arrive; with ``to_send``, also for buffer space.

        Return True if bytes have arrived.
        """
        seconds = max(0, until_ns - self.now_ns()) / 1e9
        writers = self._sockets if to_send else ()
        readable, _, _ = select.select(self._sockets, writers, (), seconds)
        return bool(readable)
