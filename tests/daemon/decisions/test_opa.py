"""OPA's data API: decisions in JSON, everything else in plain text, and the audit."""

from pathlib import Path
from typing import Any

import pytest

from authorizerd.protocol.http.messages import Response
from tests.daemon.decision_place import OTHER, PROXY, ROOT, Place, cluster_action, opa_answer
from tests.daemon.opa_requests import PATH, asked, post
from tests.support.acls import acl

TRUE, FALSE = b'{"result":true}', b'{"result":false}'
DESCRIBE = acl("User:u1", "DESCRIBE", topic="topic-1", host="192.168.64.1")
BY_TYPE = (
    ("action.resourcePattern", {"resourceType": "TOPIC", "name": "", "patternType": "PREFIXED"}),
    ("action.resourceReferenceCount", 0),
)


def by_principal(principal: str) -> tuple[str, dict[str, str]]:
    principal_type, _, name = principal.partition(":")
    return "requestContext.principal", {"principalType": principal_type, "name": name}


async def decision(place: Place, *changes: tuple[str, object]) -> bytes:
    response = await opa_answer(place, post(asked(*changes)))
    assert (response.status, response.content_type) == (200, "application/json"), response.body
    return response.body


def assert_no_decision(response: Response, status: int) -> None:
    """The plugin would cache any JSON as a decision."""
    assert response.status == status
    assert response.content_type == "text/plain; charset=utf-8"
    assert response.body.endswith(b"\n")
    assert not response.body.startswith((b"{", b"[", b'"', b"true", b"false", b"null"))


async def test_the_captured_question_is_decided_by_the_acls() -> None:
    """The ACLs match principal, host, operation and name. The answers equal OPA's byte for byte."""
    place = Place(None, DESCRIBE)
    assert await decision(place) == TRUE
    assert await decision(place, ("requestContext.clientAddress", "a.b/192.168.64.1")) == TRUE
    assert await decision(place, ("requestContext.clientAddress", "/192.168.64.2")) == FALSE
    assert await decision(place, by_principal("Group:u1")) == FALSE
    assert await decision(place, ("action.operation", "READ")) == FALSE
    assert await decision(place, ("action.resourcePattern.name", "topic-2")) == FALSE
    assert await decision(place, ("action.resourcePattern.resourceType", "GROUP")) == FALSE
    counts = place.authorizer.counts["OPA"]
    assert (counts.allowed, counts.denied) == (2, 5)


@pytest.mark.parametrize("path", ["/v1/data", "/v1/data/", "/v1/data/a", "/v1/data/a/b/c?d"])
async def test_every_path_below_data_is_answered_alike(path: str) -> None:
    """A broker can keep the URL that it used with OPA."""
    path, _, query = path.partition("?")
    response = await opa_answer(Place(None, DESCRIBE), post(path=path, query=query))
    assert response.body == TRUE


@pytest.mark.parametrize("path", ["/v1/database", "/v1/data.json"])
async def test_a_path_with_a_similar_beginning_is_not_found(path: str) -> None:
    assert_no_decision(await opa_answer(Place(None), post(path=path)), 404)


async def test_an_empty_prefix_asks_by_resource_type() -> None:
    """KIP-679: implied operations do not count."""
    place = Place(None, acl("User:u1", "WRITE", topic="t"))
    write = ("action.operation", "WRITE")
    assert await decision(place, *BY_TYPE, write) == TRUE
    assert await decision(place, *BY_TYPE) == FALSE
    assert await decision(place, *BY_TYPE, write, by_principal("User:u2")) == FALSE
    assert await decision(place, *BY_TYPE, by_principal(ROOT)) == TRUE
    counts = place.authorizer.counts["OPA"]
    assert (counts.allowed, counts.denied) == (2, 2)


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            (),
            [
                "INFO Principal = User:u1 is Denied operation = DESCRIBE from host = 192.168.64.1"
                " on resource = Topic:LITERAL:topic-1 for request = Metadata"
                " with resourceRefCount = 1 based on rule DefaultDeny"
            ],
        ),
        (
            (
                by_principal(ROOT),
                ("action.resourceReferenceCount", 7),
                ("requestContext.header", None),
            ),
            [
                "DEBUG Principal = User:root is Allowed operation = DESCRIBE"
                " from host = 192.168.64.1 on resource = Topic:LITERAL:topic-1 for request = OPA"
                " with resourceRefCount = 7 based on rule SuperUser"
            ],
        ),
        ((("action.logIfDenied", False),), []),
        ((by_principal(ROOT), ("action.logIfAllowed", False)), []),
    ],
)
async def test_the_audit_log_has_the_brokers_details(
    changes: tuple[tuple[str, Any], ...], lines: list[str]
) -> None:
    """They are the API's name, the reference count, and the log flags."""
    place = Place(None)
    await decision(place, *changes)
    assert place.audit_log.lines == lines


@pytest.mark.parametrize(
    "changes",
    [
        (("action.operation", "FLY"),),
        (("requestContext.clientAddress", "/nowhere"),),
        (by_principal("User:*"),),
        (*BY_TYPE, by_principal("User:*")),
        (("action.resourcePattern.patternType", "PREFIXED"),),
    ],
)
async def test_invalid_questions_get_no_decision(changes: tuple[tuple[str, Any], ...]) -> None:
    """The plugin would cache a denial for an hour."""
    place = Place(None)
    assert_no_decision(await opa_answer(place, post(asked(*changes))), 400)
    assert place.authorizer.counts["OPA"].invalid == 1


async def test_other_requests_are_refused_in_plain_text() -> None:
    place = Place(None)
    assert_no_decision(await opa_answer(place, post(b"{")), 400)
    assert_no_decision(await opa_answer(place, post(headers={b"content-type": b"text/plain"})), 400)
    refused = await opa_answer(place, post(method="GET"))
    assert_no_decision(refused, 405)
    assert refused.headers == ((b"Allow", b"POST"),)


async def test_before_the_acls_are_loaded_only_super_users_are_answered() -> None:
    """Others get 503, so ``allow.on.error`` decides and nothing is cached."""
    place = Place(None, loaded=False)
    for changes in ((), BY_TYPE):
        refused = await opa_answer(place, post(asked(*changes)))
        assert_no_decision(refused, 503)
        assert refused.body.startswith(b"AUTHORIZER_NOT_READY: ")
        assert await decision(place, *changes, by_principal(ROOT)) == TRUE
    counts = place.authorizer.counts["OPA"]
    assert (counts.allowed, counts.not_ready) == (2, 2)


async def test_health_reports_whether_the_acls_are_loaded(tmp_path: Path) -> None:
    """As in OPA, any caller may ask, also without a token."""
    health = post(b"", path="/health", method="GET")
    response = await opa_answer(Place(None), health)
    assert (response.status, response.body) == (200, b"{}")
    assert (
        await opa_answer(Place(tmp_path), post(b"", path="/health", method="HEAD"))
    ).status == 200
    assert_no_decision(await opa_answer(Place(None, loaded=False), health), 503)
    assert_no_decision(await opa_answer(Place(None), post(path="/health")), 405)


@pytest.mark.parametrize(
    ("authorization", "query", "status"),
    [
        (b"Bearer other.secret", "", 200),
        (None, "token=other.secret", 200),
        (None, "pretty=true&token=other.secret", 200),
        (b"Basic x", "token=other.secret", 200),
        (b"Bearer proxy.secret", "token=other.secret", 403),
        (b"Bearer other.wrong", "token=other.secret", 401),
        (b"Bearer other.secret", "token=proxy.secret", 200),
        (None, "token=other.secret&token=other.secret", 400),
        (b"Bearer other.secret", "token=a&token=b", 200),
        (None, "token=other.wrong", 401),
        (None, "token=", 401),
        (None, "", 401),
    ],
)
async def test_a_token_is_read_from_the_header_or_the_query(
    authorization: bytes | None, query: str, status: int, tmp_path: Path
) -> None:
    """The plugin cannot send headers, so the query is accepted. A header takes precedence."""
    place = Place(tmp_path, DESCRIBE)
    place.grant(ask=OTHER)
    headers = {} if authorization is None else {b"authorization": authorization}
    response = await opa_answer(place, post(headers=headers, query=query))
    if status == 200:
        assert response.body == TRUE
    else:
        assert_no_decision(response, status)


async def test_asking_about_others_requires_the_right_to_ask(tmp_path: Path) -> None:
    """This applies to one resource and to a type. Any caller may ask about itself."""
    place = Place(tmp_path, acl(PROXY, "DESCRIBE", topic="topic-1"), cluster_action(PROXY))
    place.grant(search=PROXY, read=PROXY)
    for changes in ((), BY_TYPE):
        refused = await opa_answer(place, post(asked(*changes), query="token=proxy.secret"))
        assert_no_decision(refused, 403)
        itself = post(asked(*changes, by_principal(PROXY)), query="token=proxy.secret")
        assert (await opa_answer(place, itself)).body == TRUE
    assert place.authorizer.counts["OPA"].invalid == 2


async def test_before_the_acls_are_loaded_there_is_no_decision(tmp_path: Path) -> None:
    """The answer is 503, so that the caller can retry. Without the right, it is 403 already."""
    place = Place(tmp_path, loaded=False)
    place.grant(ask=OTHER)
    about_root, about_other = asked(by_principal(ROOT)), asked(by_principal(OTHER))
    for token, status in (("proxy", 403), ("other", 503)):
        refused = await opa_answer(place, post(asked(), query=f"token={token}.secret"))
        assert_no_decision(refused, status)
    assert (await opa_answer(place, post(about_root, query="token=other.secret"))).body == TRUE
    refused = await opa_answer(place, post(about_other, query="token=root.secret"))
    assert_no_decision(refused, 503)


def test_requests_never_show_their_tokens() -> None:
    request = post(b"secret", query="token=secret", headers={b"authorization": b"Bearer secret"})
    assert repr(request) == f"Request(POST {PATH})"
