"""Searches and explanations: who may ask, what is counted and audited, and how much may run."""

import json
from pathlib import Path

import pytest

from authorizerd.daemon.decisions.authzen import AuthZenHandler
from authorizerd.daemon.errors import BusyError
from authorizerd.protocol.decisions.discovery import EVALUATION_PATH, EVALUATIONS_PATH
from authorizerd.protocol.http.messages import Response
from tests.daemon.decision_place import OTHER, PROXY, cluster_action
from tests.daemon.search_place import VOCABULARY, SearchPlace, image_of, search_body
from tests.support.acls import acl, snapshot_of
from tests.support.answers import answer_of
from tests.support.requests import evaluation, http_request

ITSELF = PROXY.removeprefix("User:")
READ = acl("User:alice", "READ", topic="t")
KINDS = ("subject", "resource", "action")


@pytest.fixture
def place() -> SearchPlace:
    """Return a port that trusts every caller."""
    return SearchPlace(None, READ)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("caller", ["", "nobody"])
async def test_caller_without_credential_gets_none(kind: str, caller: str, tmp_path: Path) -> None:
    place = SearchPlace(tmp_path, READ)
    assert (await place.post(kind, search_body(kind), caller=caller)).status == 401
    unknown = await place.post(kind, {"subject": {"type": "x"}}, caller=caller)
    assert unknown.status == 401


@pytest.mark.parametrize(
    ("kind", "user", "status"),
    [
        ("resource", ITSELF, 200),
        ("action", ITSELF, 200),
        ("resource", "alice", 403),
        ("action", "alice", 403),
        ("subject", ITSELF, 403),
    ],
)
async def test_a_caller_searches_only_its_own_rights(
    kind: str, user: str, status: int, tmp_path: Path
) -> None:
    """A search for subjects is always about others."""
    place = SearchPlace(tmp_path, READ, acl(PROXY, "READ", topic="t"))
    response = await place.post(kind, search_body(kind, user), caller="proxy")
    assert response.status == status
    if status == 403:
        assert response.body == (
            b"User:a proxy may not search the rights of others:"
            b" authorizerd.callers.search does not list it\n"
        )
        counts = place.authorizer.counts["Search"]
        assert (counts.allowed, counts.denied, counts.invalid) == (0, 0, 1)


@pytest.mark.parametrize(
    ("caller", "operation", "found"),
    [
        ("proxy", "read", ["*", "own", "public", "shared"]),
        ("proxy", "alter_configs", ["*", "own", "public"]),
        ("root", "read", ["*", "hidden", "own", "public", "secret", "shared"]),
    ],
)
async def test_a_search_of_own_rights_shows_no_names_of_others(
    caller: str, operation: str, found: list[str], tmp_path: Path
) -> None:
    """Names that only others' ACLs mention stay unknown, and topics without DESCRIBE."""
    rights = [acl(PROXY, each, topic="*") for each in ("READ", "ALTER_CONFIGS")]
    place = SearchPlace(
        tmp_path,
        rights[operation == "alter_configs"],
        acl(PROXY, "WRITE", topic="own"),
        acl("User:*", "DESCRIBE", topic="public"),
        acl("User:bob", "READ", topic="secret"),
        topics=("shared",) if operation == "read" else ("hidden", "own"),
    )
    if caller == "root":
        place.image.publish(image_of("shared", "hidden"))
    body = search_body("resource", ITSELF, operation)
    answer = json.loads((await place.post("resource", body, caller=caller)).body)
    assert sorted({each["id"] for each in answer["results"]}) == found


@pytest.mark.parametrize("kind", KINDS)
async def test_right_to_search(kind: str, tmp_path: Path) -> None:
    place = SearchPlace(tmp_path, READ)
    place.grant(search=OTHER)
    for caller in ("other", "root"):
        response = await place.post(kind, search_body(kind), caller=caller)
        assert json.loads(response.body)["results"]


async def test_the_right_is_checked_for_each_page(tmp_path: Path) -> None:
    """A page may not be read after the right is gone. Nor may another caller go on."""
    place = SearchPlace(tmp_path, READ, acl("User:bob", "READ", topic="t"))
    place.grant(search=OTHER)
    first = await place.post("subject", search_body("subject", limit=1), caller="other")
    token = json.loads(first.body)["page"]["next_token"]
    body = search_body("subject", token=token)
    assert (await place.post("subject", body, caller="other")).status == 200
    stranger = await place.post("subject", body, caller="root")
    assert (stranger.status, b"page.token: unknown" in stranger.body) == (400, True)
    assert (await place.post("subject", body, caller="proxy")).status == 403
    place.grant(ask=OTHER, read=OTHER)
    assert (await place.post("subject", body, caller="other")).status == 403
    place.rewrite_tokens("")
    place.callers.prepare_reload()()
    assert (await place.post("subject", body, caller="other")).status == 401


@pytest.mark.parametrize("takes_token", [False, True])
async def test_waiting_search_is_refused_without_a_right(takes_token: bool, tmp_path: Path) -> None:
    """A caller could otherwise ask ahead, and get the answers after a reload."""
    place = SearchPlace(tmp_path, READ)
    place.grant(search=OTHER)

    def reload_meanwhile() -> None:
        if takes_token:
            place.rewrite_tokens("")
            place.callers.prepare_reload()()
        else:
            place.grant(ask=OTHER, read=OTHER)

    place.queries.on_ask = reload_meanwhile
    response = await place.post("subject", search_body("subject"), caller="other")
    assert response.status == (401 if takes_token else 403)
    assert b"alice" not in response.body


@pytest.mark.parametrize("kind", KINDS)
async def test_before_the_acls_are_loaded_nothing_is_searched(kind: str) -> None:
    """Not even for a super user: there is nothing to search."""
    place = SearchPlace(None, loaded=False)
    response = await place.post(kind, search_body(kind, "root"))
    assert response.status == 503
    assert response.body == b"AUTHORIZER_NOT_READY: the ACLs are not loaded yet\n"
    assert place.authorizer.counts["Search"].not_ready == 1


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (
            "subject",
            "Principal = User:* is Allowed operation = READ from host = unknown on resource ="
            " Topic:LITERAL:t for request = SubjectSearch with resourceRefCount = 2 based on rule"
            " Search",
        ),
        (
            "resource",
            "Principal = User:alice is Allowed operation = ANY from host = unknown on resource ="
            " Topic:LITERAL:* for request = ResourceSearch with resourceRefCount = 1 based on rule"
            " Search(READ)",
        ),
        (
            "action",
            "Principal = User:alice is Allowed operation = ANY from host = unknown on resource ="
            " Topic:LITERAL:t for request = ActionSearch with resourceRefCount = 2 based on rule"
            " Search",
        ),
    ],
)
async def test_a_search_leaves_one_audit_line_and_one_count(kind: str, line: str) -> None:
    place = SearchPlace(None, READ)
    await place.search(kind)
    assert place.audit_log.lines == [f"DEBUG {line}"]
    counts = place.authorizer.counts["Search"]
    assert (counts.allowed, counts.denied, counts.invalid) == (1, 0, 0)
    await place.search(kind, "bob", topic="nothing", action="write")
    assert (counts.allowed, counts.denied, counts.invalid) == (
        1 + (kind == "subject"),
        kind != "subject",
        0,
    )


async def explain(place: SearchPlace, user: str, caller: str = "") -> Response:
    request = http_request("/v1/explain", evaluation(user, topic="t"), caller=caller)
    return await answer_of(place.explain(request))


async def evaluate(
    place: SearchPlace, document: object, caller: str = "", path: str = EVALUATION_PATH
) -> Response:
    handler = AuthZenHandler(
        place.authorizer, VOCABULARY, place.callers, place.queries, explains=True
    )
    return await answer_of(handler(http_request(path, document, caller=caller)))


async def test_explanation_is_counted_and_audited_as_a_decision(place: SearchPlace) -> None:
    explanation = json.loads((await explain(place, "bob")).body)
    assert (explanation["decision"], explanation["rule"]) == (False, "DefaultDeny")
    assert explanation["smallest_change"]["change"] == "add"
    assert place.authorizer.counts["Explain"].denied == 1
    [line] = place.audit_log.lines
    assert "Principal = User:bob is Denied operation = READ" in line
    assert "for request = Explain with" in line


async def test_explanation_shows_acls_so_it_needs_the_right_to_search(tmp_path: Path) -> None:
    """Even one of the caller's own rights."""
    place = SearchPlace(tmp_path, READ, cluster_action(PROXY))
    place.grant(search=OTHER, ask=PROXY, read=PROXY)
    asked = evaluation(ITSELF, topic="t") | {"context": {"explain": True}}
    for refused in (await explain(place, ITSELF, "proxy"), await evaluate(place, asked, "proxy")):
        assert (refused.status, refused.body) == (
            403,
            b"User:a proxy may not get explanations, which show ACLs of others:"
            b" authorizerd.callers.search does not list it\n",
        )
    assert (await explain(place, ITSELF)).status == 401
    assert (await explain(place, "alice", "other")).status == 200
    own = evaluation(OTHER.removeprefix("User:"), topic="t") | {"context": {"explain": True}}
    assert (await evaluate(place, own, "other")).status == 200
    assert (await evaluate(place, asked, "other")).status == 403
    place.grant(search=OTHER, ask=OTHER)
    assert (await evaluate(place, asked, "other")).status == 200


async def test_evaluation_explains_on_request(place: SearchPlace) -> None:
    """The rest of the answer is the same as without the explanation."""
    for user in ("alice", "bob", "root", "User:bob"):
        asked = evaluation(user, topic="t")
        plain = json.loads((await evaluate(place, asked)).body)
        explained = json.loads((await evaluate(place, asked | {"context": {"explain": True}})).body)
        explanation = explained["context"].pop("explanation")
        assert explained == plain
        assert explanation == json.loads((await explain(place, user)).body)
        unwanted = asked | {"context": {"explain": False}}
        assert json.loads((await evaluate(place, unwanted)).body) == plain
    wrong = await evaluate(place, asked | {"context": {"explain": "yes"}})
    assert wrong.body == b"context.explain: expected a boolean, found a string\n"


async def test_batch_is_not_explained(place: SearchPlace) -> None:
    """A batch may have a thousand evaluations."""
    asked = {"context": {"explain": True}, "evaluations": [evaluation(topic="t")]}
    [answer] = json.loads((await evaluate(place, asked, path=EVALUATIONS_PATH)).body)["evaluations"]
    assert answer["decision"] is True
    assert "explanation" not in answer["context"]


async def test_refused_search_can_be_retried(place: SearchPlace) -> None:

    def refuse() -> None:
        raise BusyError("too many searches: retry later")

    place.queries.on_ask = refuse
    response = await place.post("action", search_body("action"))
    assert (response.status, response.headers) == (503, ((b"Retry-After", b"1"),))
    assert response.body == b"too many searches: retry later\n"
    assert place.authorizer.counts["Search"].not_ready == 1


async def test_caller_of_a_question_is_told(tmp_path: Path) -> None:
    """The query process serves callers in turn."""
    place = SearchPlace(tmp_path)
    place.grant(search=OTHER)
    await place.post("action", search_body("action", "other"), caller="other")
    await place.post("action", search_body("action", ITSELF), caller="proxy")
    assert place.queries.callers == [OTHER, PROXY]


async def test_explanation_gives_the_answer_that_was_audited(place: SearchPlace) -> None:
    """The ACLs may have changed by so much that the state of then is not kept."""
    assert json.loads((await explain(place, "alice")).body)["decision"] is True
    place.queries.on_ask = lambda: place.snapshot.publish(snapshot_of())
    response = await explain(place, "alice")
    assert (response.status, response.body) == (
        503,
        b"the ACLs have changed since the decision: retry\n",
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_no_answer_once_a_state_expires(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may have been paused meanwhile."""
    place = SearchPlace(None, READ)

    def expire() -> None:
        monkeypatch.setattr(place.authorizer, "has_expired", lambda _: True)

    place.queries.on_ask = expire
    assert (await place.post(kind, search_body(kind))).status == 503
    assert (await explain(place, "alice")).status == 503
