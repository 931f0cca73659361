"""A repeated question gets the same answer, unless the state has changed in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.decision import DEFAULT_ALLOW, DEFAULT_DENY
from authorizerd.acl.model import Acl, Operation, Question, ResourceType
from authorizerd.actors.decider import DecisionState
from authorizerd.actors.plugged_authorizer import PluggedAuthorizer
from authorizerd.daemon.decisions.answer_cache import (
    ANSWER_BYTES_MAX,
    QUESTION_BYTES_MAX,
    AnswerCache,
    Answered,
)
from authorizerd.daemon.decisions.authzen import EVALUATION_PATH, EVALUATIONS_PATH, AuthZenHandler
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.protocol.decisions.authzen import Vocabulary
from authorizerd.protocol.http.messages import Request
from tests.daemon.decision_place import Place, authzen_handler
from tests.support.acls import acl, snapshot_of
from tests.support.authorizers import Plug
from tests.support.requests import evaluation

VOCABULARY = Vocabulary({"user": "User"}, {"topic": 2})
READ = acl("User:alice", "READ", topic="t")
DENIED = acl("User:alice", "READ", topic="t", deny=True)
QUESTION = Question("User:alice", None, Operation.READ, ResourceType.TOPIC, "t")
ALICE = evaluation("alice", topic="t")
ANSWERED = Answered(QUESTION, DEFAULT_DENY, b"{}")


async def ask(
    handler: AuthZenHandler, *evaluations: dict[str, Any], **defaults: dict[str, str]
) -> list[Any]:
    """Return the answers; one evaluation is sent alone, several are sent together."""
    is_one = len(evaluations) == 1 and not defaults
    body = evaluations[0] if is_one else {**defaults, "evaluations": evaluations}
    response = await handler(
        Request(
            method="POST",
            path=EVALUATION_PATH if is_one else EVALUATIONS_PATH,
            query="",
            headers={b"content-type": b"application/json", b"authorization": b"Bearer a.secret"},
            body=json.dumps(body).encode(),
            keep_alive=True,
        )
    )
    answered = json.loads(response.body)
    return [answered] if is_one else list(answered["evaluations"])


async def test_a_repeated_question_is_counted_and_audited_each_time() -> None:
    place = Place(None, READ)
    handler = authzen_handler(place)
    first = await ask(handler, ALICE)
    assert await ask(handler, ALICE) == first
    assert await ask(handler, ALICE, ALICE) == first * 2
    assert place.authorizer.counts_of("AuthZEN").allowed == 4
    assert len(place.audit_log.lines) == 4
    assert len(set(place.audit_log.lines)) == 1


async def test_a_change_of_acls_changes_the_next_answer() -> None:
    """Neither an allow nor a denial of an older snapshot is given."""
    place = Place(None, READ)
    handler = authzen_handler(place)
    assert (await ask(handler, ALICE))[0]["decision"] is True
    place.snapshot.publish(snapshot_of(READ, DENIED))
    assert (await ask(handler, ALICE))[0]["decision"] is False
    place.snapshot.publish(snapshot_of(READ))
    assert (await ask(handler, ALICE))[0]["decision"] is True


async def test_a_change_of_settings_changes_the_next_answer() -> None:
    """A change of super.users applies from the next request on."""
    place = Place(None)
    handler = authzen_handler(place)
    assert (await ask(handler, ALICE))[0]["decision"] is False
    place.authorizer.reconfigure({"super.users": "User:alice"})
    assert (await ask(handler, ALICE))[0]["decision"] is True
    place.authorizer.reconfigure({"super.users": ""})
    assert (await ask(handler, ALICE))[0]["decision"] is False


async def test_a_cached_answer_is_given_only_to_callers_that_may_ask(tmp_path: Path) -> None:
    """The right to ask is checked each time."""
    place = Place(tmp_path, READ)
    handler = authzen_handler(place)

    async def status(holder: str) -> int:
        request = Request(
            method="POST",
            path=EVALUATION_PATH,
            query="",
            headers={
                b"content-type": b"application/json",
                b"authorization": f"Bearer {holder}.secret".encode(),
            },
            body=json.dumps(ALICE).encode(),
            keep_alive=True,
        )
        return (await handler(request)).status

    assert [await status(holder) for holder in ("root", "other", "root")] == [200, 403, 200]


async def test_a_plugged_in_authorizer_is_asked_each_time() -> None:
    """A plug-in's answers may depend on anything. Only their encoding is cached."""
    plug = Plug([True])
    place = Place(None)
    authorizer = PluggedAuthorizer(
        plug, name="plug", snapshot=place.snapshot, on_failure=lambda error: None
    )
    handler = AuthZenHandler(authorizer, VOCABULARY, Callers(authorizer, None))
    assert (await ask(handler, ALICE))[0]["decision"] is True
    plug.answers = [False]
    assert (await ask(handler, ALICE))[0]["decision"] is False
    assert len(plug.asked) == 2


async def test_an_evaluation_with_defaults_is_not_cached() -> None:
    """With other defaults, the same text is another question."""
    place = Place(None, READ)
    handler = authzen_handler(place)
    bare = {"action": {"name": "read"}, "resource": {"type": "topic", "id": "t"}}
    alice, bob = ({"type": "user", "id": name} for name in ("alice", "bob"))
    assert (await ask(handler, bare, subject=alice))[0]["decision"] is True
    assert (await ask(handler, bare, subject=bob))[0]["decision"] is False
    assert (await ask(handler, bare, subject=alice))[0]["decision"] is True


def test_the_oldest_answer_is_replaced_and_long_ones_are_not_kept() -> None:
    """The cache is bounded, in number and in size."""
    cache = AnswerCache(answers_max=2)
    now = cache.generation_of(
        DecisionState(snapshot_of(), Place(None).authorizer.current_state().settings)
    )
    for text in (b"a", b"b", b"c"):
        cache.keep(text, now, ANSWERED)
    assert [cache.find(text, now) for text in (b"a", b"b", b"c")] == [None, ANSWERED, ANSWERED]
    long = b"x" * (QUESTION_BYTES_MAX + 1)
    cache.keep(long, now, ANSWERED)
    assert cache.find(long, now) is None
    wordy = msgspec.structs.replace(ANSWERED, answer=b"x" * (ANSWER_BYTES_MAX + 1))
    cache.keep(b"d", now, wordy)
    assert cache.find(b"d", now) is None
    assert cache.find(b"b", now) is ANSWERED


def test_an_earlier_requests_answers_are_not_given_to_later_ones() -> None:
    """A long request keeps its state during a newer publication and stays out of the cache."""
    settings = Place(None).authorizer.current_state().settings
    cache = AnswerCache()
    earlier = cache.generation_of(DecisionState(snapshot_of(READ), settings))
    later = cache.generation_of(DecisionState(snapshot_of(DENIED), settings))
    cache.keep(b"a", earlier, ANSWERED)
    assert cache.find(b"a", later) is None
    newer = msgspec.structs.replace(ANSWERED, decision=DEFAULT_ALLOW)
    cache.keep(b"a", later, newer)
    assert cache.find(b"a", later) is newer
    assert cache.find(b"a", earlier) is None


_steps = st.lists(
    st.one_of(
        st.sampled_from(((), (READ,), (READ, DENIED))),
        st.sampled_from(("User:alice", "")),
        st.tuples(st.sampled_from(("alice", "bob")), st.sampled_from(("t", "u"))).map(list),
    ),
    max_size=12,
)


@given(steps=_steps)
async def test_the_cache_changes_no_answer(
    steps: list[tuple[Acl, ...] | str | list[str]],
) -> None:
    """Whatever changes in between, the answers equal those of a handler without a cache."""
    place = Place(None)
    handler = authzen_handler(place)
    for step in steps:
        if isinstance(step, tuple):
            place.snapshot.publish(snapshot_of(*step))
        elif isinstance(step, str):
            place.authorizer.reconfigure({"super.users": step})
        else:
            name, topic = step
            fresh = await ask(authzen_handler(place), evaluation(name, topic=topic))
            assert await ask(handler, evaluation(name, topic=topic)) == fresh
