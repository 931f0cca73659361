"""The AuthZEN handler: readiness, callers with tokens, repeated questions and long requests."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot
from authorizerd.actors.plugged_authorizer import PluggedAuthorizer
from authorizerd.actors.published import Published
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.decisions.authzen import AT_ONCE_MAX, BYTES_PER_EVALUATION, AuthZenHandler
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.protocol.decisions.authzen import Evaluation, Vocabulary, decode_evaluation
from authorizerd.protocol.decisions.discovery import EVALUATION_PATH, EVALUATIONS_PATH
from authorizerd.protocol.http.messages import Request, Response
from tests.daemon.decision_place import OTHER, PROXY, Place, authzen_handler, cluster_action, entry
from tests.support.acls import acl, snapshot_of
from tests.support.answers import answer_of
from tests.support.authorizers import Plug
from tests.support.requests import evaluation, http_request

VOCABULARY = Vocabulary({"user": "User"}, {"topic": 2})


def new_handler(snapshot: Published[AclSnapshot | None]) -> AuthZenHandler:
    authorizer = StandardAuthorizer(snapshot)
    authorizer.configure({"super.users": "User:root"})
    return AuthZenHandler(authorizer, VOCABULARY, Callers(None))


def asked(name: str, count: int = 0) -> Request:
    body = evaluation(name, topic="t")
    if count:
        body["evaluations"] = [{}] * count
    return http_request(EVALUATIONS_PATH if count else EVALUATION_PATH, body)


async def test_a_repeated_key_is_rejected_even_if_the_question_is_cached() -> None:
    """A cached answer applies only to the exact bytes of a valid question."""
    handler = new_handler(Published(EMPTY_SNAPSHOT))
    sound = asked("root")
    repeated = sound.body.replace(b'"id": "root"', b'"id": "alice", "id": "root"')
    for body, status in ((sound.body, 200), (repeated, 400), (repeated, 400), (sound.body, 200)):
        answer = await answer_of(handler(msgspec.structs.replace(sound, body=body)))
        assert answer.status == status
        if status == 400:
            assert answer.body == b"invalid JSON: the key 'id' occurs twice in an object\n"
    many = b'{"evaluations": [%b, %b, %b]}' % (sound.body, repeated, sound.body)
    answer = await answer_of(
        handler(msgspec.structs.replace(sound, path=EVALUATIONS_PATH, body=many))
    )
    decisions = json.loads(answer.body)["evaluations"]
    assert [one["decision"] for one in decisions] == [True, False, True]
    assert "'id' occurs twice" in decisions[1]["context"]["error"]["message"]
    assert handler._authorizer.counts["AuthZEN"].invalid == 3


@pytest.mark.parametrize(("count", "size"), [(60, 4000), (8, 32_000), (500, 400)])
async def test_a_long_request_yields_by_the_length_of_its_evaluations(
    count: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text that one slice reads is bounded, however few evaluations it has."""
    handler = new_handler(Published(EMPTY_SNAPSHOT))
    read = longest = 0

    def measure(text: bytes) -> Evaluation:
        nonlocal read
        read += len(text)
        return decode_evaluation(text)

    monkeypatch.setattr("authorizerd.protocol.decisions.authzen_batches.decode_evaluation", measure)
    one = asked("root")
    filled = one.body[:-1] + b', "x": "%b"}' % (b"y" * (size - len(one.body)))
    body = b'{"evaluations": [%b]}' % b",".join([filled] * count)
    answers: list[Response] = []

    async def ask() -> None:
        request = msgspec.structs.replace(one, path=EVALUATIONS_PATH, body=body)
        answers.append(await answer_of(handler(request)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        while not answers:
            before = read
            await trio.lowlevel.checkpoint()
            longest = max(longest, read - before)
    assert json.loads(answers[0].body)["evaluations"][count - 1]["decision"]
    # The event loop shuffles its tasks.
    assert longest <= 2 * (size + 100 + AT_ONCE_MAX * BYTES_PER_EVALUATION)


def with_prefixes(count: int) -> AclSnapshot:
    """Return a snapshot with prefixes of ``count`` lengths."""
    acls = (Acl(2, "p" * size, 4, "User:a", "*", 3, 3) for size in range(1, count + 1))
    return build([AclAdded(number.to_bytes(16), acl) for number, acl in enumerate(acls)], -1)


@pytest.mark.parametrize(
    ("snapshot", "turns_min"),
    [(EMPTY_SNAPSHOT, 5), (with_prefixes(200), 100)],
    ids=["few lookups", "many lookups"],
)
async def test_long_request_yields_keeps_snapshot(snapshot: AclSnapshot, turns_min: int) -> None:
    """Snapshots that other tasks publish meanwhile are for later requests."""
    published: Published[AclSnapshot | None] = Published(snapshot)
    handler = new_handler(published)
    answers: list[Response] = []

    async def ask() -> None:
        answers.append(await answer_of(handler(asked("root", 1000))))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        for _ in range(2):  # the event loop shuffles its tasks, and the handler must begin first
            await trio.lowlevel.checkpoint()
        turns = 0
        while not answers:
            published.publish(None)
            turns += 1
            await trio.lowlevel.checkpoint()
    assert turns >= turns_min
    answered = json.loads(answers[0].body)["evaluations"]
    assert {one["context"]["offset"] for one in answered} == {EMPTY_SNAPSHOT.offset}
    assert len(answered) == 1000


READ = acl("User:alice", "READ", topic="t")
REFUSAL = "User:a proxy may not ask about others: authorizerd.callers.ask does not list it"
ITSELF, ALICE = PROXY.removeprefix("User:"), "alice"


def about(name: str) -> dict[str, Any]:
    return evaluation(name, topic="t")


async def ask(handler: AuthZenHandler, authorization: str | None, *names: str) -> Response:
    """Ask about one principal, or about several at once."""
    lines = {b"content-type": b"application/json"}
    if authorization is not None:
        lines[b"authorization"] = authorization.encode()
    one = len(names) == 1
    body = about(names[0]) if one else {"evaluations": [about(name) for name in names]}
    path = EVALUATION_PATH if one else EVALUATIONS_PATH
    request = http_request(path, body, query="token=proxy.secret", headers=lines)
    return await answer_of(handler(request))


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer proxy.wrong", "Basic proxy.secret", "proxy.secret"],
)
@pytest.mark.parametrize("names", [(ITSELF,), (ITSELF, ITSELF)])
async def test_without_a_valid_token_nothing_is_answered(
    authorization: str | None, names: tuple[str, ...], tmp_path: Path
) -> None:
    """The answer is 401 with the challenge, in plain text. A token in the query is ignored."""
    response = await ask(authzen_handler(Place(tmp_path)), authorization, *names)
    assert response.status == 401
    assert response.headers == ((b"WWW-Authenticate", b"Bearer"),)
    assert response.content_type.startswith("text/plain")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
async def test_a_caller_is_answered_about_itself(scheme: str, tmp_path: Path) -> None:
    """The scheme's name is case-insensitive."""
    place = Place(tmp_path, acl(PROXY, "READ", topic="t"))
    response = await ask(authzen_handler(place), f"{scheme} proxy.secret", ITSELF)
    assert response.status == 200
    assert json.loads(response.body)["decision"] is True


async def test_asking_about_others_requires_the_right_to_ask(tmp_path: Path) -> None:
    """Without it, the answer is 403 in plain text, and no question is counted as decided."""
    place = Place(tmp_path, READ, cluster_action(PROXY))
    place.grant(ask=OTHER, search=PROXY, read=PROXY)
    handler = authzen_handler(place)
    refused = await ask(handler, "Bearer proxy.secret", ALICE)
    assert (refused.status, refused.content_type) == (403, "text/plain; charset=utf-8")
    assert refused.body == f"{REFUSAL}\n".encode()
    counts = place.authorizer.counts["AuthZEN"]
    assert (counts.allowed, counts.denied, counts.invalid) == (0, 0, 1)
    answered = await ask(handler, "Bearer other.secret", ALICE)
    assert json.loads(answered.body)["decision"] is True
    assert (await ask(handler, "Bearer proxy.secret", ALICE)).status == 403


async def test_refusal_shows_only_the_beginning_of_a_long_principal(tmp_path: Path) -> None:
    """A certificate's name may be long, and a batch repeats the refusal for each question."""
    place = Place(tmp_path, READ)
    place.rewrite_tokens(entry("proxy", "User:" + "p" * 300))
    place.callers.prepare_reload()()
    refused = await ask(authzen_handler(place), "Bearer proxy.secret", ALICE)
    assert refused.body.split()[0] == b"User:" + b"p" * 195


async def test_the_right_to_ask_is_checked_for_each_evaluation(tmp_path: Path) -> None:
    """A forbidden one is a denial with status 403, and reveals nothing else."""
    handler = authzen_handler(Place(tmp_path, READ, acl(PROXY, "READ", topic="t")))
    response = await ask(handler, "Bearer proxy.secret", ITSELF, ALICE, ITSELF)
    assert response.status == 200
    first, second, third = json.loads(response.body)["evaluations"]
    assert first["decision"] is third["decision"] is True
    assert second == {"decision": False, "context": {"error": {"status": 403, "message": REFUSAL}}}


@pytest.mark.parametrize("count", [1, 2])
async def test_only_super_users_are_judged_before_loading(count: int, tmp_path: Path) -> None:
    """Others get 503 in plain text, because JSON could be cached as a denial.

    A caller without the right is refused already.
    """
    place = Place(tmp_path, loaded=False)
    place.grant(ask=OTHER)
    handler = authzen_handler(place)
    for token, name, status in (
        ("other", ALICE, 503),
        ("root", ALICE, 503),
        ("proxy", ITSELF, 503),
        ("other", "root", 200),
        ("root", "root", 200),
    ):
        response = await ask(handler, f"Bearer {token}.secret", *(name,) * count)
        assert response.status == status
        if status == 503:
            assert response.body == b"AUTHORIZER_NOT_READY: the ACLs are not loaded yet\n"
            assert response.content_type.startswith("text/plain")
    refused = await ask(handler, "Bearer proxy.secret", *("root",) * count)
    assert b"may not ask about others" in refused.body


async def test_refusal_is_audited(tmp_path: Path) -> None:
    """Its line names the caller, and no decision: the operation is ANY."""
    place = Place(tmp_path, READ)
    await ask(authzen_handler(place), "Bearer proxy.secret", ALICE)
    assert place.audit_log.lines == [
        "INFO Principal = User:a proxy is Denied operation = ANY from host = unknown"
        " on resource = Cluster:LITERAL:kafka-cluster for request = AuthZEN"
        " with resourceRefCount = 1 based on rule Callers"
    ]


DENIED = acl("User:alice", "READ", topic="t", deny=True)
ABOUT_ALICE = about(ALICE)


async def answers_to(
    handler: AuthZenHandler, *evaluations: dict[str, Any], **defaults: dict[str, str]
) -> list[Any]:
    """Return the answers; one evaluation is sent alone, several are sent together."""
    is_one = len(evaluations) == 1 and not defaults
    body = evaluations[0] if is_one else {**defaults, "evaluations": evaluations}
    request = http_request(EVALUATION_PATH if is_one else EVALUATIONS_PATH, body, caller="a")
    response = await answer_of(handler(request))
    answered = json.loads(response.body)
    return [answered] if is_one else list(answered["evaluations"])


async def test_a_repeated_question_is_counted_and_audited_each_time() -> None:
    place = Place(None, READ)
    handler = authzen_handler(place)
    first = await answers_to(handler, ABOUT_ALICE)
    assert await answers_to(handler, ABOUT_ALICE) == first
    assert await answers_to(handler, ABOUT_ALICE, ABOUT_ALICE) == first * 2
    assert place.authorizer.counts_of("AuthZEN").allowed == 4
    assert len(place.audit_log.lines) == 4
    assert len(set(place.audit_log.lines)) == 1


async def test_a_change_of_acls_changes_the_next_answer() -> None:
    """Neither an allow nor a denial of an older snapshot is given."""
    place = Place(None, READ)
    handler = authzen_handler(place)
    assert (await answers_to(handler, ABOUT_ALICE))[0]["decision"] is True
    place.snapshot.publish(snapshot_of(READ, DENIED))
    assert (await answers_to(handler, ABOUT_ALICE))[0]["decision"] is False
    place.snapshot.publish(snapshot_of(READ))
    assert (await answers_to(handler, ABOUT_ALICE))[0]["decision"] is True


async def test_a_change_of_settings_changes_the_next_answer() -> None:
    """A change of super.users applies from the next request on."""
    place = Place(None)
    handler = authzen_handler(place)
    assert (await answers_to(handler, ABOUT_ALICE))[0]["decision"] is False
    place.authorizer.reconfigure({"super.users": "User:alice"})
    assert (await answers_to(handler, ABOUT_ALICE))[0]["decision"] is True
    place.authorizer.reconfigure({"super.users": ""})
    assert (await answers_to(handler, ABOUT_ALICE))[0]["decision"] is False


async def test_a_plugged_in_authorizer_is_asked_each_time() -> None:
    """A plug-in's answers may depend on anything."""
    plug = Plug([True])
    place = Place(None)
    authorizer = PluggedAuthorizer(
        plug, name="plug", snapshot=place.snapshot, on_failure=lambda error: None
    )
    handler = AuthZenHandler(authorizer, VOCABULARY, Callers(None))
    assert (await answers_to(handler, ABOUT_ALICE))[0]["decision"] is True
    plug.answers = [False]
    assert (await answers_to(handler, ABOUT_ALICE))[0]["decision"] is False
    assert len(plug.asked) == 2


async def test_an_evaluation_has_the_defaults_of_its_own_request() -> None:
    """With other defaults, the same text is another question."""
    handler = authzen_handler(Place(None, READ))
    bare = {"action": {"name": "read"}, "resource": {"type": "topic", "id": "t"}}
    alice, bob = ({"type": "user", "id": name} for name in ("alice", "bob"))
    assert (await answers_to(handler, bare, subject=alice))[0]["decision"] is True
    assert (await answers_to(handler, bare, subject=bob))[0]["decision"] is False
    assert (await answers_to(handler, bare, subject=alice))[0]["decision"] is True
