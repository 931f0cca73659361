"""A REST API that records what reaches it, and how its framework might read a request."""

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from tests.support.sockets import accepting

ANSWER: Final = b"the API's answer\n"
_HEAD: Final = f"HTTP/1.1 200 OK\r\nContent-Length: {len(ANSWER)}\r\n\r\n".encode()
_TARGETS: Final = ("x-original-url", "x-rewrite-url")
_OVERRIDES: Final = ("x-http-method-override", "x-http-method", "x-method-override")


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that has reached the API.

    Attributes:
        headers: all values by name, in lower case and with ``-`` for ``_`` and ``.``, which are the
            same to some frameworks.
    """

    method: str
    target: bytes
    headers: Mapping[str, tuple[str, ...]]

    def values(self, *names: str) -> list[str]:
        """Return all values of these headers."""
        return [value for name in names for value in self.headers.get(name, ())]


class Api:
    """An API at a port of 127.0.0.1 that answers every request with 200."""

    def __init__(self, port: int) -> None:
        self._port: Final = port
        self._seen: list[Seen] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serve until the end of the block."""
        with accepting(self._serve, self._port):
            yield

    def take(self) -> list[Seen]:
        """Return the requests that have reached it since the last call."""
        taken, self._seen = self._seen, []
        return taken

    def _serve(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            # For a target with https://, Caddy begins TLS here, and gives up.
            while (line := stream.readline()).count(b" ") == 2:
                method, target, _ = line.rstrip(b"\r\n").split(b" ")
                headers: dict[str, tuple[str, ...]] = {}
                while field := stream.readline().rstrip(b"\r\n"):
                    name, _, value = field.decode("latin-1").partition(":")
                    name = re.sub("[_.]", "-", name.lower())
                    headers[name] = (*headers.get(name, ()), value.strip())
                _skip_body(stream, headers)
                self._seen.append(Seen(method.decode(), target, headers))
                connection.sendall(_HEAD if method == b"HEAD" else _HEAD + ANSWER)


def _skip_body(stream: BinaryIO, headers: Mapping[str, tuple[str, ...]]) -> None:
    if "transfer-encoding" not in headers:
        stream.read(int(headers.get("content-length", ("0",))[0]))
        return
    while length := int(stream.readline(), 16):
        stream.read(length + 2)
    stream.readline()


def read_strictly(seen: Seen) -> tuple[str, list[str]]:
    """Return method and segments as HTTP has them: each segment is decoded once."""
    path = seen.target.partition(b"?")[0]
    return seen.method, [_to_text(each) for each in path.split(b"/")[1:]]


def read_leniently(seen: Seen) -> Iterator[tuple[str, list[str]]]:
    """Yield the methods and segments that lenient frameworks may see.

    They decode before they split, once or twice; take a backslash for a slash; leave out
    parameters, empty segments, dots and a fragment; and obey headers and a query that replace the
    target or the method.
    """
    query = seen.target.partition(b"?")[2].decode("latin-1").replace(";", "&")
    methods = {seen.method, *seen.values(*_OVERRIDES)}
    methods |= {value for key, value in parse_qsl(query) if key == "_method"}
    others = [value.encode("latin-1") for value in seen.values(*_TARGETS)]
    for target in (seen.target, *others):
        path = re.sub(rb"^https?://[^/]*", b"", re.split(rb"[?#]", target)[0])
        for decoded in (path, unquote_to_bytes(path), unquote_to_bytes(unquote_to_bytes(path))):
            for method in methods:
                yield method.upper(), _resolve(decoded)


def _resolve(path: bytes) -> list[str]:
    segments: list[str] = []
    for each in path.replace(b"\\", b"/").split(b"/"):
        name = _to_text(each.partition(b";")[0].partition(b"\0")[0])
        if name == "..":
            del segments[-1:]
        elif name not in ("", "."):
            segments.append(name)
    return segments


def _to_text(segment: bytes) -> str:
    return unquote_to_bytes(segment).decode("utf-8", "surrogateescape")


Question = tuple[str, str, str]
"""Operation, type and name of a resource."""


def questions_of(method: str, segments: Sequence[str]) -> set[Question]:
    """Return what this request does to Kafka; nothing if the API has no such path.

    The case of the words in a path does not count; that of names does.
    """
    words = [each.lower() if n % 2 == 0 else each for n, each in enumerate(segments)]
    match method, words:
        case _, ["public", _, *_]:
            return {("READ", "TOPIC", "ok-public")}
        case "GET", ["topics", topic]:
            return {("READ", "TOPIC", topic)}
        case "POST", ["topics", topic]:
            return {("WRITE", "TOPIC", topic)}
        case "DELETE", ["topics", topic]:
            return {("DELETE", "TOPIC", topic)}
        case "GET", ["consumers", group, "topics", topic]:
            return {("READ", "GROUP", group), ("READ", "TOPIC", topic)}
        case "GET", ["subjects", subject, "versions"] if subject.endswith("-value"):
            return {("READ", "TOPIC", subject.removesuffix("-value"))}
    return set()


ROUTES: Final = """\
routes:
  - GET /topics/{topic} -> READ TOPIC {topic}
  - POST /topics/{topic} -> WRITE TOPIC {topic}
  - DELETE /topics/{topic} -> DELETE TOPIC {topic}
  - GET /consumers/{group}/topics/{topic} -> READ GROUP {group}, READ TOPIC {topic}
  - GET /subjects/{topic}-value/versions -> READ TOPIC {topic}
  - GET|POST /public/** -> READ TOPIC ok-public
"""
"""The same as a table of the daemon's."""
