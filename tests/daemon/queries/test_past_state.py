"""States in the query process: the daemon's own, or earlier ones, exact or an error."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import AclAdded, ChangeBatch
from authorizerd.acl.release_in_force import ReleaseInForce
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4
from authorizerd.acl.snapshot import AclSnapshot, apply_changes, at_offset, with_rules
from authorizerd.daemon.errors import PastRefusedError, PastUnavailableError
from authorizerd.daemon.queries import past_state as past_module
from authorizerd.daemon.queries.past_state import PastReader, PastState
from authorizerd.daemon.queries.replica import STATES_KEPT_MAX, Replica
from authorizerd.image.changes import FeatureLevel, TopicAdded
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.image.features import METADATA_VERSION_FEATURE
from authorizerd.metadata.directory import find_files
from authorizerd.metadata.errors import PastNotReadError
from authorizerd.metadata.past.past_log import PastLog
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.worker_changes import encode_changes, encode_state
from authorizerd.protocol.worker_feed import Loaded, TakeChanges, order_reader
from tests.metadata.past_logs import snapshot_at
from tests.support.acls import acl, question, snapshot_of
from tests.support.log_files import TIME_MS, added, data_batch, flipped, removed, write_log

HOUR_MS = 3_600_000
SETTINGS = AuthorizerSettings(frozenset({"User:root"}))


def replay(log_dir: Path, offset: int | None = None) -> AclSnapshot:
    """Return the state of a daemon that stopped at ``offset``, or at the end of the log."""
    snapshot = snapshot_at([], 0)
    for timed in PastLog(find_files(log_dir)).read(0):
        changes = timed.changes
        if offset is not None and changes.last_offset > offset:
            break
        snapshot = at_offset(apply_changes(snapshot, changes.changes), changes.last_offset)
    return snapshot


class Fixture:
    """A reader of a log whose end is its newest state."""

    def __init__(self, log_dir: Path, *, now_ms: Callable[[], int] | None = None) -> None:
        self.log_dir = log_dir
        self.newest = replay(log_dir)
        self.past = PastReader(log_dir, now_ms=now_ms or (lambda: TIME_MS + HOUR_MS))

    def then(self, as_of: AsOf) -> PastState:
        return self.past.state_at(as_of, self.newest, SETTINGS)

    def at(self, as_of: AsOf) -> AclSnapshot:
        return self.then(as_of).snapshot


@pytest.fixture
def small(tmp_path: Path) -> Fixture:
    """Return the past of a log whose ACLs change at the offsets 2, 3 and 4."""
    write_log(tmp_path, [added(1)], [added(2)], [removed(1)])
    return Fixture(tmp_path)


def test_time_names_the_last_batch_until_then(tmp_path: Path) -> None:
    path = write_log(tmp_path, [added(1)])
    later = data_batch(3, [added(2)], time_ms=TIME_MS + 9)
    path.write_bytes(path.read_bytes() + later)
    fixture = Fixture(tmp_path, now_ms=lambda: TIME_MS + 9)
    assert (fixture.at(AsOf(time_ms=TIME_MS + 8))) == replay(tmp_path, 2)
    assert (fixture.at(AsOf(time_ms=TIME_MS + 9))) == replay(tmp_path, 3)
    with pytest.raises(PastRefusedError, match="in the future"):
        fixture.at(AsOf(time_ms=TIME_MS + 10))
    with pytest.raises(PastRefusedError, match="is too old: the log reaches back to offset 0 "):
        fixture.at(AsOf(time_ms=TIME_MS - 1))


def test_log_may_be_ahead_of_the_decisions(small: Fixture) -> None:
    """Records that are written but not applied do not belong to the past."""
    small.newest = replay(small.log_dir, 3)
    assert small.at(AsOf(offset=2)) == replay(small.log_dir, 2)
    with pytest.raises(PastRefusedError, match="the newest one is 3"):
        small.at(AsOf(offset=4))


def test_log_that_lags_is_not_used(small: Fixture) -> None:
    """A copy whose disk is full lacks the newest records."""
    small.newest = at_offset(replay(small.log_dir), 9)
    with pytest.raises(PastUnavailableError, match="end at offset 4, before the newest state"):
        small.at(AsOf(offset=2))


def test_log_of_another_state_is_not_used(small: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    """An answer from it would be wrong."""
    other = apply_changes(replay(small.log_dir), [AclAdded(b"x" * 16, acl(topic="topic-1"))])
    small.newest = other
    with pytest.raises(PastUnavailableError, match="the daemon's log says why"):
        small.at(AsOf(offset=2))
    assert "cannot be undone" in caplog.text


def test_place_of_damage_is_only_logged(small: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    path = find_files(small.log_dir).segments[0].path
    data = path.read_bytes()
    path.write_bytes(flipped(data, data.index(data_batch(3, [added(2)])) + 70))
    with pytest.raises(PastUnavailableError, match="the log is damaged, and no part of it can"):
        small.at(AsOf(offset=2))
    assert str(path) in caplog.text


def test_missing_log_is_unavailable(small: Fixture, caplog: pytest.LogCaptureFixture) -> None:
    for segment in find_files(small.log_dir).segments:
        segment.path.unlink()
    with pytest.raises(PastUnavailableError):
        small.at(AsOf(offset=2))
    assert "the past cannot be read" in caplog.text


def test_changes_are_limited(small: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_module, "CHANGES_MAX", 1)
    assert small.at(AsOf(offset=3)) == replay(small.log_dir, 3)
    with pytest.raises(PastRefusedError, match="more than 1 ACLs have changed since"):
        small.at(AsOf(offset=2))


def test_the_past_is_judged_by_the_rules_of_now(small: Fixture) -> None:
    for rules in (RULES_4_3, RULES_4_4, ANY_RELEASE):
        small.newest = with_rules(small.newest, rules)
        then = small.at(AsOf(offset=2))
        assert (then.offset, then.rules) == (2, rules)


def test_state_has_the_acls_of_then_and_the_settings_of_now(small: Fixture) -> None:
    for offset in range(5):
        then = small.then(AsOf(offset=offset))
        assert then.snapshot == replay(small.log_dir, offset)
        assert (then.settings, then.moment.offset, then.now) == (SETTINGS, offset, small.newest)


def test_difference_is_the_change_since_which_the_answer_is_todays(small: Fixture) -> None:
    then = small.then(AsOf(offset=2))
    now = then.describe(question(topic="topic-1")).now
    assert now is not None
    assert (now.decision, now.since.offset, now.since.change) == (False, 4, "remove")
    granted = then.describe(question(topic="topic-2")).now
    assert granted is not None
    assert (granted.decision, granted.since.offset) == (True, 3)
    assert then.describe(question(topic="topic-3")).now is None


def test_what_was_noted_is_read_no_more(small: Fixture) -> None:
    """Another reader takes over where batches are, as the query process does from its children."""
    assert small.past.encode_notes() == b""
    small.then(AsOf(offset=2))
    other = PastReader(small.log_dir, now_ms=lambda: TIME_MS + HOUR_MS)
    notes = small.past.encode_notes()
    other.adopt_notes(notes[:-1])  # of a child that was killed while it wrote them
    other.adopt_notes(notes)
    assert other.state_at(AsOf(offset=3), small.newest, SETTINGS).snapshot == replay(
        small.log_dir, 3
    )
    assert other._index.find(4, find_files(small.log_dir).segments, DISK) is not None


def test_time_is_not_looked_up_in_a_log_that_lags(small: Fixture) -> None:
    """A batch that the files lack may be the last one until then."""
    log = PastLog(find_files(small.log_dir))
    assert log.find_offset(AsOf(time_ms=TIME_MS), newest=4) == 4
    with pytest.raises(PastNotReadError, match="end at offset 4, before the newest state"):
        log.find_offset(AsOf(time_ms=TIME_MS), newest=9)


def test_history_knows_no_more_than_the_newest_state(small: Fixture) -> None:
    """However it is read."""
    small.newest = replay(small.log_dir, 3)
    asked = (question(topic="topic-1"), small.newest, SETTINGS)
    answers = small.past._read_answers(AsOf(offset=2), *asked)
    assert (answers.begin.offset, answers.allowed, answers.changes) == (2, True, ())
    with pytest.raises(PastRefusedError, match="the newest one is 3"):
        small.past._read_answers(AsOf(offset=4), *asked)
    lagging = at_offset(replay(small.log_dir), 9)
    with pytest.raises(PastUnavailableError, match="end at offset 4, before the newest state"):
        small.past._read_answers(AsOf(offset=2), question(topic="topic-1"), lagging, SETTINGS)


TOPIC = TopicAdded("t", bytes(16))


def judge(image: ClusterImage) -> ReleaseInForce:
    level = image.features.get(METADATA_VERSION_FEATURE, 0)
    return ReleaseInForce(RULES_4_4 if level else RULES_4_3, "a test")


def feed(replica: Replica, frames: Iterable[bytes]) -> None:
    reader = order_reader()
    for data in frames:
        reader.receive_data(data)
        while (order := reader.next_message()) is not None:
            if isinstance(order, TakeChanges):
                replica.take_changes(order)
            else:
                assert isinstance(order, Loaded)
                replica.finish_load(order.offset)


def loaded() -> tuple[Replica, AclSnapshot]:
    snapshot = with_rules(snapshot_of(acl("User:a", topic="t"), offset=3), RULES_4_3)
    image = apply_cluster_changes(EMPTY_IMAGE, (TOPIC,))
    replica = Replica(judge)
    assert replica.offset == -1
    feed(replica, encode_state(1, lambda: (snapshot, image), lambda _: None))
    return replica, snapshot


def test_state_is_that_of_the_daemon() -> None:
    replica, snapshot = loaded()
    assert replica.find(3).snapshot == snapshot
    assert list(replica.find(3).image.topics) == ["t"]


def test_later_changes_are_applied_and_judged_by_the_release_that_they_prove() -> None:
    replica, snapshot = loaded()
    feed(replica, encode_changes(2, ChangeBatch(5, (added(11), added(12)))))
    level = FeatureLevel(METADATA_VERSION_FEATURE, 33)
    feed(replica, encode_changes(3, ChangeBatch(6, (removed(11),), True, (level,))))
    expected = with_rules(apply_changes(snapshot, (added(12),)), RULES_4_4)
    assert replica.find(6).snapshot == at_offset(expected, 6)
    assert replica.find(5).snapshot.rules == RULES_4_3


def test_unfinished_batch_is_not_shown() -> None:
    replica, snapshot = loaded()
    feed(replica, encode_changes(2, ChangeBatch(5, (added(11),), is_end=False)))
    assert replica.find(5).snapshot == snapshot
    feed(replica, encode_changes(3, ChangeBatch(6, (added(12),))))
    assert replica.offset == 6
    assert len(replica.find(6).snapshot.acls) == 3


def test_states_of_a_while_ago_are_not_kept() -> None:
    """A question is then answered by the newest."""
    replica, _ = loaded()
    for number in range(STATES_KEPT_MAX):
        assert replica.find(3 + number).snapshot.offset == 3 + number
        feed(replica, encode_changes(2, ChangeBatch(4 + number, ())))
    assert replica.find(3).snapshot.offset == replica.offset
