"""AuthZEN with callers that present tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from authorizerd.daemon.decisions.authzen import AuthZenHandler
from authorizerd.protocol.decisions.discovery import EVALUATION_PATH, EVALUATIONS_PATH
from authorizerd.protocol.http.messages import Request, Response
from tests.daemon.decision_place import (
    OTHER,
    PROXY,
    Place,
    authzen_handler,
    cluster_action,
    entry,
)
from tests.support.acls import acl
from tests.support.answers import answer_of
from tests.support.requests import evaluation

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
    return await answer_of(
        handler(
            Request(
                method="POST",
                path=EVALUATION_PATH if one else EVALUATIONS_PATH,
                query="token=proxy.secret",
                headers=lines,
                body=json.dumps(body).encode(),
                keep_alive=True,
            )
        )
    )


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
    assert second == {
        "decision": False,
        "context": {
            "error": {
                "status": 403,
                "message": REFUSAL,
            }
        },
    }


@pytest.mark.parametrize("count", [1, 2])
async def test_before_the_acls_are_loaded_only_super_users_are_decided_about(
    count: int, tmp_path: Path
) -> None:
    """The answer is 503. A caller without the right is refused already."""
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
