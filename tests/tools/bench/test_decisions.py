"""The measurements in memory: both sides agree before anything is timed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from authorizerd.acl.index.builder import build
from authorizerd.acl.model import PatternType
from tools.bench.decisions import (
    DisagreementError,
    check_agreement,
    collect_answers,
    measure_decisions,
)
from tools.bench.figures import Absent
from tools.bench.kafka_peer import Decisions, KafkaPeer
from tools.bench.sets import kind, wide
from tools.bench.snapshot_updates import crowd_acls, measure_snapshot_updates, measure_updates

SET = wide(1000, 2)
QUESTIONS = list(SET.questions())


class PeerOfKnownAnswers(KafkaPeer):
    """A peer with given answers, without a JVM."""

    def decisions(self, directory: Path, set_name: str, seconds: float) -> Decisions | Absent:
        assert isinstance(self.classpath, str)
        return Decisions(self.classpath, 10.0, 20.0, 30.0)


@pytest.mark.parametrize(
    ("theirs", "number"),
    [("A" * 7 + "D" + "A" * (len(QUESTIONS) - 8), 7), ("A" * 5, 5)],
    ids=("another answer", "a missing answer"),
)
def test_disagreement_is_reported_with_its_question(theirs: str, number: int) -> None:
    ours = "A" * len(QUESTIONS)
    found = re.escape(f"{theirs[number : number + 1]!r}, we A: {QUESTIONS[number]}")
    with pytest.raises(DisagreementError, match=found):
        check_agreement(ours, theirs, QUESTIONS, "Kafka")


def test_peer_that_disagrees_ends_the_benchmark() -> None:
    peer = PeerOfKnownAnswers("D" * len(QUESTIONS))
    with pytest.raises(DisagreementError):
        measure_decisions(SET, build(SET.added()), peer, Path(), 0.001)


def test_figures_of_the_peer_are_compared_with_ours() -> None:
    snapshot = build(SET.added())
    peer = PeerOfKnownAnswers(collect_answers(snapshot, QUESTIONS))
    lines = measure_decisions(SET, snapshot, peer, Path(), 0.001)
    peers = [line.peer for line in lines if line.peer is not None]
    assert [peer.value for peer in peers] == [919, 20.0, 10.0, 20.0]
    assert all(line.ours > 0 for line in lines)


def test_updates_leave_the_snapshot_unchanged() -> None:
    added = list(kind().added())[:500]
    before = build(added)
    times, after = measure_updates(before, added, 40)
    assert (after.acls, after.types) == (before.acls, before.types)
    assert after.offset == before.offset + 40
    assert 0 < times.p50 <= times.p99 <= times.max


def test_crowds_of_literals_and_prefixes_can_be_combined() -> None:
    crowds = [
        *crowd_acls("literals", PatternType.LITERAL, 1000),
        *crowd_acls("prefixes", PatternType.PREFIXED, 1000),
    ]
    assert len(build(crowds).acls) == 2000


def test_updates_are_measured_for_any_principal_and_for_two_crowds() -> None:
    added = list(SET.added())
    lines = measure_snapshot_updates(build(added), added, Absent("no mvn"), updates=4, crowd=3)
    assert [line.peer is not None for line in lines] == [True] * 3 + [False] * 6
