"""Nothing is timed before both sides agree; nothing that is timed changes the answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from authorizerd.acl.builder import build
from authorizerd.acl.model import PatternType
from ops.bench.changes import crowded, measure_changes, measure_updates
from ops.bench.decisions import DisagreementError, answers, check_agreement, measure_decisions
from ops.bench.figures import Absent
from ops.bench.kafka_peer import Decisions, KafkaPeer
from ops.bench.sets import kind, wide

SET = wide(1000, 2)
QUESTIONS = list(SET.questions())


class PeerOfKnownAnswers(KafkaPeer):
    """A peer that answers what it is given, without a JVM."""

    def decisions(self, directory: Path, set_name: str, seconds: float) -> Decisions | Absent:
        assert isinstance(self.classpath, str)
        return Decisions(self.classpath, 10.0, 20.0, 30.0)


def test_an_answer_that_differs_is_named_with_its_question() -> None:
    """Without the question nobody could find out who is wrong."""
    ours = "A" * len(QUESTIONS)
    theirs = "A" * 7 + "D" + "A" * (len(QUESTIONS) - 8)
    with pytest.raises(DisagreementError, match=re.escape(f"'D', we A: {QUESTIONS[7]}")):
        check_agreement(ours, theirs, QUESTIONS, "Kafka")


def test_an_answer_that_is_missing_is_a_disagreement() -> None:
    """A peer that gave up half way agrees about nothing."""
    with pytest.raises(DisagreementError, match=re.escape(str(QUESTIONS[5]))):
        check_agreement("A" * len(QUESTIONS), "A" * 5, QUESTIONS, "Kafka")


def test_a_peer_that_disagrees_ends_the_benchmark() -> None:
    """A figure for wrong answers would be worth nothing."""
    peer = PeerOfKnownAnswers("D" * len(QUESTIONS))
    with pytest.raises(DisagreementError):
        measure_decisions(SET, build(SET.added()), peer, Path(), 0.001)


def test_a_peer_that_agrees_stands_beside_our_figures() -> None:
    """Median stands beside median, best beside best."""
    snapshot = build(SET.added())
    peer = PeerOfKnownAnswers(answers(snapshot, QUESTIONS))
    lines = measure_decisions(SET, snapshot, peer, Path(), 0.001)
    assert [None if line.peer is None else line.peer.value for line in lines] == [
        919,
        20.0,
        10.0,
        20.0,
    ]
    assert all(line.ours > 0 for line in lines)


def test_updates_leave_the_snapshot_as_it_was() -> None:
    """Each ACL that is taken away is put back, so that every update meets the same state."""
    added = list(kind().added())[:500]
    before = build(added)
    times, after = measure_updates(before, added, 40)
    assert (after.acls, after.types) == (before.acls, before.types)
    assert after.offset == before.offset + 40
    assert 0 < times.p50 <= times.p99 <= times.max


def test_a_crowded_principal_has_as_many_patterns_as_were_asked_for() -> None:
    """Two of them, of literals and of prefixes, can be added to one set."""
    crowds = [
        *crowded("literals", PatternType.LITERAL, 1000),
        *crowded("prefixes", PatternType.PREFIXED, 1000),
    ]
    assert len(build(crowds).acls) == 2000


def test_updates_are_measured_for_any_principal_and_for_two_crowded_ones() -> None:
    """Only the first is compared: the peer's cost does not hang on the principal."""
    added = list(SET.added())
    lines = measure_changes(build(added), added, Absent("no mvn"), updates=4, crowd=3)
    assert [line.peer is not None for line in lines] == [True] * 3 + [False] * 6
