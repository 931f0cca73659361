"""The numbers of changes are those of the log, in spans of time and by author."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from authorizerd.acl.as_of import AsOf, Moment
from authorizerd.acl.audit.authors import AuditedRequest, Authors, Certainty, Evidence, Span
from authorizerd.acl.model import AclAdded
from authorizerd.acl.past import PastChange
from authorizerd.daemon.queries import changes
from authorizerd.daemon.queries.change_authors import AuthorReader
from authorizerd.daemon.queries.changes import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SPANS_MAX,
    WEEK_MS,
    ChangeOverview,
    Counted,
    make_spans,
    read_overview,
)
from authorizerd.metadata.errors import PastNotReadError, PastRangeError
from authorizerd.metadata.past.past_log import read_past
from authorizerd.protocol.decisions.past_answers import FindAuthor
from authorizerd.protocol.records.batch import ControlType
from authorizerd.protocol.records.fast_reader import RECORDS_PER_SLICE
from authorizerd.protocol.records.metadata import MetadataRecord
from tests.metadata.past_logs import kept, logged_batches, oldest_offset, write_past
from tests.support.acls import acl
from tests.support.log_files import (
    TIME_MS,
    added,
    control_batch,
    data_batch,
    removed,
    write_log,
    write_segment,
)


class KnownAuthors(AuthorReader):
    """Find authors by evidence, without files."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def read(self, changes: Iterable[PastChange]) -> FindAuthor:
        assert any(True for _ in changes), "there is something to find"
        return Authors(self._evidence).find


def overview(
    path: Path,
    newest: int,
    since: AsOf | None = None,
    until: AsOf | None = None,
    evidence: Evidence | None = None,
    at_ms: int = TIME_MS + 100,
) -> ChangeOverview:
    authors = None if evidence is None else KnownAuthors(evidence)
    return read_past(
        path,
        lambda log: read_overview(
            log,
            since,
            until,
            newest=newest,
            at_ms=at_ms,
            authors=authors,
        ),
    )


def count(*changes: tuple[int, bool, int]) -> Counted:
    """Return numbers of changes: each has a time, True if ACLs were added, and how many."""
    numbers = [
        (PastChange(offset, time_ms, is_added, b"", acl("User:a", topic="t")), number)
        for offset, (time_ms, is_added, number) in enumerate(changes)
    ]
    return Counted(Moment(0, None), Moment(9, None), tuple(numbers), is_cut=False)


def write_timed(path: Path, changes: Sequence[tuple[int, MetadataRecord]]) -> None:
    """Write each change as a batch of its own, from offset 1 on."""
    batches = [data_batch(at, [each], time_ms=time) for at, (time, each) in enumerate(changes, 1)]
    write_segment(path, 0, control_batch(0, ControlType.LEADER_CHANGE), *batches)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_numbers_are_those_of_the_log(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Transactions, retention and clocks that are set back make no difference."""
    batches = data.draw(logged_batches())
    how = data.draw(kept(batches))
    path = tmp_path_factory.mktemp("log")
    write_past(path, batches, how)
    oldest = oldest_offset(batches, how)
    closed = [each.last_offset for each in batches if not each.is_open]
    newest = closed[-1]
    since, until = sorted(
        data.draw(st.lists(st.integers(oldest, max(newest, oldest)), min_size=2, max_size=2))
    )
    found = overview(path, newest, AsOf(offset=since), AsOf(offset=until))
    expected = [
        (each.last_offset, each.time_ms, isinstance(change, AclAdded))
        for each in batches
        if since < each.last_offset <= until
        for change in each.changes
    ]
    for numbers in (found.spans, found.authors):
        assert sum(each.added for each in numbers) == sum(is_added for *_, is_added in expected)
        assert sum(each.added + each.removed for each in numbers) == len(expected)
    listed = [(each.offset, each.change == "add") for each in found.latest]
    assert listed == [(offset, is_added) for offset, _, is_added in reversed(expected)]
    for span, after in pairwise(found.spans):
        assert span.end_ms == after.begin_ms
    for span in found.spans:
        inside = [each for each in expected if span.begin_ms <= each[1] < span.end_ms]
        assert span.added == sum(is_added for *_, is_added in inside)
        assert span.removed == len(inside) - span.added
    assert not found.is_cut


@pytest.mark.parametrize(
    ("length_ms", "unit"),
    [
        (0, "minute"),
        (98 * MINUTE_MS, "minute"),
        (99 * MINUTE_MS, "hour"),
        (99 * HOUR_MS, "day"),
        (99 * DAY_MS, "week"),
        (99 * WEEK_MS, "2 weeks"),
        (2**62, "77812 weeks"),
    ],
)
def test_unit_depends_on_the_length(length_ms: int, unit: str) -> None:
    """There are never more spans than a picture shows."""
    end_ms = TIME_MS + length_ms
    found, spans = make_spans(count((TIME_MS, True, 1), (end_ms, False, 10**9)), None, None)
    if length_ms < 2**62:
        assert found == unit
    assert len(spans) <= SPANS_MAX
    assert (spans[0].added, spans[-1].removed) == (1, 10**9)


def test_week_begins_on_monday() -> None:
    monday_ms = 1_767_571_200_000  # 2026-01-05
    _, spans = make_spans(count(), monday_ms, monday_ms + 200 * DAY_MS)
    assert (spans[0].begin_ms, spans[0].end_ms) == (monday_ms, monday_ms + WEEK_MS)


def test_log_without_times_has_no_spans() -> None:
    assert make_spans(count(), None, None) == ("minute", ())


def test_too_many_changes_are_cut_at_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch that reaches the limit counts as a whole, and the answer says where it ends."""
    write_log(tmp_path, [added(1), added(2)], [removed(1), removed(2)], [added(3)])
    monkeypatch.setattr(changes, "CHANGES_MAX", 3)
    found = overview(tmp_path, 6, AsOf(offset=0))
    assert (found.is_cut, found.end.offset) == (True, 5)
    assert sum(each.added + each.removed for each in found.spans) == 4
    rest = overview(tmp_path, 6, AsOf(offset=found.end.offset))
    assert (rest.is_cut, [each.offset for each in rest.latest]) == (False, [6])


def test_large_batch_is_counted_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read in parts, and no part of it is left out."""
    size = 2 * RECORDS_PER_SLICE + 1
    write_log(tmp_path, [added(number) for number in range(size)], [added(size)])
    monkeypatch.setattr(changes, "CHANGES_MAX", 1)
    found = overview(tmp_path, size + 2, AsOf(offset=0))
    assert (found.is_cut, found.end.offset) == (True, size + 1)
    assert sum(each.added for each in found.spans) == size


def test_files_that_end_early_are_refused(tmp_path: Path) -> None:
    """Changes that the state has, and that are not written yet, would be missing."""
    write_log(tmp_path, [added(1)])
    with pytest.raises(PastNotReadError):
        overview(tmp_path, 3, AsOf(offset=0))


def test_only_the_latest_changes_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path, *([added(number)] for number in range(1, 9)), [removed(1), removed(2)])
    monkeypatch.setattr(changes, "LISTED_MAX", 3)
    found = overview(tmp_path, 11, AsOf(offset=0))
    shown = [(each.change, each.acl.resource_name) for each in found.latest]
    assert shown == [("remove", "topic-2"), ("remove", "topic-1"), ("add", "topic-8")]


def test_last_days_are_the_default(tmp_path: Path) -> None:
    """A log that does not reach back so far is shown from its beginning."""
    days = [TIME_MS + number * DAY_MS for number in range(40)]
    write_timed(tmp_path, [(time_ms, added(at)) for at, time_ms in enumerate(days)])
    found = overview(tmp_path, 40, at_ms=days[-1] + MINUTE_MS)
    assert sum(each.added for each in found.spans) == 30
    assert (found.unit, len(found.spans)) == ("day", 31)
    early = overview(tmp_path, 40, at_ms=TIME_MS + DAY_MS, until=AsOf(offset=1))
    assert [each.offset for each in early.latest] == [1]


def test_end_before_the_begin_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)])
    with pytest.raises(PastRangeError, match="offset 1 is before offset 2"):
        overview(tmp_path, 2, AsOf(offset=2), AsOf(offset=1))


def test_authors_are_counted_by_certainty(tmp_path: Path) -> None:
    """An author who is not known, and one of several, have rows of their own."""
    records: list[MetadataRecord] = [added(1), removed(1), added(3)]
    write_timed(tmp_path, [(TIME_MS + at * MINUTE_MS, record) for at, record in enumerate(records)])
    requests = tuple(
        AuditedRequest(TIME_MS + minute * MINUTE_MS, minute != 1, principal)
        for minute, principal in ((0, "User:alice"), (1, "User:bob"), (1, "User:unknown"))
    )
    evidence = Evidence(requests=requests, logged=(Span(TIME_MS, TIME_MS + 300_000),))
    found = overview(tmp_path, 3, AsOf(offset=0), None, evidence, TIME_MS + 300_000)
    rows = {(each.principal, each.certainty): (each.added, each.removed) for each in found.authors}
    assert rows == {
        ("User:alice", Certainty.ONLY): (1, 0),
        (None, Certainty.ONE_OF): (0, 1),
        (None, Certainty.UNKNOWN): (1, 0),
    }
    named = [each.by and each.by.principals for each in found.latest]
    assert named == [(), ("User:bob", "User:unknown"), ("User:alice",)]
