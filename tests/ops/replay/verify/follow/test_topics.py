"""``verify --follow`` on topics: each record is counted once, or visibly lost."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random

import pytest

from authorizerd.acl.decision import MatchingAcl
from authorizerd.protocol.verification import Counts
from authorizerd.replay.errors import TrafficError
from authorizerd.replay.verify.follow import topics
from authorizerd.replay.verify.follow.history import Contact
from tests.ops.replay.verify.follow import rotated_logs
from tests.ops.replay.verify.follow.rotated_logs import CrashingFollower
from tests.ops.replay.verify.follow.scripted_topic import CONTROL, ScriptedTopic
from tests.ops.replay.verify.scripted_broker import START_MS, Step, make_line, write_history
from tests.support.acls import acl, question
from tests.support.fixture_types import Capture
from tests.support.log_files import added
from tests.support.sizes import size

ACL = acl(topic="t")
STEPS = (Step(0, (added(1, ACL),)),)
LATE = START_MS + 10**9


def line_at(at_s: float, *, allowed: bool = True) -> str:
    rule = str(MatchingAcl(ACL)) if allowed else "DefaultDeny"
    return make_line(at_s, question(topic="t"), rule, allowed=allowed)


class Followed:
    """A topic, and a follower that knows the ACLs up to ``known_ms``."""

    def __init__(self, tmp_path: Path, chance: Random | None = None) -> None:
        self.topic = ScriptedTopic()
        self.known_ms = LATE
        self.follower = CrashingFollower(
            chance or Random(0),
            write_history(tmp_path / "log", STEPS, 2_000),
            [],
            ask=lambda: Contact(self.known_ms, 0),
            clients=[self.topic],
        )

    def settle(self) -> Counts:
        """Return the counts once nothing is left."""
        self.topic.is_away, self.known_ms = False, LATE
        for _ in range(6):
            self.follower.step()
        while self.follower.shadow.lag.records:
            self.follower.step()
        self.follower.shadow.close()  # which writes the state
        return self.follower.shadow.state.counts


class Story(Followed):
    """Random changes of a topic, which either has control records or loses old records.

    Attributes:
        written: of each line that will be read unless it is deleted, whether it differs.
        recreated: the number of partitions that were replaced.
    """

    def __init__(self, tmp_path: Path, chance: Random, *, has_controls: bool) -> None:
        super().__init__(tmp_path, chance)
        self.written: list[bool] = []
        self.recreated = 0
        self._chance, self._has_controls = chance, has_controls
        self._times = (n / 8 for n in count(80))

    def write(self) -> None:
        partition = self._chance.choice(self.topic.lines)
        for _ in range(self._chance.randrange(6)):
            self.written.append(self._chance.random() < 0.2)
            partition.append(line_at(next(self._times), allowed=not self.written[-1]))
            if self._has_controls and self._chance.random() < 0.3:
                partition.append(CONTROL)

    def recreate(self) -> None:
        """Lose the records of the last moment."""
        self.settle()
        before = len(self.written)
        self.write()
        del self.written[before:]
        self.recreated += len(self.topic.lines)
        self.topic.recreate(self._chance.randrange(1, 4))
        for _ in range(self._chance.randrange(30)):
            self.write()

    def delete(self) -> None:
        if not self._has_controls:
            partition = self._chance.randrange(len(self.topic.lines))
            end = len(self.topic.lines[partition])
            self.topic.delete_before(partition, self._chance.randrange(end + 1))

    def step(self) -> None:
        self.topic.is_away = self._chance.random() < 0.1
        self.known_ms = START_MS + self._chance.randrange(60_000)
        self.follower.step(self._chance.choice((None, None, self._chance.randrange(1, 12))))


@pytest.mark.parametrize("has_controls", [False, True])
@pytest.mark.parametrize("seed", range(size(25, 300)))
def test_each_record_is_counted_once_or_as_lost(
    seed: int, has_controls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Across retention, recreation, new partitions, absent brokers, crashes and restarts."""
    monkeypatch.setattr(rotated_logs, "WAITING_BYTES_MAX", 3_000)
    chance = Random(seed)
    story = Story(tmp_path, chance, has_controls=has_controls)
    story.follower.step()
    for _ in range(size(60, 200)):
        other = chance.choice((story.topic.add_partition, story.follower.crash, story.recreate))
        chance.choice((story.write, story.write, story.step, story.step, story.delete, other))()
    counts = story.settle()
    if has_controls:
        assert sum(counts.disagreements.values()) == sum(story.written)
    assert counts.lines + counts.lost_records == len(story.written)
    assert (counts.lost_files, story.follower.shadow.lag.records) == (story.recreated, 0)


@pytest.mark.parametrize("has_more", [False, True])
def test_topic_that_is_created_again_while_it_is_read_is_not_mixed_up(
    has_more: bool, tmp_path: Path
) -> None:
    """The new topic may have records at the offsets that are read next."""
    run = Followed(tmp_path)
    topic = run.topic
    topic.lines[0] += [line_at(10), line_at(11)]
    assert run.settle().lines == 2
    topic.lines[0] += [line_at(12)]
    later = [line_at(20 + n) for n in range(5 if has_more else 1)]

    def recreate() -> None:
        topic.recreate(1)
        topic.lines[0] += later

    topic.within_read = recreate
    run.follower.step()
    assert run.follower.shadow.state.counts.lines == 2
    counts = run.settle()
    assert (counts.lines, counts.lost_files) == (2 + len(later), 2)
    topic.recreate(1)
    topic.lines[0] += [*later, line_at(30)]
    counts = run.settle()
    assert (counts.lines, counts.lost_files) == (3 + 2 * len(later), 3)


@pytest.mark.parametrize("crashes", [False, True])
def test_gap_is_counted_with_the_position_that_is_past_it(crashes: bool, tmp_path: Path) -> None:
    """Lines before the gap wait while the state is written. A crash then loses them as well."""
    run = Followed(tmp_path)
    topic, follower = run.topic, run.follower
    run.known_ms = START_MS
    topic.lines[0] += [line_at(n) for n in range(10, 20)]
    follower.step()
    topic.lines[0] += [line_at(n) for n in range(20, 30)]
    topic.delete_before(0, 15)
    follower.step()
    follower.shadow.close()
    if crashes:
        follower.crash()
    counts = run.settle()
    assert (counts.lines, counts.lost_records) == ((5, 15) if crashes else (15, 5))


def test_leader_without_the_newest_records_is_counted_as_a_loss(tmp_path: Path) -> None:
    run = Followed(tmp_path)
    topic = run.topic
    topic.lines[0] += [line_at(n) for n in range(10, 20)]
    assert run.settle().lines == 10
    topic.truncate(0, 6)
    run.follower.step()
    topic.lines[0] += [line_at(n) for n in range(30, 33)]
    counts = run.settle()
    assert (counts.lines, counts.lost_files, counts.lost_records) == (13, 1, 0)


def test_record_that_is_given_again_is_counted_once(tmp_path: Path) -> None:
    run = Followed(tmp_path)
    run.topic.repeats = True
    for number in range(3):
        run.topic.lines[0] += [line_at(10 + number)]
        assert run.settle().lines == number + 1


def test_topic_that_was_never_read_begins_with_what_it_has(tmp_path: Path) -> None:
    run = Followed(tmp_path)
    run.topic.lines[1] += [line_at(n) for n in range(10, 20)]
    run.topic.delete_before(1, 4)
    judged = (START_MS + 14_000, START_MS + 19_000)
    assert run.settle() == Counts(agreed=6, judged_since_ms=judged[0], judged_ms=judged[1])
    assert {each.partition: each.offset for each in run.follower.shadow.state.partitions} == {
        0: 0, 1: 10,
    }  # fmt: skip


def test_absence_is_reported_once_and_ends_only_the_first_start(
    tmp_path: Path, capsys: Capture
) -> None:
    run = Followed(tmp_path)
    run.topic.is_away = True
    with pytest.raises(TrafficError, match="no answer"):
        run.follower.step()
    run.topic.is_away = False
    run.follower.step()
    run.topic.is_away = True
    before = run.follower.shadow.state.read_ms
    run.follower.crash()
    for _ in range(3):
        run.follower.step()
    assert len(run.follower.shadow.state.partitions) == 2
    assert run.follower.shadow.lag.oldest_ms == before
    assert capsys.readouterr().err == (
        "authorizerd verify: kafka://h:1/audit: no answer; trying again\n"
    )
    run.settle()
    assert run.follower.shadow.lag.oldest_ms is None


def test_partition_without_an_answer_is_behind_while_others_are_read(
    tmp_path: Path, capsys: Capture
) -> None:
    run = Followed(tmp_path)
    run.settle()
    run.topic.without_leader.add(0)
    run.topic.lines[0] += [line_at(10)]
    run.topic.lines[1] += [line_at(11)]
    for _ in range(2 * topics.READINGS_A_CHECK):
        run.follower.step()
    shadow = run.follower.shadow
    assert (shadow.state.counts.lines, shadow.lag.oldest_ms is None) == (1, False)
    assert capsys.readouterr().err.count("(partition 0); trying again") == 1
    run.topic.without_leader.clear()
    for _ in range(topics.READINGS_A_CHECK):
        run.follower.step()
    assert (shadow.state.counts.lines, shadow.lag.oldest_ms) == (2, None)


def test_positions_in_another_topic_are_kept(tmp_path: Path) -> None:
    run = Followed(tmp_path)
    run.topic.lines[0] += [line_at(10)]
    run.settle()
    before = run.follower.shadow.state.partitions
    run.topic.topic = type(run.topic.topic)(servers="h:1", name="other")
    run.follower.crash()
    run.settle()
    assert [each for each in run.follower.shadow.state.partitions if each in before] == [*before]
