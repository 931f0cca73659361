"""A repeated question is decided again each time, by the state of that moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from authorizerd.actors.plugged_authorizer import PluggedAuthorizer
from authorizerd.daemon.decisions.authzen import AuthZenHandler
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.protocol.decisions.authzen import Vocabulary
from authorizerd.protocol.decisions.discovery import EVALUATION_PATH, EVALUATIONS_PATH
from authorizerd.protocol.http.messages import Request
from tests.daemon.decision_place import Place, authzen_handler
from tests.support.acls import acl, snapshot_of
from tests.support.answers import answer_of
from tests.support.authorizers import Plug
from tests.support.requests import evaluation

VOCABULARY = Vocabulary({"user": "User"}, {"topic": 2})
READ = acl("User:alice", "READ", topic="t")
DENIED = acl("User:alice", "READ", topic="t", deny=True)
ALICE = evaluation("alice", topic="t")


async def ask(
    handler: AuthZenHandler, *evaluations: dict[str, Any], **defaults: dict[str, str]
) -> list[Any]:
    """Return the answers; one evaluation is sent alone, several are sent together."""
    is_one = len(evaluations) == 1 and not defaults
    body = evaluations[0] if is_one else {**defaults, "evaluations": evaluations}
    response = await answer_of(
        handler(
            Request(
                method="POST",
                path=EVALUATION_PATH if is_one else EVALUATIONS_PATH,
                query="",
                headers={
                    b"content-type": b"application/json",
                    b"authorization": b"Bearer a.secret",
                },
                body=json.dumps(body).encode(),
                keep_alive=True,
            )
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


async def test_an_answer_is_given_only_to_callers_that_may_ask(tmp_path: Path) -> None:
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
        return (await answer_of(handler(request))).status

    assert [await status(holder) for holder in ("root", "other", "root")] == [200, 403, 200]


async def test_a_plugged_in_authorizer_is_asked_each_time() -> None:
    """A plug-in's answers may depend on anything."""
    plug = Plug([True])
    place = Place(None)
    authorizer = PluggedAuthorizer(
        plug, name="plug", snapshot=place.snapshot, on_failure=lambda error: None
    )
    handler = AuthZenHandler(authorizer, VOCABULARY, Callers(None))
    assert (await ask(handler, ALICE))[0]["decision"] is True
    plug.answers = [False]
    assert (await ask(handler, ALICE))[0]["decision"] is False
    assert len(plug.asked) == 2


async def test_an_evaluation_has_the_defaults_of_its_own_request() -> None:
    """With other defaults, the same text is another question."""
    place = Place(None, READ)
    handler = authzen_handler(place)
    bare = {"action": {"name": "read"}, "resource": {"type": "topic", "id": "t"}}
    alice, bob = ({"type": "user", "id": name} for name in ("alice", "bob"))
    assert (await ask(handler, bare, subject=alice))[0]["decision"] is True
    assert (await ask(handler, bare, subject=bob))[0]["decision"] is False
    assert (await ask(handler, bare, subject=alice))[0]["decision"] is True
