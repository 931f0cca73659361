"""Read the answers of each protocol as a client receives them: one outcome for each request."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Generator, Iterator
from functools import cache, lru_cache
from typing import Final, Protocol

from authorizerd.kafka_client.scram import ScramExchange, check_signature, new_nonce
from authorizerd.protocol.decisions.stream import StreamClientConnection
from authorizerd.protocol.framing import Frames, frame
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_describe_acls_response,
)
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from authorizerd.protocol.records.scram import ScramMechanism, salt_password
from tools.bench.figures import MeasurementError

ANSWERED: Final = "answered"
HTTP, STREAM, KAFKA = "http", "stream", "kafka"
CREATE_ACLS, DESCRIBE_ACLS = "createAcls", "describeAcls"
ACLS_VERSION: Final = 3
"""The newest version of both requests in Kafka 4.3."""
RESPONSE_HEAD_BYTES: Final = 5
"""A correlation id and no tags."""

_BYTES_MAX: Final = 1 << 30
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_ERRORS: Final = {int(error): error.name for error in ErrorCode} | {0: ANSWERED}


class Reader(Protocol):
    """Reads the answers of one connection."""

    def feed(self, data: bytes) -> Iterator[str | bytes]:
        """Yield the outcome of each complete answer, and bytes to send before the next one."""


class HttpReader:
    """An outcome is a status, and 200 is ``ANSWERED``. Bodies are skipped as they arrive."""

    def __init__(self) -> None:
        self._kept, self._outcome = b"", ""
        self._left, self._is_chunked = 0, False

    def feed(self, data: bytes) -> Iterator[str | bytes]:
        data = self._kept + data if self._kept else data
        while data or (self._outcome and not self._left and not self._is_chunked):
            if self._left:
                skipped = min(self._left, len(data))
                self._left -= skipped
                data = data[skipped:]
            elif self._outcome and not self._is_chunked:
                yield self._outcome
                self._outcome = ""
            else:
                line, end, rest = data.partition(b"\r\n" if self._is_chunked else b"\r\n\r\n")
                if not end:
                    break
                data = rest
                if not self._is_chunked:
                    self._outcome, self._left, self._is_chunked = _parse_head(line)
                elif line:  # an empty line ends each chunk, and a chunk of no bytes ends the body
                    size = int(line, 16)
                    self._left, self._is_chunked = size or 2, bool(size)
        self._kept = data


# A server repeats the same heads, and parsing each one would cost more than a request.
@lru_cache(maxsize=1024)
def _parse_head(head: bytes) -> tuple[str, int, bool]:
    """Return the outcome, the length of the body, and whether the body is chunked instead."""
    status, found = head[9:12].decode(errors="replace"), _LENGTH.search(head)
    length = 0 if found is None else int(found[1])
    return ANSWERED if status == "200" else status, length, bool(_CHUNKED.search(head))


class StreamReader:
    """An outcome is an error of a frame; accepted hellos have none."""

    def __init__(self) -> None:
        self._connection = StreamClientConnection(_BYTES_MAX)
        self._is_greeted = False

    def feed(self, data: bytes) -> Iterator[str | bytes]:
        self._connection.receive_data(data)
        if not self._is_greeted:
            if (greeting := self._connection.next_greeting()) is None:
                return
            self._is_greeted = True
            if greeting.error_code:
                yield _ERRORS[greeting.error_code]
        while (answer := self._connection.next_answer()) is not None:
            yield _ERRORS[answer.error_code]


class KafkaReader:
    """Reads whole responses. ``check`` decodes a body, unless it equals the previous one."""

    def __init__(self, check: Callable[[bytes], object] | None = None) -> None:
        self._frames, self._check, self._good = Frames(), check, b""

    def feed(self, data: bytes) -> Iterator[str | bytes]:
        self._frames.receive_data(data)
        while (response := self._frames.next(_BYTES_MAX)) is not None:
            if self._check is not None and response[RESPONSE_HEAD_BYTES:] != self._good:
                self._good = bytes(response[RESPONSE_HEAD_BYTES:])
                self._check(self._good)
            yield ANSWERED


def check_created(body: bytes) -> None:
    """Raise MeasurementError unless every ACL was created."""
    results = decode_create_acls_response(ACLS_VERSION, body)
    if failed := [each for each in results if each is not None]:
        raise MeasurementError(f"createAcls was answered with {failed[:1]}")


def count_described(body: bytes) -> int:
    """Return the number of ACLs in an answer to describeAcls, which must have some."""
    described = decode_describe_acls_response(ACLS_VERSION, body)
    if not isinstance(described, list) or not described:
        raise MeasurementError(f"describeAcls was answered with {described!r}")
    return len(described)


class ScramReader:
    """A whole SCRAM exchange, whose first frame (``scram_opening``) was already sent."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self._frames = Frames()
        self._conversation = _log_in(ScramMechanism[mechanism], user, password)
        next(self._conversation)

    def feed(self, data: bytes) -> Iterator[str | bytes]:
        self._frames.receive_data(data)
        while (response := self._frames.next(_BYTES_MAX)) is not None:
            yield self._conversation.send(bytes(response))


_salt = cache(salt_password)
"""Cached: the user's salt never changes, and only the server's work should be measured."""


def _log_in(
    mechanism: ScramMechanism, user: str, password: str
) -> Generator[bytes | str, bytes, None]:
    _token((yield b""))
    exchange = ScramExchange(mechanism, user, new_nonce())
    challenge = exchange.read_challenge(_token((yield _authenticate(exchange.first))))
    salted = _salt(mechanism, password, challenge.salt, challenge.iterations)
    proof = exchange.prove(challenge, salted)
    check_signature(proof, _token((yield _authenticate(proof.message))))
    yield ANSWERED


def scram_opening(mechanism: ScramMechanism) -> bytes:
    """Return the first frame of a login."""
    name = mechanism.text.encode()
    return _framed(ApiKey.SASL_HANDSHAKE, struct.pack(">h", len(name)) + name)


def _framed(api_key: ApiKey, body: bytes) -> bytes:
    # Version 1 of both requests is the last one without compact strings.
    return frame(struct.pack(">hhih", api_key, 1, 0, -1) + body)


def _authenticate(token: bytes) -> bytes:
    return _framed(ApiKey.SASL_AUTHENTICATE, struct.pack(">i", len(token)) + token)


def _token(answer: bytes) -> bytes:
    """Return the token of an answer: after an error code of 0 and a null message."""
    code, _, size = struct.unpack_from(">hhi", answer, 4)
    if code:
        raise MeasurementError(f"a login was refused with error {code}: {answer[6:]!r}")
    return answer[12 : 12 + size]


_READERS: Final[dict[str, Callable[..., Reader]]] = {
    HTTP: HttpReader,
    STREAM: StreamReader,
    KAFKA: KafkaReader,
    CREATE_ACLS: lambda: KafkaReader(check_created),
    DESCRIBE_ACLS: lambda: KafkaReader(count_described),
    "scram": ScramReader,
}


def reader_of(protocol: str) -> Reader:
    """Return a reader for a protocol, named with arguments after colons."""
    name, *arguments = protocol.split(":")
    return _READERS[name](*arguments)


def post(host: str, path: str, body: bytes, token: str = "", request_id: str = "") -> bytes:
    """Return the bytes of a POST of JSON on a persistent connection."""
    more = f"Authorization: Bearer {token}\r\n" if token else ""
    more += f"X-Request-ID: {request_id}\r\n" if request_id else ""
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
