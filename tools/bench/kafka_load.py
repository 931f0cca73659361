"""Generate load with createAcls: several clients, each with one request in flight.

It runs as a separate process on raw sockets. Every request creates new ACLs, which differ from the
last ones by a number in their names, so that encoding costs almost nothing. Any answer but success
ends the load.

    python -m tools.bench.kafka_load HOST:PORT CLIENTS BINDINGS SECONDS PREFIX

The process prints ``begun`` when the warm-up is over, and the report as JSON at the end.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from contextlib import ExitStack
from itertools import count
from typing import Final

import msgspec

from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_client import (
    decode_create_acls_response,
    decode_describe_acls_response,
    encode_create_acls_request,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection
from tools.bench.closed_loop import LoadError, LoadReport, Stopwatch

VERSION: Final = 3
"""The newest version of both requests in Kafka 4.3."""

BEGUN: Final = b"begun\n"
STALLED_SECONDS: Final = 10.0
WARM_UP_SHARE: Final = 0.02
"""Small: a whole load precedes the timed ones."""

_CLIENT_ID: Final = "bench"
_RESPONSE_BYTES_MAX: Final = 100 << 20
_RECEIVE_BYTES: Final = 256 * 1024
_NUMBER: Final = "#" * 10
_PRINCIPAL: Final = "User:bench-update"
_EVERYTHING: Final = AclFilter(pattern_type=PatternType.ANY)


class Creations:
    """Makes bodies of createAcls, with ``bindings`` new ACLs in each."""

    def __init__(self, prefix: str, bindings: int) -> None:
        self._numbers: Final = count()
        acls = [_acl(f"{prefix}-{binding}-{_NUMBER}") for binding in range(bindings)]
        self._template: Final = encode_create_acls_request(VERSION, acls)
        self._bindings: Final = bindings
        self._success: bytes | bytearray | None = None

    def body(self) -> bytes:
        """Return a new body."""
        return self._template.replace(_NUMBER.encode(), b"%010d" % next(self._numbers))

    def check(self, response: bytes | bytearray) -> None:
        """Decode the first answer; the others must equal it.

        Raises:
            LoadError: an ACL was not created.
        """
        if response == self._success:
            return
        results = decode_create_acls_response(VERSION, response)
        if results != [None] * self._bindings:
            raise LoadError(f"createAcls was answered with {results[:1]}")
        # The number in an ACL's name does not occur in its answer, so all are equal.
        self._success = response


def _acl(name: str) -> Acl:
    return Acl(
        ResourceType.TOPIC,
        name,
        PatternType.LITERAL,
        _PRINCIPAL,
        WILDCARD,
        Operation.READ,
        PermissionType.ALLOW,
    )


class Client:
    """One connection to ``address`` (``host:port``)."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket: Final = socket.create_connection((host, int(port)), STALLED_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked_ns = 0
        self._connection: Final = KafkaClientConnection(_CLIENT_ID, _RESPONSE_BYTES_MAX)

    def close(self) -> None:
        self.socket.close()

    def send(self, api_key: ApiKey, body: bytes) -> None:
        frame = self._connection.frame_request(api_key, VERSION, body)
        self.asked_ns = time.perf_counter_ns()
        self.socket.sendall(frame)

    def take(self) -> bytes | bytearray | None:
        """Receive; return the answer's body if it is complete.

        Raises:
            LoadError: the server closed the connection.
            DecodeError: the bytes are not a valid answer.
        """
        data = self.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise LoadError("the server closed a connection")
        self._connection.receive_data(data)
        response = self._connection.next_response()
        return None if response is None else response.body

    def ask(self, api_key: ApiKey, body: bytes) -> bytes | bytearray:
        """Send a request and return the answer's body.

        Raises:
            LoadError, DecodeError, OSError: there is no valid answer.
        """
        self.send(api_key, body)
        while (answer := self.take()) is None:
            pass
        return answer


def create_acls(client: Client, prefix: str, acls: int, bindings: int) -> None:
    """Create ``acls`` ACLs, with ``bindings`` per request.

    Raises:
        LoadError, DecodeError, OSError: an ACL was not created.
    """
    creations = Creations(prefix, bindings)
    for _ in range(acls // bindings):
        creations.check(client.ask(ApiKey.CREATE_ACLS, creations.body()))


class Describes:
    """Describe all ACLs of a server that has ``acls``, and check each answer."""

    def __init__(self, client: Client, acls: int) -> None:
        self._client: Final = client
        self._acls: Final = acls
        self._body: Final = encode_describe_acls_request(VERSION, _EVERYTHING)
        self._last: bytes | bytearray = b""

    def time_one(self) -> int:
        """Return the nanoseconds until the whole answer has arrived.

        Raises:
            LoadError, DecodeError, OSError: the answer does not have all ACLs.
        """
        answer = self._client.ask(ApiKey.DESCRIBE_ACLS, self._body)
        taken_ns = time.perf_counter_ns() - self._client.asked_ns
        # Decoding takes longer than the answer, and most answers equal the last one.
        if answer != self._last:
            self._check(answer)
            self._last = answer
        return taken_ns

    def _check(self, answer: bytes | bytearray) -> None:
        described = decode_describe_acls_response(VERSION, answer)
        if not isinstance(described, list) or len(described) != self._acls:
            found = len(described) if isinstance(described, list) else described
            raise LoadError(f"describeAcls: expected {self._acls} ACLs, found {found}")


def drive(address: str, clients: int, bindings: int, seconds: float, prefix: str) -> LoadReport:
    """Create ACLs for ``seconds``.

    Raises:
        LoadError, DecodeError, OSError: the server does not answer as it should.
    """
    creations = Creations(prefix, bindings)
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        by_descriptor = {}
        for _ in range(clients):
            client = Client(address)
            stack.enter_context(client.socket)
            poll.register(client.socket, select.EPOLLIN)
            by_descriptor[client.socket.fileno()] = client
        stopwatch = Stopwatch(seconds, WARM_UP_SHARE)
        for client in by_descriptor.values():
            client.send(ApiKey.CREATE_ACLS, creations.body())
        has_begun = False
        while stopwatch.is_running:
            if not has_begun and stopwatch.is_warm:
                has_begun = True
                _print(BEGUN)
            ready = poll.poll(STALLED_SECONDS)
            if not ready:
                raise LoadError(f"no answer in {STALLED_SECONDS:.0f} s")
            for descriptor, _ in ready:
                client = by_descriptor[descriptor]
                if (answer := client.take()) is None:
                    continue
                stopwatch.tick()
                # After the tick, so that checking does not add to this answer's time.
                creations.check(answer)
                stopwatch.record(client.asked_ns)
                client.send(ApiKey.CREATE_ACLS, creations.body())
    return stopwatch.report()


def _print(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def main() -> None:
    address, clients, bindings, seconds, prefix = sys.argv[1:]
    try:
        report = drive(address, int(clients), int(bindings), float(seconds), prefix)
    except (LoadError, DecodeError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    _print(msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
