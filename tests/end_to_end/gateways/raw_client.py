"""A client that sends any bytes to a gateway, many requests before it reads the answers."""

import socket
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO, Final

SECONDS_MAX: Final = 30.0
_PIPELINED: Final = 32
"""Few enough that requests and answers fit into the buffers of both sides."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; the status is 0 if the gateway closed the connection without one."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


NONE: Final = Reply(0, {})


def send_all(address: str, requests: Sequence[bytes]) -> list[Reply]:
    """Return the answer to each request; after the gateway has closed, go on with the next one."""
    replies: list[Reply] = []
    while len(replies) < len(requests):
        replies += _send(address, requests[len(replies) :][: 50 * _PIPELINED]) or [NONE]
    return replies


def send(address: str, request: bytes) -> Reply:
    return send_all(address, [request])[0]


def _send(address: str, requests: Sequence[bytes]) -> list[Reply]:
    """Return the answers on one connection until it ends."""
    host, _, port = address.rpartition(":")
    replies: list[Reply] = []
    connection = socket.create_connection((host, int(port)), SECONDS_MAX)
    with closing(connection), connection.makefile("rb") as stream:
        for start in range(0, len(requests), _PIPELINED):
            batch = requests[start : start + _PIPELINED]
            try:
                connection.sendall(b"".join(batch))
                for request in batch:
                    replies.append(_receive(stream, request))
                    if replies[-1].headers.get("connection", "").lower() == "close":
                        return replies
            except (ConnectionError, EOFError):
                return replies
    return replies


def _receive(stream: BinaryIO, request: bytes) -> Reply:
    line = stream.readline()
    if not line:
        raise EOFError
    status, headers = int(line.split(b" ", 2)[1]), {}
    while field := stream.readline().strip().decode("latin-1"):
        name, _, value = field.partition(":")
        headers[name.lower()] = value.strip()
    if status < 200:
        return _receive(stream, request)
    if request.startswith(b"HEAD ") or status in (204, 304):
        return Reply(status, headers)
    if "content-length" in headers:
        return Reply(status, headers, stream.read(int(headers["content-length"])))
    if "transfer-encoding" not in headers:
        return Reply(status, headers | {"connection": "close"}, stream.read())
    body = b""
    while length := int(stream.readline(), 16):
        body += stream.read(length)
        stream.readline()
    stream.readline()
    return Reply(status, headers, body)
