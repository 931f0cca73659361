"""The target of a lane, its TLS, the socket and the clock.

**Invariant:** no call waits longer than its caller allows, and each error names the target. A
target with TLS is never reached without it, and its certificate and host name are always checked.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from contextlib import ExitStack, suppress
from typing import Final

import msgspec

from authorizerd.protocol.errors import DecodeError
from authorizerd.replay.errors import LoadError
from authorizerd.replay.load.surfaces import HTTP, STREAM, SURFACES, Answer, Surface, check_welcome
from authorizerd.replay.plans import LoadPlan

TLS_FILES: Final = ("cafile", "cert", "key")
"""The fields of a plan that are paths of TLS files."""
_UNIX_PREFIX: Final = "unix:"
_TLS_PREFIXES: Final = {STREAM: "tls://", HTTP: "https://"}
"""The scheme of a target with TLS, by surface."""
_EXPECTED: Final = {
    STREAM: "HOST:PORT, tls://HOST:PORT or unix:PATH",
    HTTP: "HOST:PORT or https://HOST:PORT",
}
_PORT_MAX: Final = 65535
_UNKNOWN_CA: Final = (18, 19, 20, 21)
"""OpenSSL's X509_V_ERR codes for certificates that no trusted CA has signed."""
CONNECT_SECONDS: Final = 10.0
_RECEIVE_BYTES: Final = 256 * 1024
_NOT_YET: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_TLS_ALERT: Final = b"\x15\x03"
_TLS_HINT: Final = b"this port expects TLS"
"""Part of the daemon's answer to a client without TLS over HTTP."""


class Target(msgspec.Struct, frozen=True):
    """An address: host and port, or the path of a Unix socket. ``text`` is as the user wrote it."""

    text: str
    address: tuple[str, int] | str
    is_tls: bool = False

    @property
    def host(self) -> str:
        """An HTTP target as in the header Host."""
        return self.text.removeprefix(_TLS_PREFIXES[HTTP])


def parse_target(plan: LoadPlan) -> Target:
    """Return the target of a plan. Files are not read.

    Raises:
        LoadError: it is not a target of the plan's surface, or a TLS option would have no effect.
    """
    text, surface = plan.target, plan.surface
    prefix = _TLS_PREFIXES[surface]
    host, _, port = text.removeprefix(prefix).rpartition(":")
    is_port = port.isascii() and port.isdigit() and 0 < int(port) <= _PORT_MAX
    if surface == STREAM and text.startswith(_UNIX_PREFIX) and len(text) > len(_UNIX_PREFIX):
        target = Target(text, text.removeprefix(_UNIX_PREFIX))
    elif host and "/" not in host and is_port and not text.startswith(_UNIX_PREFIX):
        # An IPv6 address is written in brackets.
        target = Target(text, (host.strip("[]"), int(port)), is_tls=text.startswith(prefix))
    else:
        raise LoadError(
            f"target {text!r}: expected {_EXPECTED[surface]}, since the surface is {surface}"
        )
    given = [name for name in TLS_FILES if getattr(plan, name) is not None]
    if given and not target.is_tls:
        raise LoadError(
            f"{given[0]}: has no effect, because the target {text!r} has no TLS: "
            f"expected {prefix}HOST:PORT"
        )
    if plan.key is not None and plan.cert is None:
        raise LoadError("key: has no effect without cert")
    return target


def new_context(plan: LoadPlan) -> ssl.SSLContext | None:
    """Return the TLS context for a plan's connections, or None if its target has no TLS.

    Raises:
        LoadError: a file cannot be read or used; the text names it.
    """
    if not parse_target(plan).is_tls:
        return None
    try:
        context = ssl.create_default_context(cafile=plan.cafile)
    except OSError as error:
        wanted = "expected certificates in PEM" if isinstance(error, ssl.SSLError) else None
        raise LoadError(f"cafile {plan.cafile}: {wanted or error.strerror}") from None
    if plan.cert is not None:
        files = plan.cert if plan.key is None else f"{plan.cert}, key {plan.key}"
        try:
            # Without a password, OpenSSL would ask the terminal for one.
            context.load_cert_chain(plan.cert, plan.key, password="")
        except ssl.SSLError:
            raise LoadError(
                f"cert {files}: expected a certificate chain and its key in PEM, without a password"
            ) from None
        except OSError as error:
            raise LoadError(f"cert {files}: {error.strerror}") from None
    return context


def tls_reason(error: ssl.SSLError) -> str:
    """Return the reason why a TLS connection failed, and the remedy."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = ": name its CA with --cafile" if error.verify_code in _UNKNOWN_CA else ""
        return f"its certificate is rejected: {error.verify_message}{remedy}"
    reason = error.reason or str(error)
    if reason == "WRONG_VERSION_NUMBER":
        return "it does not speak TLS: use HOST:PORT"
    if reason == "UNEXPECTED_EOF_WHILE_READING":
        return "it closed the connection: if it does not speak TLS, use HOST:PORT"
    _, is_alert, alert = reason.partition("ALERT_")
    if alert in ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE"):
        return "it refuses the handshake: if it requires a client certificate, use --cert and --key"
    words = (alert or reason).lower().replace("_", " ")
    return f"it refuses the client certificate: {words}" if is_alert else f"TLS failed: {words}"


def connect(plan: LoadPlan, seconds: float = CONNECT_SECONDS) -> tuple[socket.socket, Surface]:
    """Connect to the plan's target, and return once it has answered the greeting.

    Each step may take ``seconds``.

    Raises:
        LoadError: the target does not answer, or rejects this client; the text names the target.
    """
    target, tls = parse_target(plan), new_context(plan)
    surface = SURFACES[plan.surface](target.host, plan.token)
    with ExitStack() as stack:
        try:
            connected = stack.enter_context(_connected(target, tls, seconds))
            # A target that rejects the client's certificate may already have closed the connection,
            # but its alert has arrived.
            with suppress(ConnectionError, ssl.SSLEOFError):
                connected.sendall(surface.greeting())
            check_welcome(_receive_answer(connected, surface, seconds))
        except (LoadError, DecodeError, OSError) as error:
            raise LoadError(f"target {target.text}: {reason_of(error)}") from error
        connected.setblocking(False)
        stack.pop_all()
    return connected, surface


def _receive_answer(connected: socket.socket, surface: Surface, seconds: float) -> Answer:
    give_up = time.monotonic() + seconds
    while (answer := surface.next_answer()) is None:
        data = connected.recv(_RECEIVE_BYTES)
        if not data:
            raise LoadError("it closed the connection without an answer")
        is_plain = not isinstance(connected, ssl.SSLSocket)
        if is_plain and (data.startswith(_TLS_ALERT) or _TLS_HINT in data):
            raise LoadError("it expects TLS: use tls://HOST:PORT or https://HOST:PORT")
        # Each recv has its own time limit, so a trickle of bytes would never reach it.
        if time.monotonic() > give_up:
            raise LoadError(f"it did not answer within {seconds:g} s")
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


def _connected(target: Target, tls: ssl.SSLContext | None, seconds: float) -> socket.socket:
    if isinstance(target.address, tuple):
        connected = socket.create_connection(target.address, seconds)
        # Nagle's algorithm would hold a frame back and add to its latency.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # wrap_socket closes the socket if the handshake fails.
        return tls.wrap_socket(connected, server_hostname=target.address[0]) if tls else connected
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.settimeout(seconds)
        connected.connect(target.address)
    except OSError:
        connected.close()
        raise
    return connected


class SocketLine:
    """A connection that can be made again, and a clock that counts from the load's start."""

    def __init__(self, plan: LoadPlan, connected: socket.socket, start_ns: int = 0) -> None:
        self._plan = plan
        self._socket = connected
        self._sockets = (connected,)
        self._start_ns = start_ns

    def start_at(self, start_ns: int) -> None:
        """Let the clock count from a time of ``time.monotonic_ns``."""
        self._start_ns = start_ns

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def reopen(self, seconds: float) -> Surface:
        """Replace the connection by a new one, as ``connect``; a failure leaves it closed.

        Raises:
            LoadError: the target does not answer; the text says why.
        """
        self._socket.close()
        self._socket, surface = connect(self._plan, min(seconds, CONNECT_SECONDS))
        self._sockets = (self._socket,)
        return surface

    def pause(self, span_ns: int) -> None:
        """Wait without a connection."""
        time.sleep(span_ns / 1e9)

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
