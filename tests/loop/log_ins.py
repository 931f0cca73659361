"""Log-ins and TLS handshakes: complete exchanges, and the largest messages of failing ones."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import trio

from authorizerd.daemon.endpoints import ADMIN_HTTP, DECISION_HTTP, DECISION_STREAM, METRICS_HTTP
from authorizerd.daemon.net.connection import LOGIN_BYTES_MAX
from authorizerd.kafka_client.scram import ScramExchange, check_signature, new_nonce
from authorizerd.protocol.framing import frame
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.records.scram import ScramMechanism, salt_password
from tests.loop.running import CONTROLLER, PLAINTEXT, ROOT, SASL, Running

ENDPOINTS: Final = (
    DECISION_HTTP, DECISION_STREAM, ADMIN_HTTP, METRICS_HTTP, PLAINTEXT, SASL, CONTROLLER,
)  # fmt: skip
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 1
_LONG: Final = LOGIN_BYTES_MAX - 200
_RECORD: Final = b"\x16\x03\x01\x40\x00"
"""The head of a TLS record of 16 KiB with a part of a handshake."""


@dataclass(frozen=True)
class Handshake:
    """A new connection that does a TLS handshake, or sends ``data`` until the daemon closes it.

    If ``is_identified``, the client has a certificate.
    """

    endpoint: str
    name: str = "handshake"
    data: bytes = field(default=b"", repr=False)
    is_identified: bool = False

    def __str__(self) -> str:
        return f"TLS of {self.endpoint}: {self.name}"


@dataclass(frozen=True)
class ScramLogIn:
    """A log-in with SCRAM on a new connection; ``messages`` replace the client's own."""

    mechanism: ScramMechanism
    name: str = "log-in"
    user: str = ROOT
    password: str = ROOT
    first: bytes = field(default=b"", repr=False)
    final: bytes = field(default=b"", repr=False)

    def __str__(self) -> str:
        return f"{self.mechanism.text}: {self.name}"


def handshakes() -> Iterator[Handshake]:
    """Yield handshakes with each endpoint, and data that is not a handshake."""
    for endpoint in ENDPOINTS:
        yield Handshake(endpoint)
        yield Handshake(endpoint, "with a client's certificate", is_identified=True)
    for endpoint in (DECISION_HTTP, SASL):
        yield Handshake(endpoint, "not TLS", b"GET / HTTP/1.1\r\n" * 5_000)
        yield Handshake(endpoint, "an invalid client hello", _RECORD + bytes(1 << 14))
        hello = b"\x01" + (1 << 17).to_bytes(3, "big") + bytes(1 << 17)
        pieces = [hello[at : at + (1 << 14)] for at in range(0, len(hello) - (1 << 14), 1 << 14)]
        data = b"".join(_RECORD + piece for piece in pieces)
        yield Handshake(endpoint, "a client hello of 128 KiB", data)


def scram_log_ins() -> Iterator[ScramLogIn]:
    """Yield log-ins that succeed, and the longest messages of ones that fail."""
    for mechanism in ScramMechanism:
        yield ScramLogIn(mechanism)
        yield ScramLogIn(mechanism, "a wrong password", password="wrong")
        yield ScramLogIn(mechanism, "an unknown user", user="nobody")
        extensions = b",x=y" * (_LONG // 4)
        for name, first in (
            ("a long name", b"n,,n=" + b"a" * _LONG + b",r=b"),
            ("a long escaped name", b"n,,n=" + b"=2C" * (_LONG // 3) + b",r=b"),
            ("a long nonce", b"n,,n=root,r=" + b"a" * _LONG),
            ("many extensions", b"n,,n=root,r=b" + extensions),
            ("no first message", b"n,,n=root,r=b" + extensions + b",="),
        ):
            yield ScramLogIn(mechanism, name, first=first)
        for name, final in (
            ("a long proof", b"c=biws,r=b,p=" + b"a" * (_LONG // 4 * 4)),
            ("a second message with many extensions", b"c=biws,r=b" + extensions + b",p=YQ=="),
            ("no second message", b"c=biws,r=b" + extensions + b",p"),
        ):
            yield ScramLogIn(mechanism, name, final=final)


async def shake_hands(running: Running, plain: trio.SocketStream, played: Handshake) -> int:
    """Do the handshake, or send the data and read to the end; return the bytes received."""
    size = 0
    with suppress(trio.BrokenResourceError):
        if not played.data:
            await running.secure(plain, is_identified=played.is_identified)
            return size
        await plain.send_all(played.data)
        with suppress(OSError):  # the daemon may have closed the connection already
            await plain.send_eof()
        while data := await plain.receive_some():
            size += len(data)
    return size


async def log_in_with_scram(stream: trio.abc.Stream, played: ScramLogIn) -> int:
    """Log in until the daemon accepts or refuses; return the bytes received.

    Raises:
        ScramError: the daemon's answer to the right password is wrong.
    """
    mechanism = played.mechanism
    name = mechanism.text.encode()
    chosen = struct.pack(">h", len(name)) + name
    shaken = await ask(stream, ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, chosen)
    exchange = ScramExchange(mechanism, played.user, new_nonce())
    answer = await _send_token(stream, played.first or exchange.first)
    size = len(shaken) + len(answer)
    if played.first or not answer:
        return size
    challenge = exchange.read_challenge(answer)
    salted = _salt(mechanism, played.password, challenge.salt, challenge.iterations)
    proof = exchange.prove(challenge, salted)
    last = await _send_token(stream, played.final or proof.message)
    if (played.user, played.password, played.final) == (ROOT, ROOT, b""):
        check_signature(proof, last)
    return size + len(last)


_salt = cache(salt_password)


async def _send_token(stream: trio.abc.Stream, token: bytes) -> bytes:
    """Return the daemon's token; empty if it refuses, or closes the connection."""
    body = struct.pack(">i", len(token)) + token
    answer = await ask(stream, ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, body)
    if not answer or int.from_bytes(answer[4:6], "big"):
        return b""
    at = 6 + 2 + max(0, int.from_bytes(answer[6:8], "big", signed=True))
    length = int.from_bytes(answer[at : at + 4], "big")
    return answer[at + 4 : at + 4 + length]


async def ask(stream: trio.abc.Stream, api_key: ApiKey, version: int, body: bytes) -> bytes:
    """Send a request without a client id; return the answer, empty if the daemon closes."""
    received = bytearray()
    with suppress(trio.BrokenResourceError):
        await stream.send_all(frame(struct.pack(">hhih", api_key, version, 1, -1) + body))
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
            data = await stream.receive_some()
            if not data:
                return b""
            received += data
        return bytes(received[4:])
    return b""
