"""The changes of ACLs in a part of the log: how many in each span of time, by whom, and the latest.

**Invariant:** the numbers of all spans, and those of all authors, have the sum of the changes that
were counted. If changes are left out, the answer says from where on. An author who is not known
counts as not known.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from authorizerd.acl.as_of import AsOf, Moment
from authorizerd.acl.audit.authors import Authors, Certainty, Evidence
from authorizerd.acl.model import Acl, AclAdded
from authorizerd.acl.past import PastChange
from authorizerd.daemon.queries.change_authors import AuthorReader
from authorizerd.metadata.errors import PastRangeError
from authorizerd.metadata.past.history import read_changes_after
from authorizerd.metadata.past.past_log import PastLog, check_complete
from authorizerd.protocol.decisions.past_answers import (
    FindAuthor,
    MomentAnswer,
    PastChangeAnswer,
    make_moment,
    make_past_change,
)

CHANGES_MAX: Final = 100_000
"""How many changes are counted."""
LISTED_MAX: Final = 100
"""How many changes are listed."""
AUTHORS_MAX: Final = 20
SPANS_MAX: Final = 100
DEFAULT_DAYS: Final = 30
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * DAY_MS
_UNITS: Final = {"minute": MINUTE_MS, "hour": HOUR_MS, "day": DAY_MS, "week": WEEK_MS}
_MONDAY_MS: Final = 4 * DAY_MS
"""1970 began on a Thursday, and weeks begin on Mondays."""
_UNKNOWN: Final = Authors(Evidence())
_ANY_ACL: Final = Acl(0, "", 0, "", "", 0, 0)
"""A request has one author, whatever its ACLs are."""


class Counted(msgspec.Struct, frozen=True):
    """The numbers of changes after ``begin``, up to ``end``, in log order.

    Attributes:
        numbers: of each batch, or part of one, how many ACLs were added, and how many removed. The
            ACLs are left out, so that nothing must be looked up.
        is_cut: True if later changes are left out.
    """

    begin: Moment
    end: Moment
    numbers: tuple[tuple[PastChange, int], ...]
    is_cut: bool


class ChangeSpan(msgspec.Struct, frozen=True):
    """The numbers of ACLs added and removed in a span of time."""

    begin_ms: int
    end_ms: int
    added: int
    removed: int


class AuthorCount(msgspec.Struct, frozen=True):
    """The changes of one author. ``principal`` is None unless a single caller fits."""

    principal: str | None
    certainty: Certainty
    added: int
    removed: int


class ChangeOverview(msgspec.Struct, frozen=True):
    """The changes after ``begin``, up to ``end``.

    Attributes:
        unit: the length of a span, such as ``hour`` or ``4 weeks``.
        spans: without a gap.
        authors: those with the most changes first.
        latest: the newest changes first.
        is_cut: True if changes after ``end`` are left out.
    """

    begin: MomentAnswer
    end: MomentAnswer
    unit: str
    spans: tuple[ChangeSpan, ...]
    authors: tuple[AuthorCount, ...]
    authors_left_out: int
    latest: tuple[PastChangeAnswer, ...]
    is_cut: bool


def read_overview(
    log: PastLog,
    since: AsOf | None,
    until: AsOf | None,
    *,
    newest: int,
    at_ms: int,
    authors: AuthorReader | None,
) -> ChangeOverview:
    """Return the changes after a moment. Blocks on the files.

    Args:
        since: None for ``DEFAULT_DAYS`` ago, or the beginning of the log.
        until: None for now.
        newest: the offset of the newest state.
        at_ms: now.
        authors: finds the authors; None if all are unknown.

    Raises:
        PastRangeError: the log does not reach back to ``since``, or ``until`` is before it.
        PastNotReadError: the files end before the newest state.
        MetadataLogError: a file is damaged or cannot be read.
    """
    since = since or _find_default(log, at_ms)
    offset = log.find_offset(since, newest=newest)
    last = newest if until is None else log.find_offset(until, newest=newest)
    if last < offset:
        raise PastRangeError(f"{until} is before {since}")
    counted = _count_changes(log, offset, last)
    if last == newest and not counted.is_cut:
        check_complete(counted.end.offset, newest)
    begin_ms = counted.begin.time_ms if since.time_ms is None else since.time_ms
    end_ms = counted.end.time_ms if counted.is_cut else at_ms if until is None else until.time_ms
    unit, spans = make_spans(counted, begin_ms, end_ms)
    find_author = None if authors is None else authors.read(each for each, _ in counted.numbers)
    found = _count_authors(counted, find_author or _UNKNOWN.find)
    latest = read_changes_after(log, _find_listed(counted), newest=counted.end.offset).changes
    return ChangeOverview(
        begin=make_moment(counted.begin),
        end=make_moment(counted.end),
        unit=unit,
        spans=spans,
        authors=tuple(found[:AUTHORS_MAX]),
        authors_left_out=max(0, len(found) - AUTHORS_MAX),
        latest=tuple(
            make_past_change(each, find_author) for each in reversed(latest[-LISTED_MAX:])
        ),
        is_cut=counted.is_cut,
    )


def _find_default(log: PastLog, at_ms: int) -> AsOf:
    oldest, since_ms = log.oldest(), at_ms - DEFAULT_DAYS * DAY_MS
    is_reached = oldest.time_ms is not None and oldest.time_ms <= since_ms
    return AsOf(time_ms=since_ms) if is_reached else AsOf(offset=oldest.offset)


def _count_changes(log: PastLog, offset: int, last: int) -> Counted:
    """Count the changes after ``offset``, up to the offset ``last``, at most ``CHANGES_MAX``.

    The batch that reaches the limit is counted as a whole.
    """
    begin = end = Moment(-1, None)
    numbers: list[tuple[PastChange, int]] = []
    total = 0
    for timed in log.read_after(offset):
        batch = timed.changes
        if batch.last_offset > last:
            break
        if batch.last_offset != end.offset:  # a large batch arrives in parts
            if total >= CHANGES_MAX:
                return Counted(begin, end, tuple(numbers), is_cut=True)
            end = Moment(batch.last_offset, timed.time_ms)
        if batch.last_offset <= offset:
            begin = end
            continue
        assert end.time_ms is not None, "a batch of the log has a time"
        added = sum(isinstance(each, AclAdded) for each in batch.changes)
        total += len(batch.changes)
        for is_added, number in ((True, added), (False, len(batch.changes) - added)):
            if number:
                change = PastChange(end.offset, end.time_ms, is_added, b"", _ANY_ACL)
                numbers.append((change, number))
    return Counted(begin, end, tuple(numbers), is_cut=False)


def _find_listed(counted: Counted) -> int:
    """Return the last offset after which there are at least ``LISTED_MAX`` changes, if any."""
    total, offset = 0, counted.end.offset
    for change, number in reversed(counted.numbers):
        if total >= LISTED_MAX and change.offset < offset:
            return change.offset
        total, offset = total + number, change.offset
    return counted.begin.offset


def make_spans(
    counted: Counted, begin_ms: int | None, end_ms: int | None
) -> tuple[str, tuple[ChangeSpan, ...]]:
    """Return the unit and the spans, at most ``SPANS_MAX``.

    Args:
        begin_ms, end_ms: what the spans cover besides the changes, if it is known.
    """
    times = (change.time_ms for change, _ in counted.numbers)
    known = [each for each in (begin_ms, end_ms, *times) if each is not None]
    if not known:
        return "minute", ()
    first_ms, last_ms = min(known), max(known)
    unit, step = _choose_unit(last_ms - first_ms)
    shift = _MONDAY_MS if step >= WEEK_MS else 0
    numbers: Counter[tuple[int, bool]] = Counter()
    for change, number in counted.numbers:
        numbers[(change.time_ms - shift) // step, change.is_added] += number
    return unit, tuple(
        ChangeSpan(
            shift + place * step,
            shift + (place + 1) * step,
            numbers[place, True],
            numbers[place, False],
        )
        for place in range((first_ms - shift) // step, (last_ms - shift) // step + 1)
    )


def _choose_unit(length_ms: int) -> tuple[str, int]:
    for unit, step in _UNITS.items():
        if length_ms // step + 2 <= SPANS_MAX:
            return unit, step
    weeks = length_ms // WEEK_MS // (SPANS_MAX - 2) + 1
    return f"{weeks} weeks", weeks * WEEK_MS


def _count_authors(counted: Counted, find_author: FindAuthor) -> list[AuthorCount]:
    numbers: dict[tuple[str | None, Certainty], list[int]] = {}
    for change, number in counted.numbers:
        author = find_author(change)
        single = author.principals[0] if len(author.principals) == 1 else None
        count = numbers.setdefault((single, author.certainty), [0, 0])
        count[not change.is_added] += number
    most = sorted(numbers, key=lambda key: (-sum(numbers[key]), key[0] or "", key[1]))
    return [AuthorCount(*key, *numbers[key]) for key in most]
