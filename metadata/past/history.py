"""The changes of ACLs after an offset, each with its whole ACL, even for removals.

The record of a removal names only an id. The ACL comes from the record that added it, or from a
checkpoint. A first pass reads the changes after the offset, and a second one looks for the ACLs of
the removals that it could not complete. So the memory grows with the changes after the offset,
never with the number of ACLs.

**Invariant:** the changes are exactly those that a replay makes visible after the offset, in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from authorizerd.acl.as_of import AsOf, Moment
from authorizerd.acl.errors import PastMismatchError
from authorizerd.acl.model import Acl, AclAdded, Change
from authorizerd.acl.past import PastChange
from authorizerd.metadata.errors import PastDamagedError, PastRangeError, TooManyChangesError
from authorizerd.metadata.log import LogBatch
from authorizerd.metadata.past.past_log import PastLog, TimedBatch, check_complete, describe_future
from authorizerd.protocol.records.metadata import ID_SIZE, RecordType

_CHANGED: Final = re.compile(
    b"\x01[%b]\x00(?=(.{%d}))"
    % (
        re.escape(bytes((RecordType.ACCESS_CONTROL_ENTRY, RecordType.REMOVE_ACCESS_CONTROL_ENTRY))),
        ID_SIZE,
    ),
    re.DOTALL,
)
"""The start of the value of a record that adds or removes an ACL, and the id after it."""


class ChangesAfter(msgspec.Struct, frozen=True):
    """The changes after a moment of the past.

    Attributes:
        moment: the last batch before the changes.
        last: the last batch that was read.
    """

    moment: Moment
    last: Moment
    changes: tuple[PastChange, ...]


def read_changes_after(
    log: PastLog, offset: int, *, newest: int | None = None, changes_max: int | None = None
) -> ChangesAfter:
    """Return the changes of ACLs that became visible after ``offset``. Blocks on the files.

    Args:
        newest: the last offset to read, which must be the end of a batch; None reads to the end.
        changes_max: the maximum number of changes.

    Raises:
        PastRangeError: the log does not reach back to the offset, or there are more changes.
        PastNotReadError: the files end before ``newest``.
        MetadataLogError: a file is damaged or cannot be read.
    """
    first_pass = _FirstPass(offset, changes_max)
    for timed in log.read_after(offset):
        if newest is not None and timed.changes.last_offset > newest:
            break
        first_pass.add(timed)
    check_complete(first_pass.last.offset, newest)
    if first_pass.last.offset < offset:
        raise PastRangeError(describe_future(offset, first_pass.last.offset))
    found = _find_acls(log, offset, first_pass.missing)
    return ChangesAfter(first_pass.moment, first_pass.last, first_pass.complete(found))


class _FirstPass:
    """Collect the changes after ``offset``.

    Attributes:
        moment: the last batch up to ``offset``.
        last: the last batch.
        missing: the ids of the ACLs that were removed and whose addition is not among the changes.
    """

    def __init__(self, offset: int, changes_max: int | None) -> None:
        self._offset = offset
        self._changes_max = changes_max
        self._changes: list[tuple[Moment, Change]] = []
        self._added: set[bytes] = set()
        self.moment = self.last = Moment(-1, None)
        self.missing: set[bytes] = set()

    def add(self, timed: TimedBatch) -> None:
        """Add the next batch, or a part of it.

        Raises:
            TooManyChangesError: there are too many changes.
        """
        batch = timed.changes
        if batch.last_offset != self.last.offset:
            self.last = Moment(batch.last_offset, timed.time_ms)
        if batch.last_offset <= self._offset:
            self.moment = self.last
            return
        for change in batch.changes:
            if isinstance(change, AclAdded):
                self._added.add(change.id)
            elif change.id not in self._added:
                self.missing.add(change.id)
            self._changes.append((self.last, change))
        if self._changes_max is not None and len(self._changes) > self._changes_max:
            raise TooManyChangesError(
                f"offset {self._offset} is too far back: more than {self._changes_max} ACLs have "
                "changed since, which is the limit; ask about a later moment"
            )

    def complete(self, acls: dict[bytes, Acl]) -> tuple[PastChange, ...]:
        """Return the changes, each with its whole ACL.

        Args:
            acls: those of ``missing``.
        """
        acls = dict(acls)
        completed: list[PastChange] = []
        for moment, change in self._changes:
            if isinstance(change, AclAdded):
                acls[change.id] = acl = change.acl
            else:
                acl = acls[change.id]
            assert moment.time_ms is not None, "a batch of the log has a time"
            is_added = isinstance(change, AclAdded)
            completed.append(PastChange(moment.offset, moment.time_ms, is_added, change.id, acl))
        return tuple(completed)


def _find_acls(log: PastLog, offset: int, ids: set[bytes]) -> dict[bytes, Acl]:
    """Return the ACLs with these ids at ``offset``.

    Raises:
        PastMismatchError: an id has no ACL there.
        MetadataLogError: as ``PastLog.read``.
    """
    found = _search_acls(log, offset, ids, lambda each: _may_change(each, ids)) if ids else {}
    if ids - found.keys():
        # Records may also have other valid encodings.
        found = _search_acls(log, offset, ids, lambda _: True)
    absent = ids - found.keys()
    if absent:
        raise PastMismatchError(
            f"the log removes an ACL after offset {offset} that it has not added: id "
            f"{min(absent).hex()}"
        )
    return found


def _may_change(batch: LogBatch, ids: set[bytes]) -> bool:
    """Return True if a batch has a record, in the usual encoding, that adds or removes one of these
    ACLs."""
    return any(match[1] in ids for match in _CHANGED.finditer(batch.placed.batch.data))


def _search_acls(
    log: PastLog, offset: int, ids: set[bytes], wants: Callable[[LogBatch], bool]
) -> dict[bytes, Acl]:
    found: dict[bytes, Acl] = {}
    for timed in log.read(offset, wants=wants):
        if timed.changes.last_offset > offset:
            break
        for change in timed.changes.changes:
            if change.id in ids:
                if isinstance(change, AclAdded):
                    found[change.id] = change.acl
                else:
                    found.pop(change.id, None)
    return found


class History(msgspec.Struct, frozen=True):
    """The ACLs of a selection that were in force at a moment, and their later changes.

    Attributes:
        begin: the moment of ``acls``.
        end: the last batch that was read.
        acls: by id.
        unreadable: the damage because of which the history does not begin earlier, if any.
    """

    begin: Moment
    end: Moment
    acls: dict[bytes, Acl]
    changes: tuple[PastChange, ...]
    unreadable: str | None


def read_history(
    log: PastLog,
    select: Callable[[Acl], bool],
    *,
    since: AsOf | None = None,
    until: AsOf | None = None,
) -> History:
    """Return the history of the ACLs that ``select`` selects. Blocks on the files.

    The memory grows with the selected ACLs and their changes.

    Args:
        since: where it begins. Without it, it begins as far back as the log can be read.
        until: where it ends; None reads to the end of the log.

    Raises:
        PastRangeError: the log does not reach one of the moments.
        PastDamagedError: a file that the history needs is damaged.
        MetadataLogError: a file cannot be read.
    """
    last = None if until is None else log.find_offset(until)
    if since is not None:
        return _read_history(log, select, log.find_offset(since), last)
    try:
        return _read_history(log, select, log.oldest().offset, last)
    except PastDamagedError as error:
        first = error.readable_from
        if first is None or (last is not None and last < first):
            raise
        return replace(_read_history(log, select, first, last), unreadable=str(error))


def _read_history(
    log: PastLog, select: Callable[[Acl], bool], offset: int, last: int | None
) -> History:
    if last is not None and last < offset:
        raise PastRangeError(
            f"the history would end at offset {last}, before it begins at offset {offset}"
        )
    begin = end = Moment(-1, None)
    live: dict[bytes, Acl] = {}
    first: dict[bytes, Acl] | None = None
    changes: list[PastChange] = []
    for timed in log.read(offset):
        batch = timed.changes
        if last is not None and batch.last_offset > last:
            break
        end = Moment(batch.last_offset, timed.time_ms)
        if batch.last_offset <= offset:
            begin = end
        elif first is None:
            first = dict(live)
        selected = _follow(batch.changes, select, live)
        if first is not None:
            assert end.time_ms is not None, "a batch of the log has a time"
            changes += [PastChange(end.offset, end.time_ms, *each) for each in selected]
    else:
        asked = offset if last is None else last
        if end.offset < asked:
            raise PastRangeError(describe_future(asked, end.offset))
    return History(begin, end, live if first is None else first, tuple(changes), None)


def _follow(
    changes: Iterable[Change], select: Callable[[Acl], bool], live: dict[bytes, Acl]
) -> list[tuple[bool, bytes, Acl]]:
    """Apply changes to the selected ACLs, and return the changes that concern them.

    Returns: for each, True if it is an addition, the id and the ACL.
    """
    selected: list[tuple[bool, bytes, Acl]] = []
    for change in changes:
        if isinstance(change, AclAdded):
            if select(change.acl):
                live[change.id] = change.acl
                selected.append((True, change.id, change.acl))
        else:
            acl = live.pop(change.id, None)
            if acl is not None:
                selected.append((False, change.id, acl))
    return selected
