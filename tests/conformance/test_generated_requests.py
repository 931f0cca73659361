"""Requests of every API and version to a real broker and to our daemon, as several users.

**Invariant:** the answers are equal field by field, except for ``stated_differences``. Both close
the same connections, and have the same ACLs and configs after each change.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from authorizerd.protocol.kafka.api import APIS, ApiKey
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.conformance.both_sides import SECONDS_MAX, Answer, Both, Side, running_both
from tests.conformance.generated_requests import (
    Request,
    dynamic_configs,
    every_acl,
    every_user,
    rounds,
)
from tests.conformance.kafka_peer import CLOSED, Peer
from tests.conformance.odd_conversations import UNANSWERED, Conversation, conversations
from tests.conformance.stated_differences import applying, comparable
from tests.kafka_rig.rig import Rig

ROUNDS = 12
CHANGES = {
    ApiKey.CREATE_ACLS: every_acl,
    ApiKey.DELETE_ACLS: every_acl,
    ApiKey.ALTER_CONFIGS: dynamic_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: dynamic_configs,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: every_user,
}
CORRELATION_BYTES, ERROR_BYTES, LISTED_BYTES = 4, 6, 120
UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2)
COMMON_ERRORS = {0, 3, 17, 29, 30, 31, 33, 34, 42, 53, 69, 91, 92, 93}
"""Errors that occur with every seed."""


@dataclass
class Seen:
    """Counts of requests, errors and differences."""

    requests: Counter[tuple[ApiKey, int]] = field(default_factory=Counter)
    errors: Counter[int | str] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)

    @property
    def table(self) -> str:
        """One line per API: the number of requests of each version."""
        return "\n".join(
            f"{api.name:24}"
            + " ".join(f"v{version}:{self.requests[key, version]}" for version in api.versions)
            for key, api in APIS.items()
        )


@pytest.fixture(scope="module")
def both(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with running_both(rig, tmp_path_factory.mktemp("both")) as both:
        yield both


@pytest.fixture(scope="module")
def seen() -> Seen:
    return Seen()


def expected(both: Both, request: Request) -> Answer:
    """Return the broker's answer with the stated differences applied."""
    differences = applying(request)
    asked = request
    for difference in differences:
        asked = difference.ask(asked)
    answer = both.theirs.ask(asked)
    if answer is CLOSED:
        assert asked is request, f"the broker closed the connection at {asked}, sent for {request}"
        return CLOSED
    for difference in reversed(differences):
        answer = difference.expect(request, answer)
    return comparable(answer)


def leaves(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - any value
    """Yield the differences of two answers."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        for name in theirs:
            yield from leaves(theirs[name], ours[name], f"{path}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, pair in enumerate(zip(theirs, ours, strict=True)):
            yield from leaves(*pair, f"{path}[{number}]")
    elif theirs != ours:
        yield f"  {path or 'all'}:\n    Kafka {theirs!r}\n    we    {ours!r}"


def compare(both: Both, request: Request) -> str:
    """Return the differences of the answers as text."""
    theirs, ours = expected(both, request), comparable(both.ours.ask(request))
    return "\n".join([str(request), *leaves(theirs, ours)]) if theirs != ours else ""


def wait_until_same(both: Both, show: Callable[[], Request], after: Request) -> None:
    """Wait until the broker has applied the change that it acknowledged."""
    give_up = time.monotonic() + SECONDS_MAX
    while difference := compare(both, show()):
        assert time.monotonic() < give_up, f"after {after}: {difference}"
        time.sleep(0.002)


def error_codes(answer: Answer) -> Iterator[int | str]:
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name == "error_code":
                yield value
            else:
                yield from error_codes(value)
    elif isinstance(answer, list):
        for item in answer:
            yield from error_codes(item)
    elif answer is CLOSED:
        yield CLOSED


def changed_by(request: Request) -> list[Callable[[], Request]]:
    if request.api_key is ApiKey.ENVELOPE:
        return [every_acl, dynamic_configs, every_user]
    return [CHANGES[request.api_key]] if request.api_key in CHANGES else []


def last_answer(side: Side, conversation: Conversation) -> bytes | str:
    """Return the last answer, or CLOSED; of ApiVersions only the error, for the versions differ."""
    with closing(Peer(side.addresses[conversation.listener])) as peer:
        for data in conversation.frames:
            answer = peer.exchange(data)
    if isinstance(answer, bytes) and (
        len(answer) > LISTED_BYTES or answer.startswith(UNSUPPORTED, CORRELATION_BYTES)
    ):
        return answer[:ERROR_BYTES]
    return answer


def test_odd_conversations_end_as_with_a_broker(both: Both) -> None:
    """The bytes are equal, or both close the connection; one conversation is an exception."""
    differing: dict[str, str] = {}
    answered = 0
    for conversation in conversations():
        theirs = last_answer(both.theirs, conversation)
        ours = last_answer(both.ours, conversation)
        answered += ours is not CLOSED
        if theirs != ours:
            differing[conversation.name] = f"Kafka {theirs!r}\n    we    {ours!r}"
    assert differing.pop(UNANSWERED).endswith(f"we    {CLOSED!r}")
    assert not differing, "\n".join(f"{name}: {text}" for name, text in differing.items())
    assert answered > 50


def test_every_answer_equals_the_brokers(both: Both, seed: int, seen: Seen) -> None:
    """Each request goes to the broker first. All differences are reported."""
    differing: list[str] = []
    for number, request in enumerate(rounds(seed, ROUNDS, both.ids)):
        theirs = expected(both, request)
        ours = comparable(both.ours.ask(request))
        if theirs != ours:
            differing.append("\n".join([f"request {number}, {request}", *leaves(theirs, ours)]))
        for show in changed_by(request):
            wait_until_same(both, show, request)
        seen.requests[request.api_key, request.version] += 1
        seen.errors.update(error_codes(ours))
        seen.differences.update(each.name for each in applying(request))
    assert not differing, "\n".join([f"seed {seed}", *differing])


def test_rounds_reach_every_version_and_the_common_errors(both: Both, seen: Seen) -> None:
    """At the end, both list the same ACLs."""
    for api_key, api in APIS.items():
        for version in api.versions:
            assert seen.requests[api_key, version] >= ROUNDS, (api.name, version)
    assert seen.requests.total() > 600
    assert {*seen.errors} >= {*COMMON_ERRORS, CLOSED}, seen.errors
    listed = both.theirs.ask(every_acl())
    assert comparable(both.ours.ask(every_acl())) == comparable(listed)
    assert len(listed["resources"]) > 10
    logging.getLogger(__name__).info("%s\n%s\n%s", seen.table, seen.errors, seen.differences)
