"""The AuthZEN handler: readiness and long requests. (tests/end_to_end/test_serve has more.)"""

from __future__ import annotations

import json

import msgspec
import pytest
import trio

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot
from authorizerd.actors.published import Published
from authorizerd.daemon.decisions.authzen import (
    AT_ONCE_MAX,
    BYTES_PER_EVALUATION,
    AuthZenHandler,
)
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.protocol.decisions.authzen import Evaluation, Vocabulary, decode_evaluation
from authorizerd.protocol.decisions.discovery import EVALUATION_PATH, EVALUATIONS_PATH
from authorizerd.protocol.http.messages import Request, Response
from tests.support.answers import answer_of
from tests.support.authorizers import read_only_authorizer

VOCABULARY = Vocabulary({"user": "User"}, {"topic": 2})


def new_handler(snapshot: Published[AclSnapshot | None]) -> AuthZenHandler:
    authorizer = read_only_authorizer(snapshot)
    authorizer.configure({"super.users": "User:root"})
    return AuthZenHandler(authorizer, VOCABULARY, Callers(None))


def evaluation(name: str, count: int = 0) -> Request:
    body: dict[str, object] = {
        "subject": {"type": "user", "id": name},
        "action": {"name": "read"},
        "resource": {"type": "topic", "id": "t"},
    }
    one: dict[str, object] = {}
    if count:
        body["evaluations"] = [one] * count
    return Request(
        method="POST",
        path=EVALUATIONS_PATH if count else EVALUATION_PATH,
        query="",
        headers={b"content-type": b"application/json"},
        body=json.dumps(body).encode(),
        keep_alive=True,
    )


@pytest.mark.parametrize("count", [0, 3])
async def test_before_the_acls_are_loaded_only_super_users_are_answered(count: int) -> None:
    """Others get 503 in plain text, because JSON could be cached as a denial."""
    handler = new_handler(Published(None))
    refused = await answer_of(handler(evaluation("alice", count)))
    assert refused.status == 503
    assert refused.body == b"AUTHORIZER_NOT_READY: the ACLs are not loaded yet\n"
    assert refused.content_type.startswith("text/plain")
    assert (await answer_of(handler(evaluation("root", count)))).status == 200


async def test_a_repeated_key_is_rejected_even_if_the_question_is_cached() -> None:
    """A cached answer applies only to the exact bytes of a valid question."""
    handler = new_handler(Published(EMPTY_SNAPSHOT))
    sound = evaluation("root")
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

    monkeypatch.setattr("authorizerd.daemon.decisions.authzen.decode_evaluation", measure)
    one = evaluation("root")
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
async def test_a_long_request_yields_and_keeps_its_snapshot(
    snapshot: AclSnapshot, turns_min: int
) -> None:
    """Snapshots that other tasks publish meanwhile are for later requests."""
    published: Published[AclSnapshot | None] = Published(snapshot)
    handler = new_handler(published)
    answers: list[Response] = []

    async def ask() -> None:
        answers.append(await answer_of(handler(evaluation("root", 1000))))

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
