"""Decisions in memory: ``acl.decision`` and Kafka's StandardAuthorizer, with the same set.

**Invariant:** before anything is timed, both have given the same answer to every question.

Both are timed in rounds over all questions of a set, by the CPU time of the asking thread, so that
other load on the machine affects neither. All questions of a round are distinct, and no answer is
remembered. As the rounds repeat, the processor's caches are warm: they may hold what the questions
of one round touch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, authorize, explain
from authorizerd.acl.model import Question
from authorizerd.acl.snapshot import AclSnapshot
from tools.bench.figures import Line, make_peer
from tools.bench.kafka_peer import Decisions, KafkaPeer
from tools.bench.sets import AclSet

ROUNDS_MIN: Final = 5
_SETTINGS: Final = AuthorizerSettings()


class DisagreementError(Exception):
    """Two authorizers answer one question differently, so no figure is meaningful."""


class Timing(msgspec.Struct, frozen=True):
    """CPU time of one decision, in ns, over many rounds."""

    ns_min: float
    ns_median: float


def collect_answers(snapshot: AclSnapshot, questions: Sequence[Question]) -> str:
    """Return an A (allowed) or a D (denied) for each question.

    Raises:
        DisagreementError: the decision and its explanation differ.
    """
    given = ""
    for question in questions:
        allowed = authorize(snapshot, _SETTINGS, *msgspec.structs.astuple(question))
        if explain(snapshot, _SETTINGS, question).allowed != allowed:
            raise DisagreementError(f"authorize and explain differ on {question}")
        given += "A" if allowed else "D"
    return given


def check_agreement(ours: str, theirs: str, questions: Sequence[Question], peer_name: str) -> None:
    """Raise DisagreementError at the first question with different answers."""
    assert len(ours) == len(questions)
    if ours == theirs:
        return
    first = next(
        # A peer may give fewer answers: then the first missing one differs.
        (place for place, pair in enumerate(zip(ours, theirs, strict=False)) if len(set(pair)) > 1),
        min(len(ours), len(theirs)),
    )
    raise DisagreementError(
        f"{peer_name} answers {theirs[first : first + 1]!r}, we {ours[first]}: {questions[first]}"
    )


def measure_decisions(
    acl_set: AclSet, snapshot: AclSnapshot, peer: KafkaPeer, directory: Path, seconds: float
) -> list[Line]:
    """Return the result lines of one set, whose input lines are in ``directory``.

    Raises:
        DisagreementError: the peer answers a question differently.
    """
    questions = list(acl_set.questions())
    given = collect_answers(snapshot, questions)
    theirs = peer.decisions(directory, acl_set.name, seconds)
    if isinstance(theirs, Decisions):
        check_agreement(given, theirs.answers, questions, peer.name)
    # Unpacked in advance, so that only the decisions are timed.
    asked = [msgspec.structs.astuple(question) for question in questions]

    def decide_all() -> None:
        for principal, host, operation, resource_type, name in asked:
            authorize(snapshot, _SETTINGS, principal, host, operation, resource_type, name)

    def explain_all() -> None:
        for question in questions:
            explain(snapshot, _SETTINGS, question)

    decided = time_rounds(decide_all, len(questions), seconds)
    explained = time_rounds(explain_all, len(questions), seconds / 2)
    where = f"{acl_set.name} ({len(snapshot.acls):,} ACLs)"

    def line(what: str, ns: float, field: str) -> Line:
        theirs_by_field = make_peer(peer.name, theirs, attrgetter(field))
        return Line(what=f"{where}: {what}", unit="ns", ours=ns, peer=theirs_by_field)

    return [
        Line(
            what=f"{where}: allowed, of {len(questions):,} questions",
            unit="",
            ours=given.count("A"),
            peer=make_peer(peer.name, theirs, lambda measured: measured.answers.count("A")),
        ),
        line("authorize, median", decided.ns_median, "cpu_ns_median"),
        line("authorize, best", decided.ns_min, "cpu_ns_min"),
        line("with its rule, median", explained.ns_median, "cpu_ns_median"),
    ]


def time_rounds(ask_all: Callable[[], None], questions: int, seconds: float) -> Timing:
    """Repeat ``ask_all``, which asks ``questions``, for ``seconds`` of CPU time after a warm-up."""
    _rounds(ask_all, seconds / 5)
    rounds = _rounds(ask_all, seconds)
    return Timing(rounds[0] / questions, rounds[len(rounds) // 2] / questions)


def _rounds(ask_all: Callable[[], None], seconds: float) -> list[int]:
    """Return the CPU time of each round in ns, in ascending order."""
    rounds: list[int] = []
    begun = time.thread_time()
    # A median needs a few rounds, even if one takes longer than ``seconds``.
    while len(rounds) < ROUNDS_MIN or time.thread_time() - begun < seconds:
        start = time.thread_time_ns()
        ask_all()
        rounds.append(time.thread_time_ns() - start)
    rounds.sort()
    return rounds
