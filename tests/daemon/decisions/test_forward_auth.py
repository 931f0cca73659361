"""Forward authorization: the answer to each kind of gateway, and what is counted and audited."""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from authorizerd.acl.model import Acl
from authorizerd.actors.daemon_authorizer import DecisionCounts
from authorizerd.daemon.decision_servers import refuse_expired
from authorizerd.daemon.decisions.forward_auth import (
    REASON,
    REASON_BYTES_MAX,
    SURFACE,
    ForwardAuthHandler,
    refuse,
)
from authorizerd.daemon.decisions.route_file import FORWARD_PATH, RouteFile
from authorizerd.daemon.http.refusals import EXPIRED
from authorizerd.protocol.http.connection import ServerConnection
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.http.request_head import HttpLimits
from tests.daemon.decision_place import OTHER, PROXY, ROOT, Place
from tests.support.acls import acl

ROUTES = """
routes:
  - POST /topics/{topic} -> WRITE TOPIC {topic}
  - GET /consumers/{group}/topics/{topic} -> READ TOPIC {topic}, READ GROUP {group}
  - POST /consumers/{group} -> DENY the topics are named in the body
"""
ALICE = "User:alice"
ACLS = (
    acl(ALICE, "WRITE", topic="orders", host="10.0.0.1"),
    acl(ALICE, "READ", topic="orders"),
    acl(ALICE, "READ", group="g"),
    acl(ALICE, "READ", group="closed", deny=True),
)
PLACES = {
    "nginx": ("X-Original-Method", "X-Original-URI", "X-Real-IP"),
    "traefik": ("X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-For"),
    "caddy": ("X-Forwarded-Method", "X-Forwarded-Uri", "X-Forwarded-For"),
    "envoy": ("", "", "X-Real-IP"),
}
ALLOWED = "ALLOWED"


class Gateway:
    """A gateway of one kind, and the handler that it asks."""

    def __init__(
        self,
        kind: str = "nginx",
        place: Place | None = None,
        *,
        routes: str = ROUTES,
        acls: tuple[Acl, ...] = ACLS,
    ) -> None:
        self.kind = kind
        self.place = place or Place(None, *acls)
        self.routes = RouteFile("routes.yaml")
        self.reload(routes)
        self.handler = ForwardAuthHandler(self.place.authorizer, self.place.callers, self.routes)

    def reload(self, routes: str) -> None:
        self.routes.parse(f"gateway: {self.kind}\n{routes}")()

    def ask(
        self,
        request: str = "POST /topics/orders",
        *,
        user: str | None = "alice",
        host: str | None = "10.0.0.1",
        **others: str,
    ) -> Response:
        return self.send(self.write(request, user=user, host=host, **others))

    def write(
        self,
        request: str,
        *,
        user: str | None = "alice",
        host: str | None = "10.0.0.1",
        **others: str,
    ) -> bytes:
        """Return the request as this kind of gateway sends it."""
        method, _, target = request.partition(" ")
        method_header, target_header, host_header = PLACES[self.kind]
        line = f"GET {FORWARD_PATH} HTTP/1.0"
        headers = {"Host": "localhost", "X-Forwarded-User": user, host_header: host}
        if method_header:
            headers |= {method_header: method, target_header: target}
        else:
            line = f"{method} {FORWARD_PATH}{target} HTTP/1.1"
        headers |= {name.replace("_", "-"): value for name, value in others.items()}
        lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
        return "\r\n".join((line, *lines, "", "")).encode()

    def send(self, data: bytes, *, certified: str | None = None) -> Response:
        """Send bytes through the protocol, as they would arrive at the port."""
        connection = ServerConnection(HttpLimits(body_bytes_max=1000), certified, "127.0.0.1")
        connection.receive_data(data)
        request = connection.next_event()
        assert isinstance(request, Request), request
        response = self.handler(request)
        connection.send(response)
        return response

    @property
    def counts(self) -> DecisionCounts:
        return self.place.authorizer.counts[SURFACE]


def reason_of(response: Response) -> str:
    """Return the reason, which the body and the header must share."""
    if response.status == 200:
        assert response.body == b""
        return ALLOWED
    reason = dict(response.headers)[REASON].decode("ascii")
    assert response.body.decode() == f"{reason}\n"
    return reason


CASES: tuple[tuple[str, Mapping[str, str | None], int, str], ...] = (
    ("POST /topics/orders", {}, 200, ALLOWED),
    ("POST /topics/orders?partition=1", {}, 200, ALLOWED),
    ("POST /topics/%6Frders", {}, 200, ALLOWED),
    ("GET /consumers/g/topics/orders", {}, 200, ALLOWED),
    ("GET /consumers/g/topics/orders", {"host": "10.0.0.2"}, 200, ALLOWED),
    ("POST /topics/orders", {"user": "User:alice"}, 200, ALLOWED),
    ("POST /topics/any", {"user": ROOT}, 200, ALLOWED),
    (
        "POST /topics/orders", {"host": "10.0.0.2"}, 403,
        "User:alice may not WRITE TOPIC orders from 10.0.0.2: no ACL allows it",
    ),
    (
        "POST /topics/orders", {"user": "bob"}, 403,
        "User:bob may not WRITE TOPIC orders from 10.0.0.1: no ACL allows it",
    ),
    (
        "POST /topics/orders", {"user": "Group:alice"}, 403,
        "Group:alice may not WRITE TOPIC orders from 10.0.0.1: no ACL allows it",
    ),
    (
        "GET /consumers/other/topics/orders", {}, 403,
        "User:alice may not READ GROUP other from 10.0.0.1: no ACL allows it",
    ),
    (
        "GET /consumers/closed/topics/orders", {}, 403,
        "User:alice may not READ GROUP closed from 10.0.0.1: an ACL denies it",
    ),
    ("POST /consumers/g", {}, 403, "User:alice may not do this: the topics are named in the body"),
    ("GET /topics/orders", {}, 403, "no route allows GET /topics/orders"),
    ("POST /topics", {}, 403, "no route allows POST /topics"),
    ("DELETE /topics/orders", {}, 403, "no route allows DELETE /topics/orders"),
    ("POST /Topics/orders", {}, 403, "the path differs in letter case or accents from a route"),
    ("POST /topics/a%2Fb", {}, 403, "the path has an encoded '/' (%2F)"),
    ("POST /topics//orders", {}, 403, "the path has an empty segment"),
    ("POST /topics/orders?_method=DELETE", {}, 403, "the query has the key '_method'"),
    ("POST /topics/orders", {"X_HTTP_Method_Override": "GET"}, 403,
     "header x-http-method-override"),
    ("POST /topics/orders", {"X_HTTP_Method": "GET"}, 403, "header x-http-method would"),
    ("POST /topics/orders", {"X_Method_Override": "GET"}, 403, "header x-method-override"),
    ("POST /topics/orders", {"user": None}, 401, "the user is unknown: the gateway sent no header"),
    ("POST /topics/orders", {"user": ""}, 401, "the user is unknown: the gateway sent no header"),
    ("POST /topics//orders", {"user": None}, 401, "the user is unknown"),
    ("POST /topics/orders", {"user": "*"}, 403, "User:* means everyone"),
    ("POST /topics/orders", {"host": None}, 403, "the gateway sent no header X-"),
    ("POST /topics/orders", {"host": "10.0.0.1, 10.0.0.2"}, 403, "expected exactly one IP address"),
    ("POST /topics/orders", {"host": "unknown"}, 403, "expected exactly one IP address in X-"),
)  # fmt: skip


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize(("request_line", "changed", "status", "reason"), CASES)
def test_each_gateway_gets_the_status_and_the_reason(
    kind: str, request_line: str, changed: dict[str, str], status: int, reason: str
) -> None:
    response = Gateway(kind).ask(request_line, **changed)
    assert response.status == status
    assert reason in reason_of(response)
    assert (b"Cache-Control", b"no-store") in response.headers
    assert b"WWW-Authenticate" not in dict(response.headers)


@pytest.mark.parametrize("kind", ["nginx", "traefik", "caddy"])
@pytest.mark.parametrize("name", range(2))
@pytest.mark.parametrize("value", [None, "", "GET\xff", "/topics/\xff"])
def test_missing_method_or_target_is_refused(kind: str, name: int, value: str | None) -> None:
    """Headers of another kind of gateway do not count, since they come from the client."""
    gateway = Gateway(kind)
    missing = PLACES[kind][name]
    other = PLACES["traefik" if kind == "nginx" else "nginx"]
    lines = (
        gateway.write("POST /topics/orders").decode().replace("Host:", f"{other[0]}: POST\r\nHost:")
    )
    kept = [line for line in lines.split("\r\n") if not line.startswith(missing)]
    if value is not None:
        kept.insert(1, f"{missing}: {value}")
    kept.insert(1, f"{other[1]}: /topics/orders")
    response = gateway.send("\r\n".join(kept).encode("latin-1"))
    assert response.status == 403
    assert missing in reason_of(response)


@pytest.mark.parametrize("kind", PLACES)
def test_repeated_header_is_refused(kind: str) -> None:
    """Even if both values are the same: servers differ in which one they use."""
    gateway = Gateway(kind)
    sent = gateway.write("POST /topics/orders")
    for name in filter(None, (*PLACES[kind], "X-Forwarded-User")):
        (line,) = [each for each in sent.split(b"\r\n") if each.startswith(name.encode())]
        for again in (line, line.lower(), line.split(b":")[0] + b": other"):
            for data in (
                sent[:-2] + again + b"\r\n\r\n",
                sent.replace(b"Host:", again + b"\r\nHost:"),
            ):
                response = gateway.send(data)
                assert response.status == 403
                assert reason_of(response) == f"the header {name} is repeated"
    harmless = sent[:-2] + b"Accept: a\r\nAccept: b\r\n\r\n"
    assert gateway.send(harmless).status == 200


@pytest.mark.parametrize("name", [
    "X-HTTP-Method-Override", "x-http-method-override", "X_HTTP_Method_Override",
    "X-HTTP_Method-Override",
    "X_HTTP_METHOD", "X-Method_Override",
])  # fmt: skip
def test_header_that_replaces_the_method_is_refused(name: str) -> None:
    """Some servers take ``_`` for ``-``. The value does not matter."""
    gateway = Gateway()
    sent = gateway.write("POST /topics/orders")
    for value in ("GET", "POST", ""):
        response = gateway.send(sent[:-2] + f"{name}: {value}\r\n\r\n".encode())
        assert response.status == 403
        assert reason_of(response) == f"the header {name.lower()} would replace the method"


def test_gateway_may_use_any_method_and_body() -> None:
    gateway = Gateway()
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
        sent = gateway.write("POST /topics/orders").replace(b"GET", method.encode(), 1)
        assert gateway.send(sent).status == 200
        with_body = sent[:-2] + b"Content-Length: 5\r\nContent-Type: text/xml\r\n\r\n<a>&b"
        assert gateway.send(with_body).status == 200
        assert gateway.send(sent.replace(b"forward-auth", b"forward-auth?a=b")).status == 200


@pytest.mark.parametrize(("kind", "path", "status", "reason"), [
    ("nginx", "/x", 403, "expected /v1/forward-auth alone for a gateway of the kind nginx"),
    ("nginx", "/", 403, "expected /v1/forward-auth alone"), ("nginx", "x", 403, "alone"),
    ("envoy", "", 403, "the target does not begin with '/'"),
    ("envoy", "topics/orders", 403, "the target does not begin with '/'"),
    ("envoy", "/", 403, "no route allows GET /"),
    ("envoy", "//topics/orders", 403, "an empty segment"),
    ("envoy", "*", 403, "the target does not begin with '/'"),
])  # fmt: skip
def test_path_of_the_gateway_itself_is_exact(
    kind: str, path: str, status: int, reason: str
) -> None:
    gateway = Gateway(kind)
    sent = gateway.write("GET /topics/orders").decode()
    first, rest = sent.split("\r\n", 1)
    response = gateway.send(f"GET {FORWARD_PATH}{path} HTTP/1.1\r\n{rest}".encode())
    assert (response.status, first[:3]) == (status, "GET")
    assert reason in reason_of(response)


def test_questions_are_counted_and_audited_with_the_gateway(tmp_path: Path) -> None:
    """Each question has a line. A request without a question has none."""
    place = Place(tmp_path, *ACLS)
    place.grant(ask=PROXY)
    gateway = Gateway("nginx", place)
    token = {"Authorization": "Bearer proxy.secret", "X-Request-ID": "r-1"}
    for request, expected in (
        ("POST /topics/orders", 200),
        ("GET /consumers/g/topics/orders", 200),
        ("GET /consumers/other/topics/orders", 403),
        ("GET /consumers/g/topics/other", 403),
        ("POST /consumers/g", 403),
        ("GET /none", 403),
        ("POST //", 403),
    ):
        assert gateway.ask(request, **token).status == expected
    counts = gateway.counts
    assert (counts.allowed, counts.denied, counts.invalid, counts.not_ready) == (4, 3, 2, 0)
    events = place.audit_log.events
    assert [
        (event.question.operation, event.question.resource_name, event.decision.allowed)
        for event in events
    ] == [
        (4, "orders", True),
        (3, "orders", True), (3, "g", True),
        (3, "orders", True), (3, "other", False),
        (3, "other", False),
    ]  # fmt: skip
    for event in events:
        assert event.request_name == SURFACE
        assert (event.question.principal, event.question.host) == (ALICE, "10.0.0.1")
        caller = event.caller
        assert caller is not None
        assert (caller.known_by, caller.principal, caller.request_id) == ("token", PROXY, "r-1")


@pytest.mark.parametrize(("token", "certified", "status", "reason"), [
    ("", None, 503, "the gateway is unknown: it needs a valid token"),
    ("Bearer proxy.wrong", None, 503, "the gateway is unknown"),
    ("Bearer other.secret", None, 503,
     "User:other may not ask for the users of a gateway: authorizerd.callers.ask"),
    ("Basic proxy.secret", None, 503, "the gateway is unknown"),
    ("Bearer proxy.secret", None, 200, ALLOWED),
    ("Bearer root.secret", None, 200, ALLOWED),
    # The Authorization is the user's, which the gateway passes on.
    ("", PROXY, 200, ALLOWED),
    ("Bearer users.token", PROXY, 200, ALLOWED),
    ("Bearer root.secret", OTHER, 503, "User:other may not ask"),
    ("Bearer proxy.secret", ALICE, 503, "User:alice may not ask for the users of a gateway"),
])  # fmt: skip
def test_fault_of_the_gateway_is_never_the_users(
    tmp_path: Path, token: str, certified: str | None, status: int, reason: str
) -> None:
    """nginx would show the user 401 and 403. Not even about itself may a caller ask here."""
    place = Place(tmp_path, *ACLS)
    place.grant(ask=PROXY)
    gateway = Gateway("nginx", place)
    sent = gateway.write("POST /topics/orders", **({"Authorization": token} if token else {}))
    response = gateway.send(sent, certified=certified)
    assert response.status == status
    assert reason in reason_of(response)
    is_known = "may not ask" in reason
    assert gateway.counts.invalid == is_known
    lines = [line for line in place.audit_log.lines if "ANY" in line.upper()]
    assert len(lines) == is_known


def test_revoked_right_and_token_count_at_once(tmp_path: Path) -> None:
    place = Place(tmp_path, *ACLS)
    place.grant(ask=PROXY)
    gateway = Gateway("nginx", place)
    token = {"Authorization": "Bearer proxy.secret"}
    assert gateway.ask(**token).status == 200
    place.grant()
    assert gateway.ask(**token).status == 503
    place.grant(ask=PROXY)
    assert gateway.ask(**token).status == 200
    place.rewrite_tokens("")
    place.callers.prepare_reload()()
    assert gateway.ask(**token).status == 503


def test_answers_wait_for_the_acls_and_the_routes() -> None:
    """Only super users get decisions before the ACLs are loaded."""
    gateway = Gateway("nginx", Place(None, loaded=False))
    response = gateway.ask()
    assert response.status == 503
    assert reason_of(response).startswith("AUTHORIZER_NOT_READY: ")
    assert gateway.counts.not_ready == 1
    assert gateway.ask(user=ROOT).status == 200
    assert gateway.ask(user=None).status == 401
    unread = RouteFile("routes.yaml")
    handler = ForwardAuthHandler(gateway.place.authorizer, gateway.place.callers, unread)
    gateway.handler = handler
    assert gateway.ask(user=ROOT).status == 503


def test_required_audit_that_fails_stops_answers() -> None:
    gateway = Gateway()
    gateway.place.audit_log.is_refusing = True
    assert gateway.ask().status == 503


def test_questions_of_a_request_are_judged_by_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ACLs change after the first of two questions."""
    gateway = Gateway(acls=(acl(ALICE, "READ", topic="t"), acl(ALICE, "READ", group="g")))
    place = gateway.place
    before = place.snapshot.newest
    decide = place.authorizer.decide

    def change(*arguments: object) -> object:
        place.snapshot.publish(None)
        return decide(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(place.authorizer, "decide", change)
    assert before is not None
    assert gateway.ask("GET /consumers/g/topics/t").status == 200
    assert gateway.ask("GET /consumers/g/topics/t").status == 503


def test_reload_takes_the_kind_and_the_routes_together() -> None:
    gateway = Gateway("nginx")
    sent = gateway.write("POST /topics/orders")
    assert gateway.send(sent).status == 200
    gateway.kind = "traefik"
    gateway.reload(ROUTES)
    assert gateway.send(sent).status == 403
    assert gateway.ask().status == 200
    gateway.reload("routes:\n  - GET /x -> READ TOPIC orders\n")
    assert gateway.ask().status == 403
    assert gateway.ask("GET /x").status == 200


@pytest.mark.parametrize(("reason", "header"), [
    ("a\r\nX: b", b"a\\r\\nX: b"), ("é\u202e", b"\\xe9\\u202e"), ("", b""),
    ("x" * 600, b"x" * (REASON_BYTES_MAX - 3) + b"..."),
])  # fmt: skip
def test_reason_is_one_line_of_ascii(reason: str, header: bytes) -> None:
    response = refuse(403, reason)
    assert dict(response.headers)[REASON] == header
    assert response.body.count(b"\n") == 1
    assert response.body.endswith(b"\n")


def test_hostile_name_in_a_denial_is_escaped() -> None:
    response = Gateway().ask("POST /topics/%C3%A9%E2%80%AE%20b")
    assert response.status == 403
    assert re.search(rb"TOPIC \\xe9\\u202e b from", dict(response.headers)[REASON])


def test_expired_certificate_of_a_gateway_is_not_the_users() -> None:
    request = Request("GET", FORWARD_PATH, "", {}, b"", PROXY)
    assert refuse_expired(request).status == 503
    assert refuse_expired(msgspec.structs.replace(request, path="/v1/data")) is EXPIRED
