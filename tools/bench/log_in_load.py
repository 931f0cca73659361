"""Generate load with SCRAM log-ins: each connection logs in once and is closed.

It runs as a separate process. The password is salted only once, since the user's salt never
changes. So the load shows the server's work, not the client's.

    python -m tools.bench.log_in_load HOST:PORT MECHANISM USER PASSWORD CONNECTIONS SECONDS

``CONNECTIONS`` log in at a time. The time of one runs from before the TCP connection until the
client has checked the server's signature. A refused log-in ends the load.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from functools import cache
from time import perf_counter_ns
from typing import Final

import msgspec

from authorizerd.kafka_client.scram import ScramExchange, check_signature, new_nonce
from authorizerd.protocol.framing import SIZE_BYTES, frame
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.records.scram import ScramMechanism, salt_password
from tools.bench.closed_loop import LoadError, LoadReport, Stopwatch

STALLED_SECONDS: Final = 5.0

_VERSION: Final = 1
"""The version of both requests: the last one without compact strings."""
_RECEIVE_BYTES: Final = 4096

Conversation = Generator[bytes, bytes, None]
"""Yields frames to send, and gets the bodies of the answers."""

_salt = cache(salt_password)


def log_in(mechanism: ScramMechanism, user: str, password: str) -> Conversation:
    """Log in once.

    Raises:
        LoadError: the server refuses.
        ScramError: an answer is malformed, or its signature is wrong.
    """
    name = mechanism.text.encode()
    chosen = yield _request(ApiKey.SASL_HANDSHAKE, struct.pack(">h", len(name)) + name)
    _check(chosen)
    exchange = ScramExchange(mechanism, user, new_nonce())
    challenge = exchange.read_challenge(_token((yield _authenticate(exchange.first))))
    salted = _salt(mechanism, password, challenge.salt, challenge.iterations)
    proof = exchange.prove(challenge, salted)
    check_signature(proof, _token((yield _authenticate(proof.message))))


def _request(api_key: ApiKey, body: bytes) -> bytes:
    return frame(struct.pack(">hhih", api_key, _VERSION, 0, -1) + body)


def _authenticate(token: bytes) -> bytes:
    return _request(ApiKey.SASL_AUTHENTICATE, struct.pack(">i", len(token)) + token)


def _check(answer: bytes) -> None:
    """Raise LoadError if the answer, which begins with the correlation id, has an error code."""
    (code,) = struct.unpack_from(">h", answer, 4)
    if code:
        raise LoadError(f"a log-in is refused with error {code}: {answer[6:]!r}")


def _token(answer: bytes) -> bytes:
    _check(answer)
    # An error code of 0 is followed by a null message.
    (size,) = struct.unpack_from(">i", answer, 8)
    return answer[12 : 12 + size]


class _Connection:
    __slots__ = ("_conversation", "_received", "begun_ns", "socket")

    def __init__(self, address: tuple[str, int], conversation: Conversation) -> None:
        self.begun_ns: Final = perf_counter_ns()
        self.socket = socket.create_connection(address, STALLED_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._conversation = conversation
        self._received = b""
        self.socket.sendall(next(conversation))

    def goes_on(self) -> bool:
        """Receive, and send the next frame; return False once the client has logged in.

        Raises:
            LoadError: the server refuses, or has closed the connection.
        """
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise LoadError("the server closed a connection")
        self._received += data
        end = SIZE_BYTES + int.from_bytes(self._received[:SIZE_BYTES], "big")
        if len(self._received) < max(end, SIZE_BYTES):
            return True
        answer, self._received = self._received[SIZE_BYTES:end], self._received[end:]
        try:
            self.socket.sendall(self._conversation.send(answer))
        except StopIteration:
            return False
        return True


def drive(
    address: tuple[str, int],
    mechanism: ScramMechanism,
    user: str,
    password: str,
    *,
    connections: int,
    seconds: float,
) -> LoadReport:
    """Log in, again and again, for ``seconds``.

    Raises:
        LoadError, ScramError, OSError: a log-in failed.
    """
    stopwatch = Stopwatch(seconds)
    in_progress: dict[int, _Connection] = {}
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        stack.callback(_close, in_progress)
        while stopwatch.is_running:
            while len(in_progress) < connections:
                begun = _Connection(address, log_in(mechanism, user, password))
                in_progress[begun.socket.fileno()] = begun
                poll.register(begun.socket, select.EPOLLIN)
            ready = poll.poll(STALLED_SECONDS)
            if not ready:
                raise LoadError(f"no answer in {STALLED_SECONDS:.0f} s")
            for descriptor, _ in ready:
                connection = in_progress[descriptor]
                if connection.goes_on():
                    continue
                stopwatch.tick()
                stopwatch.record(connection.begun_ns)
                del in_progress[descriptor]
                connection.socket.close()
    return stopwatch.report()


def _close(in_progress: Mapping[int, _Connection]) -> None:
    for connection in in_progress.values():
        connection.socket.close()


def main() -> None:
    host, mechanism, user, password, connections, seconds = sys.argv[1:]
    name, _, port = host.rpartition(":")
    report = drive(
        (name, int(port)),
        ScramMechanism[mechanism],
        user,
        password,
        connections=int(connections),
        seconds=float(seconds),
    )
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
