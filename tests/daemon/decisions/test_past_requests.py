"""Requests about the past: marked answers, today's rights, and clear refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import AclAdded
from authorizerd.acl.snapshot import apply_changes
from authorizerd.daemon.decisions.authzen import AuthZenHandler
from authorizerd.daemon.queries import past_state as past_module
from authorizerd.daemon.queries.acl_list import ACLS_PATH, AclListHandler
from authorizerd.daemon.queries.question_surface import EXPLAIN_PATH, HISTORY_PATH, QuestionHandler
from authorizerd.daemon.queries.search import SearchHandler
from authorizerd.metadata.directory import find_files
from authorizerd.protocol.decisions import past_answers
from authorizerd.protocol.decisions.discovery import EVALUATION_PATH, EVALUATIONS_PATH
from authorizerd.protocol.http.messages import Request, Response
from authorizerd.protocol.http.streamed import StreamedResponse, complete
from tests.daemon.decision_place import OTHER, PROXY, cluster_action
from tests.daemon.decisions.acl_place import read_streamed
from tests.daemon.local_queries import LocalQueries
from tests.daemon.search_place import VOCABULARY, SearchPlace, image_of, search_body
from tests.support.acls import acl, snapshot_of
from tests.support.answers import answer_of
from tests.support.log_files import TIME_MS, acl_id, removed, write_log
from tests.support.requests import evaluation, http_request

TIME = "2026-10-14T17:46:40.000Z"
ALICE, BOB = (
    AclAdded(acl_id(number), acl(f"User:{name}", topic="orders"))
    for number, name in enumerate(("alice", "bob"), 1)
)
REMOVED = {
    "offset": 4,
    "time": TIME,
    "change": "remove",
    "acl": {
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "pattern_type": "LITERAL",
        "principal": "User:alice",
        "host": "*",
        "operation": "READ",
        "permission_type": "ALLOW",
    },
}
ITSELF = PROXY.removeprefix("User:")


class PastPlace(SearchPlace):
    """A decision port over a log: alice may read orders at the offsets 2 and 3, bob from 3 on.

    Args:
        first: an ACL in the place of alice's.
    """

    def __init__(
        self, log_dir: Path, folder: Path | None = None, *, first: AclAdded = ALICE
    ) -> None:
        super().__init__(folder)
        write_log(log_dir, [first], [BOB], [removed(1)], [
            AclAdded(acl_id(9), cluster_action(OTHER)),
        ])  # fmt: skip
        self.log_dir = log_dir
        newest = snapshot_of(offset=5)
        for each in (BOB, AclAdded(acl_id(9), cluster_action(OTHER))):
            newest = apply_changes(newest, [each])
        self.snapshot.publish(newest)
        self.queries = LocalQueries(self.snapshot, self.image, log_dir)
        parts = (self.authorizer, VOCABULARY, self.callers, self.queries)
        self.authzen = AuthZenHandler(*parts, explains=True)
        self.explain = QuestionHandler(EXPLAIN_PATH, *parts)
        self.history = QuestionHandler(HISTORY_PATH, *parts)
        self.searches = SearchHandler(*parts)
        self.list = AclListHandler(self.authorizer, self.callers, self.queries)

    async def ask(
        self, document: object, path: str = EVALUATION_PATH, caller: str = ""
    ) -> Response:
        request = http_request(path, document, caller=caller)
        handlers = {HISTORY_PATH: self.history, EXPLAIN_PATH: self.explain}
        return await answer_of(handlers.get(path, self.authzen)(request))

    async def answer(self, document: object, path: str = EVALUATION_PATH) -> Any:  # noqa: ANN401 - JSON
        response = await self.ask(document, path)
        assert response.status == 200, response.body
        return json.loads(response.body)


@pytest.fixture
def place(tmp_path: Path) -> PastPlace:
    """Return a port that trusts every caller."""
    return PastPlace(tmp_path)


def past_evaluation(as_of: object, user: str = "alice", **context: object) -> dict[str, Any]:
    return {**evaluation(user), "context": {"as_of": as_of, **context}}


async def test_answer_is_that_of_then_and_says_so(place: PastPlace) -> None:
    """If the newest answer is another one, the change that led to it is named."""
    found = await place.answer(past_evaluation(3))
    assert found["decision"] is True
    assert found["context"]["offset"] == 3
    assert found["context"]["rule"].startswith("MatchingAcl(acl=StandardAcl[")
    assert found["context"]["as_of"] == {
        "offset": 3,
        "time": TIME,
        "settings": "today's",
        "now": {"decision": False, "offset": 5, "since": REMOVED},
    }
    assert (await place.answer(evaluation()))["decision"] is False


async def test_same_answer_as_now_has_no_difference(place: PastPlace) -> None:
    for as_of in (4, "4", TIME, TIME_MS):
        found = await place.answer(past_evaluation(as_of))
        assert found["decision"] is False
        assert "now" not in found["context"]["as_of"]


async def test_batch_is_about_one_moment(place: PastPlace) -> None:
    """It states the moment once. An evaluation with another one is a denial."""
    items = [
        {"subject": {"type": "user", "id": "alice"}},
        {"subject": {"type": "user", "id": "bob"}},
        {"context": {"host": "10.0.0.1"}},
        {"context": {"as_of": 2}},
        {"context": {"as_of": 3}},
        {"subject": {"type": "user", "id": "*"}},
    ]
    found = await place.answer(past_evaluation(2) | {"evaluations": items}, EVALUATIONS_PATH)
    answers = found["evaluations"]
    assert [each["decision"] for each in answers] == [True, False, True, True, False, False]
    moment = {"offset": 2, "time": TIME, "settings": "today's"}
    assert [each["context"].get("as_of") for each in answers[:4]] == [moment] * 4
    assert answers[4]["context"]["error"] == {
        "status": 400,
        "message": "context.as_of: state it once, in the context of the whole batch",
    }
    assert answers[5]["context"]["error"]["status"] == 400


async def test_moment_of_one_evaluation_is_not_ignored(place: PastPlace) -> None:
    """A batch about now must not answer it by the ACLs of now."""
    body = evaluation() | {"evaluations": [{"context": {"as_of": 3}}]}
    found = await place.answer(body, EVALUATIONS_PATH)
    assert found["evaluations"][0]["decision"] is False
    assert "state it once" in found["evaluations"][0]["context"]["error"]["message"]


async def test_batch_without_evaluations_is_a_question(tmp_path: Path) -> None:
    found = await PastPlace(tmp_path).answer(past_evaluation(3), EVALUATIONS_PATH)
    assert found["context"]["as_of"]["offset"] == 3


@pytest.mark.parametrize(
    ("as_of", "reason"),
    [
        (6, "offset 6 is in the future: the newest one is 5"),
        (-1, "context.as_of: expected an offset of the log"),
        ("yesterday", "context.as_of: expected an offset of the log"),
        ("2026-10-14", "context.as_of: '2026-10-14' has no time zone"),
        (TIME_MS - 1, "is too old: the log reaches back to offset 0 ("),
        (TIME_MS + 2, "is in the future: it is 2026-10-14T17:46:40.001Z now"),
        (True, "time with its zone, found a boolean"),
        (
            7.5,
            "context.as_of: expected an offset, milliseconds since 1970 or a time with its zone,"
            " found a number with a fraction or an exponent",
        ),
        (TIME_MS // 1000, "the newest one is 5; a time needs milliseconds since 1970, not seconds"),
        (999_999_999, "the newest one is 5\n"),
    ],
)
async def test_unusable_moment_is_refused(place: PastPlace, as_of: object, reason: str) -> None:
    """For every kind of question, and never answered by the ACLs of now."""
    search = search_body("subject", topic="orders") | {"context": {"as_of": as_of}}
    responses = [
        await place.ask(past_evaluation(as_of)),
        await place.ask(past_evaluation(as_of), EXPLAIN_PATH),
        await place.ask(past_evaluation(as_of) | {"evaluations": [{}]}, EVALUATIONS_PATH),
        await place.post("subject", search, handler=place.searches),
    ]
    for response in responses:
        assert response.status == 400
        assert reason in response.body.decode()


async def test_unreadable_log_is_unavailable(place: PastPlace) -> None:
    """Decisions about now go on."""
    find_files(place.log_dir).segments[0].path.unlink()
    response = await place.ask(past_evaluation(3))
    assert (response.status, dict(response.headers)[b"Retry-After"]) == (503, b"1")
    assert b"the log cannot be read" in response.body
    assert (await place.answer(evaluation("bob")))["decision"] is True


@pytest.mark.parametrize(
    ("rights", "path", "user", "missing"),
    [
        ("ask search", EVALUATION_PATH, ITSELF, "read"),
        ("read", EVALUATION_PATH, ITSELF, None),
        ("read", EVALUATION_PATH, "alice", "ask"),
        ("ask search", EVALUATION_PATH, "alice", "read"),
        ("ask read", EVALUATION_PATH, "alice", None),
        ("ask search", EVALUATIONS_PATH, ITSELF, "read"),
        ("read", EVALUATIONS_PATH, ITSELF, None),
        ("ask read", EXPLAIN_PATH, ITSELF, "search"),
        ("ask search", EXPLAIN_PATH, ITSELF, "read"),
        ("search read", EXPLAIN_PATH, "alice", None),
        ("ask search", HISTORY_PATH, ITSELF, "read"),
        ("read", HISTORY_PATH, "alice", None),
        ("ask read", "subject", "alice", "search"),
        ("ask search", "subject", "alice", "read"),
        ("search read", "subject", "alice", None),
        ("ask search", "action", ITSELF, "read"),
        ("read", "action", ITSELF, None),
        ("ask read", "action", "alice", "search"),
    ],
)
async def test_question_about_the_past_needs_the_right_to_read(
    rights: str, path: str, user: str, missing: str | None, tmp_path: Path
) -> None:
    """Besides the right that it needs anyway. Neither the ACLs of then nor of now give any."""
    place = PastPlace(tmp_path / "log", tmp_path, first=AclAdded(acl_id(1), cluster_action(PROXY)))
    place.grant(**dict.fromkeys(rights.split(), PROXY))
    document = past_evaluation(3, user)
    if path in ("subject", "action"):
        body = search_body(path, user, topic="orders") | {"context": {"as_of": 3}}
        response = await place.post(path, body, caller="proxy", handler=place.searches)
    else:
        if path == EVALUATIONS_PATH:
            document |= {"evaluations": [{}]}
        response = await place.ask(document, path, caller="proxy")
    if missing is None:
        assert response.status == 200
        assert b"error" not in response.body
    else:
        assert response.status == 403
        assert f"authorizerd.callers.{missing} does not list it" in response.body.decode()


async def test_batch_about_the_past_checks_each_question(tmp_path: Path) -> None:
    place = PastPlace(tmp_path / "log", tmp_path)
    place.grant(read=PROXY)
    batch = past_evaluation(3) | {"evaluations": [{}]}
    found = json.loads((await place.ask(batch, EVALUATIONS_PATH, caller="proxy")).body)
    assert found["evaluations"][0]["context"]["error"]["status"] == 403
    explained = past_evaluation(3, ITSELF, explain=True)
    assert (await place.ask(explained, caller="proxy")).status == 403
    assert (await place.ask(past_evaluation(3))).status == 401


async def test_acl_of_another_principal_that_made_the_difference_is_shown(tmp_path: Path) -> None:
    """With allow.everyone.if.no.acl.found. A caller that asks about the past may read ACLs."""
    place = PastPlace(tmp_path / "log", tmp_path)
    place.grant(read=PROXY)
    place.authorizer.reconfigure({"allow.everyone.if.no.acl.found": "true"})
    found = json.loads((await place.ask(past_evaluation(1, ITSELF), caller="proxy")).body)
    now = found["context"]["as_of"]["now"]
    assert (found["decision"], now["decision"]) == (True, False)
    assert now["since"]["acl"]["principal"] == "User:alice"


async def test_answers_are_counted_apart_and_not_audited(place: PastPlace) -> None:
    """Nobody enforces them, so they do not count as traffic."""
    await place.answer(past_evaluation(3))
    await place.answer(past_evaluation(4))
    await place.ask(past_evaluation(9))
    counts = place.authorizer.counts
    past = counts["Past"]
    assert (past.allowed, past.denied, past.invalid, past.not_ready) == (1, 1, 1, 0)
    assert counts["AuthZEN"].allowed == counts["AuthZEN"].denied == 0
    assert not place.audit_log.events


async def test_explanation_is_about_then(place: PastPlace) -> None:
    found = await place.answer(past_evaluation(3), EXPLAIN_PATH)
    assert (found["decision"], found["offset"], found["as_of"]["offset"]) == (True, 3, 3)
    assert found["as_of"]["now"]["since"] == REMOVED
    assert "as_of" not in await place.answer(evaluation(), EXPLAIN_PATH)
    both = await place.answer(past_evaluation(3, explain=True))
    assert both["context"]["explanation"]["offset"] == both["context"]["as_of"]["offset"] == 3


@pytest.mark.parametrize(
    ("as_of", "found"), [(1, ["root"]), (2, ["alice", "root"]), (3, ["alice", "bob", "root"])]
)
async def test_search_is_about_then(place: PastPlace, as_of: int, found: list[str]) -> None:
    """Also its later pages."""
    body = search_body("subject", topic="orders") | {"context": {"as_of": as_of}}
    names = []
    token = ""
    while True:
        page = {"token": token} if token else {"limit": 1}
        response = await place.post("subject", body | {"page": page}, handler=place.searches)
        answer = json.loads(response.body)
        moment = {"offset": as_of, "time": TIME, "settings": "today's"}
        assert (answer["context"]["offset"], answer["context"]["as_of"]) == (as_of, moment)
        names += [each["id"] for each in answer["results"]]
        token = answer["page"]["next_token"]
        if not token:
            break
    assert names == found


@pytest.mark.parametrize(("caller", "found"), [("proxy", ["*"]), ("root", ["*", "new", "orders"])])
async def test_names_of_today_are_shown_by_the_rights_of_now(
    tmp_path: Path, caller: str, found: list[str]
) -> None:
    """A caller that may no longer describe topics does not learn which have been added since."""
    place = PastPlace(
        tmp_path / "log", tmp_path, first=AclAdded(acl_id(1), acl(PROXY, "READ", topic="*"))
    )
    place.image.publish(image_of("new"))
    place.grant(read=PROXY)
    body = search_body("resource", PROXY.removeprefix("User:")) | {"context": {"as_of": 3}}
    response = await place.post("resource", body, caller=caller, handler=place.searches)
    assert [each["id"] for each in json.loads(response.body)["results"]] == found


async def test_page_of_another_moment_is_refused(place: PastPlace) -> None:
    body = search_body("subject", topic="orders", limit=1) | {"context": {"as_of": 3}}
    first = json.loads((await place.post("subject", body, handler=place.searches)).body)
    page = {"page": {"token": first["page"]["next_token"]}}
    for context in ({"as_of": 2}, {}):
        other = body | page | {"context": context}
        response = await place.post("subject", other, handler=place.searches)
        assert (response.status, b"page.token" in response.body) == (400, True)


def list_request(query: str, caller: str = "root") -> Request:
    return http_request(ACLS_PATH, method="GET", query=query, caller=caller)


async def written(response: Response | StreamedResponse) -> list[Any]:
    """Return the lines of a listing."""
    return [json.loads(line) for line in (await read_streamed(response)).splitlines()]


@pytest.mark.parametrize("as_of", ["3", TIME.replace(":", "%3A")])
async def test_listing_is_about_then(tmp_path: Path, as_of: str) -> None:
    place = PastPlace(tmp_path / "log", tmp_path)
    lines = await written(
        await complete(place.list(list_request(f"as_of={as_of}&resource_type=topic")))
    )
    offset = 3 if as_of == "3" else 5
    moment = {"offset": offset, "time": TIME, "settings": "today's"}
    names = ["User:alice", "User:bob"] if as_of == "3" else ["User:bob"]
    assert lines[0] == {"offset": offset, "as_of": moment}
    assert sorted(line["acl"]["principal"] for line in lines[1:-1]) == names
    assert lines[-1] == {"count": len(names)}
    assert (await written(await complete(place.list(list_request("")))))[0] == {"offset": 5}


@pytest.mark.parametrize(
    ("query", "caller", "status", "reason"),
    [
        ("as_of=6", "root", 400, b"offset 6 is in the future"),
        ("as_of=now", "root", 400, b"as_of: expected an offset of the log"),
        ("as_of=no+w", "root", 400, b"found 'no w'\n"),
        ("as_of=2026-01-02T03:04:05+01:00", "root", 400, b"01:00'; in a URL, encode + as %2B\n"),
        ("as_of=3", "proxy", 403, b"may not list or watch ACLs"),
        ("as_of=3", "nobody", 401, b""),
    ],
)
async def test_listing_of_the_past_needs_the_right_of_now(
    tmp_path: Path, query: str, caller: str, status: int, reason: bytes
) -> None:
    place = PastPlace(tmp_path / "log", tmp_path)
    response = await complete(place.list(list_request(query, caller)))
    assert isinstance(response, Response)
    assert (response.status, reason in response.body) == (status, True)


async def test_listing_of_an_unreadable_past_is_unavailable(tmp_path: Path) -> None:
    """If the log becomes unreadable later, the listing ends without its last line."""
    place = PastPlace(tmp_path / "log", tmp_path)
    begun = await complete(place.list(list_request("as_of=3")))
    find_files(place.log_dir).segments[0].path.unlink()
    assert len(await written(begun)) == 4
    refused = await complete(place.list(list_request("as_of=2")))
    assert isinstance(refused, Response)
    assert (refused.status, dict(refused.headers)[b"Retry-After"]) == (503, b"1")


@given(st.integers(0, 9) | st.sampled_from(["3", TIME, ""]), st.text(':"{},a', max_size=9))
@pytest.mark.parametrize("is_batch", [False, True])
async def test_without_a_past_a_moment_is_refused(is_batch: bool, as_of: object, user: str) -> None:
    """It must never be ignored: nothing is decided by the newest state."""
    place = SearchPlace(None)
    document = past_evaluation(as_of, user)
    path = EVALUATIONS_PATH if is_batch else EVALUATION_PATH
    request = http_request(path, {"evaluations": [document]} if is_batch else document)
    handler = AuthZenHandler(place.authorizer, VOCABULARY, place.callers)
    answer = await answer_of(handler(request))
    assert answer.status == (200 if is_batch else 400)
    assert not is_batch or b'"decision":false,"context":{"error"' in answer.body
    assert not place.audit_log.lines


@pytest.mark.parametrize("changes_max", [past_module.CHANGES_MAX, 1])
@pytest.mark.parametrize(
    ("user", "as_of", "answers"),
    [
        ("alice", 0, [(False, 0, None), (True, 2, "add"), (False, 4, "remove")]),
        ("alice", 2, [(True, 2, None), (False, 4, "remove")]),
        ("alice", 4, [(False, 4, None)]),
        ("bob", 1, [(False, 1, None), (True, 3, "add")]),
        ("eve", 0, [(False, 0, None)]),
    ],
)
async def test_history_has_every_answer_since_a_moment(
    user: str,
    as_of: int,
    answers: list[tuple[bool, int, str | None]],
    changes_max: int,
    place: PastPlace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oracle asks about each offset. Too many changes for a state are not too many here."""
    with monkeypatch.context() as patch:
        patch.setattr(past_module, "CHANGES_MAX", changes_max)
        found = await place.answer(past_evaluation(as_of, user), HISTORY_PATH)
    assert [
        (each["decision"], each["offset"], each["change"] and each["change"]["change"])
        for each in found["answers"]
    ] == answers
    assert (found["begin"]["offset"], found["end"], found["answers_left_out"]) == (as_of, 5, 0)
    assert found["settings"] == "today's"
    for offset in range(as_of, 6):
        then = await place.answer(past_evaluation(offset, user))
        assert then["decision"] == [one[0] for one in answers if one[1] <= offset][-1]


async def test_history_limits_its_acls(place: PastPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "CHANGES_MAX", 0)
    response = await place.ask(past_evaluation(0, "alice"), HISTORY_PATH)
    assert response.status == 400
    assert b"more than 0 ACLs concern the question" in response.body


async def test_change_in_a_history_is_shown_whole(tmp_path: Path) -> None:
    found = await PastPlace(tmp_path).answer(past_evaluation(2), HISTORY_PATH)
    assert found["answers"][1] == {"decision": False, "offset": 4, "time": TIME, "change": REMOVED}


async def test_only_the_latest_answers_of_a_history_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_answers, "ANSWERS_MAX", 1)
    found = await PastPlace(tmp_path).answer(past_evaluation(0), HISTORY_PATH)
    assert [each["offset"] for each in found["answers"]] == [0, 4]
    assert found["answers_left_out"] == 1


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (evaluation(), "context.as_of: expected the moment at which the history begins"),
        (past_evaluation("soon"), "context.as_of:"),
        (past_evaluation(99), "offset 99 is in the future"),
        (past_evaluation(2, "*"), "User:*"),
        ({}, "is missing"),
    ],
)
async def test_invalid_history_is_refused(
    document: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    response = await PastPlace(tmp_path).ask(document, HISTORY_PATH)
    assert response.status == 400
    assert reason in response.body.decode()
