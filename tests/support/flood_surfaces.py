"""The requests of floods: for each interface a normal request and the worst ones."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final

from authorizerd.acl.model import AclFilter, Question
from authorizerd.acl.steps import finish
from authorizerd.config.configuration import Configuration
from authorizerd.protocol.decisions.stream import StreamClientConnection, StreamQuestion
from authorizerd.protocol.framing import SIZE_BYTES
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.client_connection import KafkaClientConnection
from authorizerd.protocol.kafka.messages import encode_request
from tools.bench import protocols
from tools.bench.protocols import post

HTTP: Final = "decision_http"
STREAM: Final = "decision_stream"
ADMIN: Final = "admin_http"
KAFKA: Final = "PLAINTEXT"

OPA: Final = "OPA's API"
"""The name of an interface; the constants above name endpoints."""

_BYTES_MAX: Final = 64 * 1024 * 1024
_JSON: Final = "Content-Type: application/json"
_STREAM_QUESTIONS: Final = 1000
_EVALUATIONS: Final = 1000
_VERSIONS: Final = {ApiKey.DESCRIBE_CLUSTER: 1, ApiKey.DESCRIBE_ACLS: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """An interface, and requests to it.

    ``request`` is small. ``costly`` has the largest answer. ``largest`` is as large as the
    limit allows, ``oversized`` exceeds it. ``endless`` has pairs: the beginning of a request, and
    the bytes to repeat after it. ``protocol`` is that of the answers.
    """

    name: str
    endpoint: str
    opening: bytes
    request: bytes
    costly: bytes
    largest: bytes
    oversized: bytes
    endless: tuple[tuple[bytes, bytes], ...]
    protocol: str


def surfaces(
    configuration: Configuration, question: Question, hosts: dict[str, str]
) -> list[Surface]:
    """Return every interface of a daemon; ``hosts`` has its addresses by endpoint."""
    return [
        _authzen(configuration, question, hosts[HTTP]),
        _opa(configuration, question, hosts[HTTP]),
        _stream(configuration, question),
        _kafka(configuration),
        _admin(hosts[ADMIN]),
    ]


def _endless_heads(host: str, path: str) -> tuple[tuple[bytes, bytes], ...]:
    start = f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{_JSON}\r\n".encode()
    # Chunk sizes are hexadecimal: 400 is 1,024 bytes.
    chunk = b"400\r\n" + b" " * 1024 + b"\r\n"
    return (
        (start, b"X-More: and more\r\n"),
        (start + b"Transfer-Encoding: chunked\r\n\r\n", chunk),
    )


def _too_long(host: str, path: str, length: int) -> bytes:
    # Without a body: the daemon must reject the announced length alone.
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{_JSON}\r\nContent-Length: {length}\r\n\r\n"
    return head.encode()


def _filled(body: dict[str, object], size: int) -> bytes:
    """Return ``body`` as JSON of exactly ``size`` bytes."""
    bare = len(json.dumps({**body, "filler": ""}).encode())
    return json.dumps({**body, "filler": "x" * (size - bare)}).encode()


def _authzen(configuration: Configuration, question: Question, host: str) -> Surface:
    one: dict[str, object] = {
        "subject": {"type": "user", "id": question.principal.removeprefix("User:")},
        "action": {"name": "READ"},
        "resource": {"type": "topic", "id": question.resource_name},
    }
    path, limit = "/access/v1/evaluation", configuration.http_request_max_bytes
    return Surface(
        name="AuthZEN",
        endpoint=HTTP,
        opening=b"",
        request=post(host, path, json.dumps(one).encode()),
        costly=post(
            host, f"{path}s", json.dumps({**one, "evaluations": [{}] * _EVALUATIONS}).encode()
        ),
        largest=post(host, path, _filled(one, limit)),
        oversized=_too_long(host, path, limit + 1),
        endless=_endless_heads(host, path),
        protocol=protocols.HTTP,
    )


def _opa(configuration: Configuration, question: Question, host: str) -> Surface:
    one: dict[str, object] = {
        "input": {
            "action": {
                "operation": "READ",
                "resourcePattern": {
                    "name": question.resource_name,
                    "patternType": "LITERAL",
                    "resourceType": "TOPIC",
                },
            },
            "requestContext": {
                "clientAddress": "127.0.0.1",
                "principal": {"principalType": "User", "name": question.principal[5:]},
            },
        }
    }
    path, limit = "/v1/data/kafka/authz/allow", configuration.http_request_max_bytes
    request = post(host, path, json.dumps(one).encode())
    return Surface(
        name=OPA,
        endpoint=HTTP,
        opening=b"",
        request=request,
        # The API answers one question at a time, so no answer is large.
        costly=request,
        largest=post(host, path, _filled(one, limit)),
        oversized=_too_long(host, path, limit + 1),
        endless=_endless_heads(host, path),
        protocol=protocols.HTTP,
    )


def _admin(host: str) -> Surface:
    get = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    limit = 4096
    return Surface(
        name="admin HTTP",
        endpoint=ADMIN,
        opening=b"",
        request=get,
        costly=get.replace(b"/healthz", b"/metrics"),
        largest=post(host, "/metrics", b"x" * limit),
        oversized=_too_long(host, "/metrics", limit + 1),
        endless=_endless_heads(host, "/metrics"),
        protocol=protocols.HTTP,
    )


def _stream(configuration: Configuration, question: Question) -> Surface:
    connection = StreamClientConnection(_BYTES_MAX)
    limit = configuration.stream_frame_max_bytes
    asked: StreamQuestion = (question.principal, None, 3, 2, question.resource_name)
    shortest: StreamQuestion = ("a:", None, 3, 2, "b")
    # A question takes 9 bytes; counting 10 leaves room for the frame's head.
    largest = connection.ask(1, [shortest] * (limit // 10))
    assert len(largest) <= limit + SIZE_BYTES
    return Surface(
        name="decision stream",
        endpoint=STREAM,
        opening=connection.hello(),
        request=connection.ask(1, [asked]),
        costly=connection.ask(1, [asked] * _STREAM_QUESTIONS),
        largest=largest,
        oversized=(limit + 1).to_bytes(SIZE_BYTES, "big"),
        endless=((limit.to_bytes(SIZE_BYTES, "big"), b"\xc0" * 1024),),
        protocol=protocols.STREAM,
    )


def _kafka(configuration: Configuration) -> Surface:
    limit = configuration.socket_request_max_bytes
    describe = _framed(ApiKey.DESCRIBE_ACLS, {"filter": AclFilter(), "offset": None})
    return Surface(
        name="Kafka listener",
        endpoint=KAFKA,
        opening=b"",
        request=_framed(
            ApiKey.DESCRIBE_CLUSTER,
            {"include_cluster_authorized_operations": False, "endpoint_type": 1},
        ),
        costly=describe,
        # Bytes after a request's fields are ignored, as in Kafka.
        largest=limit.to_bytes(SIZE_BYTES, "big") + describe[SIZE_BYTES:].ljust(limit, b"\0"),
        oversized=(limit + 1).to_bytes(SIZE_BYTES, "big"),
        endless=((limit.to_bytes(SIZE_BYTES, "big"), b"\0" * 1024),),
        protocol=protocols.KAFKA,
    )


def _framed(api_key: ApiKey, fields: Mapping[str, object]) -> bytes:
    version = _VERSIONS[api_key]
    body = finish(encode_request(api_key, version, SimpleNamespace(**fields)))
    return KafkaClientConnection("flood", _BYTES_MAX).frame_request(api_key, version, body)
