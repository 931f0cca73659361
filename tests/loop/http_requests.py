"""The largest and deepest HTTP requests that are allowed, and the most at once, for every path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from authorizerd.config.own_keys import OWN_KEYS
from authorizerd.config.routes.questions import QUESTIONS_MAX
from authorizerd.config.routes.table import ROUTES_MAX
from authorizerd.daemon.decisions.opa import DATA_PATH, HEALTH_PATH
from authorizerd.daemon.decisions.route_file import FORWARD_PATH
from authorizerd.daemon.endpoints import ADMIN_HTTP, DECISION_HTTP
from authorizerd.daemon.http.api_document import OPENAPI_PATH
from authorizerd.daemon.queries.acl_list import ACLS_PATH
from authorizerd.daemon.queries.question_surface import EXPLAIN_PATH, HISTORY_PATH
from authorizerd.protocol.decisions.authzen_batches import EVALUATIONS_MAX
from authorizerd.protocol.decisions.discovery import (
    DISCOVERY_PATH,
    EVALUATION_PATH,
    EVALUATIONS_PATH,
    SEARCH_PATHS,
)
from tests.support.sizes import size

BODY_BYTES: Final = next(
    int(str(key.default)) for key in OWN_KEYS if key.name == "authorizerd.http.request.max.bytes"
)
PIPELINED: Final = size(50, 200)
CHUNKS: Final = 3000
OPA_PATH: Final = f"{DATA_PATH}/kafka/authz/allow"
ADMIN_PATHS: Final = ("/metrics", "/healthz", "/readyz", OPENAPI_PATH)
PATHS: Final = (
    EVALUATION_PATH,
    EVALUATIONS_PATH,
    *SEARCH_PATHS,
    EXPLAIN_PATH,
    HISTORY_PATH,
    DISCOVERY_PATH,
    OPA_PATH,
    HEALTH_PATH,
    ACLS_PATH,
    *ADMIN_PATHS,
)


@dataclass(frozen=True)
class HttpRequest:
    """One or more requests; the last one closes the connection."""

    endpoint: str
    name: str
    data: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"{self.endpoint} {self.name}"


def post(path: str, body: bytes, *headers: str, token: str = "", close: bool = True) -> bytes:
    """Return a POST request with a JSON body."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return _head(lines, token, close) + body


def get(path: str, *headers: str, token: str = "", close: bool = True) -> bytes:
    return _head([f"GET {path} HTTP/1.1", "Host: localhost", *headers], token, close)


def _head(lines: list[str], token: str, close: bool) -> bytes:
    if token:
        lines = [*lines, f"Authorization: Bearer {token}"]
    if close:
        lines = [*lines, "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode()


def evaluation(
    number: int = 0, *, name: str = "topic-", user: str = "alice", host: str | None = "10.0.0.1"
) -> dict[str, object]:
    asked: dict[str, object] = {
        "subject": {"type": "user", "id": user},
        "action": {"name": "READ"},
        "resource": {"type": "topic", "id": f"{name}{number}"},
    }
    if host is not None:
        asked["context"] = {"host": host}
    return asked


def opa_question(
    name: str = "topic-1", *, pattern_type: str = "LITERAL", operation: str = "READ"
) -> dict[str, object]:
    return {
        "input": {
            "requestContext": {
                "clientAddress": "/10.0.0.1",
                "principal": {"principalType": "User", "name": "alice"},
            },
            "action": {
                "resourcePattern": {
                    "resourceType": "TOPIC", "name": name, "patternType": pattern_type,
                },
                "operation": operation,
            },
        }
    }  # fmt: skip


def _bodies(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield bodies of the maximum size for a path that takes JSON."""
    asked = opa_question() if path == OPA_PATH else evaluation()
    whole = json.dumps(asked).encode()
    room = BODY_BYTES - len(whole) - 100

    def with_extra(value: bytes) -> bytes:
        return whole[:-1] + b',"extra":' + value + b"}"

    yield "one question", whole
    yield (
        "a long name",
        json.dumps(
            opa_question("x" * room) if path == OPA_PATH else evaluation(name="x" * room)
        ).encode(),
    )
    yield (
        "a long name of escapes",
        json.dumps(
            opa_question("é" * (room // 6))
            if path == OPA_PATH
            else evaluation(name="é" * (room // 6))
        ).encode(),
    )
    yield "unclosed brackets", with_extra(b"[" * room)
    yield "deep objects", with_extra(b'{"a":' * (room // 12) + b"0" + b"}" * (room // 12))
    shallow = b"[" * 500 + b"]" * 500
    yield "many deep arrays", with_extra(b"[" + b",".join([shallow] * (room // 1001)) + b"]")
    keys = b",".join(b'"%d":0' % number for number in range(room // 9))
    yield "many keys", with_extra(b"{" + keys + b"}")
    yield "many extra keys", whole[:-1] + b"," + keys + b"}"
    yield "many short values", with_extra(b"[" + b",".join([b"0"] * (room // 2 - 1)) + b"]")
    yield "many empty objects", with_extra(b"[" + b",".join([b"{}"] * (room // 3 - 1)) + b"]")
    yield "a long number", with_extra(b"1" * room)
    yield "a long fraction", with_extra(b"0." + b"1" * room)
    yield "many escapes", with_extra(b'"' + b"\\u00e9" * (room // 6 - 1) + b'"')
    yield "spaces", whole + b" " * room
    yield "invalid JSON", b"x" * BODY_BYTES
    if path == EVALUATIONS_PATH:
        yield from _evaluations(room)


def _evaluations(room: int) -> Iterator[tuple[str, bytes]]:
    def body(items: list[object], **defaults: object) -> bytes:
        return json.dumps({"evaluations": items, **defaults}, separators=(",", ":")).encode()

    size = room // EVALUATIONS_MAX
    yield "evaluations", body([evaluation(n) for n in range(EVALUATIONS_MAX)])
    yield (
        "evaluations without a host",
        body([evaluation(n, host=None, user="bob") for n in range(EVALUATIONS_MAX)]),
    )
    yield (
        "evaluations of long names",
        body([evaluation(n, name="x" * (size - 140)) for n in range(EVALUATIONS_MAX)]),
    )
    yield "evaluations of defaults", body([{}] * EVALUATIONS_MAX, **evaluation())
    yield "invalid evaluations", body([{"subject": 1}] * EVALUATIONS_MAX)
    yield (
        "evaluations of unknown types",
        body([{**evaluation(n), "resource": {"type": "x" * 90, "id": "x"}} for n in range(900)]),
    )
    yield "too many evaluations", body([{}] * (room // 3))
    yield (
        "evaluations that are numbers",
        b'{"evaluations":[' + b",".join([b"0"] * (room // 2)) + b"]}",
    )


def _searches(token: str) -> Iterator[HttpRequest]:
    """Yield searches and explanations, about principals with few and with many ACLs."""
    group = {"type": "group", "id": "group-1"}
    for user in ("alice", "bob", "root", "nobody"):
        about_topic = evaluation(user=user, host=None if user == "bob" else "10.0.0.1")
        for asked in (about_topic, about_topic | {"resource": group}):
            body = json.dumps(asked).encode()
            for path in (*SEARCH_PATHS, EXPLAIN_PATH):
                name = f"{path}: {user}, {json.dumps(asked['resource'])}"
                yield HttpRequest(DECISION_HTTP, name, post(path, body, token=token))
    long = json.dumps(evaluation(name="x" * 32_000)).encode()
    for path in (*SEARCH_PATHS, EXPLAIN_PATH):
        yield HttpRequest(DECISION_HTTP, f"{path}: a long name", post(path, long, token=token))
    token_of_page = {"page": {"token": "A" * 30_000}}
    paged = json.dumps(evaluation() | token_of_page).encode()
    yield HttpRequest(
        DECISION_HTTP, f"{SEARCH_PATHS[0]}: a long token", post(SEARCH_PATHS[0], paged, token=token)
    )


def decision_requests(token: str) -> Iterator[HttpRequest]:
    """Yield the requests to the decision port; an empty ``token`` is not sent."""
    for path in (EVALUATION_PATH, EVALUATIONS_PATH, OPA_PATH):
        for name, body in _bodies(path):
            yield HttpRequest(DECISION_HTTP, f"{path}: {name}", post(path, body, token=token))
    by_type = json.dumps(opa_question("", pattern_type="PREFIXED")).encode()
    yield HttpRequest(DECISION_HTTP, f"{OPA_PATH}: by type", post(OPA_PATH, by_type, token=token))
    for query in ("", "?principal=User:nobody", "?pattern_type=MATCH&resource_name=x"):
        asked = get(f"{ACLS_PATH}{query}", token=token)
        yield HttpRequest(DECISION_HTTP, f"{ACLS_PATH}{query}", asked)
    yield from _searches(token)
    question = json.dumps(evaluation()).encode()
    for path, body in ((EVALUATION_PATH, question), (OPA_PATH, by_type)):
        many = post(path, body, token=token, close=False) * (PIPELINED - 1)
        yield HttpRequest(
            DECISION_HTTP, f"{path}: {PIPELINED} at once", many + post(path, body, token=token)
        )
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in question) + b"0\r\n\r\n"
    lines = (
        f"POST {EVALUATION_PATH} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
        "Transfer-Encoding: chunked",
    )  # fmt: skip
    yield HttpRequest(
        DECISION_HTTP, f"{EVALUATION_PATH}: chunks of a byte", _head([*lines], token, True) + chunks
    )
    yield from forward_requests(token)
    spaces = b"1\r\n \r\n" * CHUNKS
    yield HttpRequest(
        DECISION_HTTP,
        f"{EVALUATION_PATH}: {CHUNKS} chunks",
        _head([*lines], token, True) + spaces + chunks,
    )


def write_routes() -> str:
    """Return a file of the most routes and questions, of which many match at each segment."""
    asked = ", ".join(f"READ TOPIC {{v{number % 10}}}-{number}" for number in range(QUESTIONS_MAX))
    routes = [
        "/".join(f"{{v{at}}}{'x' * (number >> at & 1)}" for at in range(10))
        for number in range(1024)
    ]
    routes += [f"{{v0}}/a{number}/**" for number in range(ROUTES_MAX - len(routes) - 1)]
    lines = [f"  - GET /{each}/r{number} -> {asked}" for number, each in enumerate(routes[:1024])]
    lines += [f"  - GET /{each} -> READ TOPIC {{v0}}" for each in routes[1024:]]
    lines.append("  - POST /{v0} -> " + ", ".join(["READ TOPIC {v0}"] * QUESTIONS_MAX))
    return "\n".join(("routes:", *lines, ""))


def forward_requests(token: str) -> Iterator[HttpRequest]:
    """Yield requests of a gateway, whose users send the longest targets."""
    targets = {
        "many routes": "GET /" + "/".join(["xx"] * 10) + "/r1023",
        "many segments": "GET " + "/a" * 64,
        "encoded segments": "GET /" + "/".join(["%61" * 40] * 64),
        "a long name": "POST /" + "a" * 8000,
        "a long encoded name": "POST /" + "%C3%A9" * 1300,
        "a long query": "POST /a?" + "&%5fmetho" * 800,
        "a hostile target": "POST /" + "a" * 8000 + "//",
    }
    for name, text in targets.items():
        method, _, target = text.partition(" ")
        for user in ("alice", "root", "nobody"):
            lines = (
                f"X-Original-Method: {method}", f"X-Original-URI: {target}", "X-Real-IP: 10.0.0.1",
                f"X-Forwarded-User: {user}",
            )  # fmt: skip
            asked = get(FORWARD_PATH, *lines, token=token)
            yield HttpRequest(DECISION_HTTP, f"{FORWARD_PATH}: {name}, {user}", asked)


def any_port(endpoint: str, path: str) -> Iterator[HttpRequest]:
    """Yield GET requests to any path: large heads and many requests at once."""
    yield HttpRequest(endpoint, f"{path}: GET", get(path))
    yield HttpRequest(
        endpoint,
        f"{path}: {PIPELINED} GETs at once",
        get(path, close=False) * (PIPELINED - 1) + get(path),
    )
    headers = [f"X-{number}: {'y' * 140}" for number in range(95)]
    yield HttpRequest(endpoint, f"{path}: many headers", get(path, *headers))
    few = get(path, *headers, close=False)
    yield HttpRequest(endpoint, f"{path}: 20 heads of many headers", few * 19 + get(path, *headers))
    yield HttpRequest(endpoint, f"{path}: a long query", get(f"{path}?{'q' * 8000}"))
    yield HttpRequest(endpoint, f"{path}: not HTTP", b"\0" * 100_000)


def heads() -> Iterator[HttpRequest]:
    """Yield requests with large heads, to both ports."""
    for path in (EVALUATION_PATH, DISCOVERY_PATH, HEALTH_PATH, OPENAPI_PATH, "/no/such/path"):
        yield from any_port(DECISION_HTTP, path)
    for path in ADMIN_PATHS:
        yield from any_port(ADMIN_HTTP, path)
