"""The journal: the latest changes of ACLs in memory, in log order, for followers.

**Invariant:** the journal has every change of ACLs after ``floor``, once and in order, up to the
offset of the newest applied state. A change is in the journal only once it is applied. It leaves
only to keep the journal within its limit. The applier adds to it in the same step as it publishes
the state, so a state's offset is always a position to continue from.

A follower keeps only its position, a number. A follower that is too slow loses its position; it
never makes the journal grow.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from authorizerd.acl.model import Acl, AclAdded, Change
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import Steps
from authorizerd.actors.published import Published, View

CHANGES_PER_PART: Final = 64
PART_BYTES_MAX: Final = 64 * 1024
CHANGE_BYTES: Final = 512
"""The bytes of a change without its texts: its objects, and its share of the part's text."""
_TEXT_COST: Final = 3
"""Bytes per character: one for the text itself, and two in the part's text."""


class AclChange(msgspec.Struct, frozen=True, gc=False):
    """One ACL that was added or removed; ``id`` is its 16-byte uuid."""

    is_added: bool
    id: bytes
    acl: Acl


class JournalPart:
    """Some changes of the batch at log offset ``offset``; ``is_last`` if they complete it.

    ``text`` is sent to followers. The first follower that needs it sets it, for all others.
    """

    __slots__ = ("changes", "cost", "is_last", "offset", "text")

    def __init__(self, changes: tuple[AclChange, ...], cost: int) -> None:
        self.changes: Final = changes
        self.cost: Final = cost
        self.offset = -1
        self.is_last = False
        self.text = b""


class ExpiredError(Exception):
    """The journal does not have all changes after an offset; the text names the offsets."""


class AclJournal:
    """The journal of one process.

    Args:
        bytes_max: approximate limit of the memory of all parts. With 0, the journal keeps nothing.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max: Final = bytes_max
        self._bytes = 0
        self._parts: Final[deque[JournalPart]] = deque()
        self._dropped = 0
        self._pending: list[JournalPart] = []
        self._is_lost = False  # changes are pending that are not kept
        self._news: Final = Published(0)
        self.floor = -1
        """The journal has every change after this log offset."""
        self.offset = -1
        """The log offset up to which changes are applied."""
        self.stop_reason = ""
        """Why decisions are stopped, while changes are still applied. Empty while decisions are
        made."""

    @property
    def news(self) -> View[int]:
        """A number that grows whenever followers may have something to do."""
        return self._news

    def find(self, offset: int) -> int:
        """Return the position of the first change after a log offset.

        Raises:
            ExpiredError: changes after that offset have left the journal, or are not applied yet.
        """
        if offset < self.floor:
            raise ExpiredError(
                f"the changes after offset {offset} are no longer in memory, which begins after"
                f" offset {self.floor}"
            )
        if offset > self.offset:
            raise ExpiredError(
                f"offset {offset} is not known here: the newest applied offset is {self.offset}"
            )
        parts = self._parts
        return self._dropped + bisect_right(parts, offset, key=lambda part: part.offset)

    def look_up(self, position: int) -> JournalPart | None:
        """Return the part at this position, or None if there is none yet.

        Raises:
            ExpiredError: the part has left the journal.
        """
        index = position - self._dropped
        if index < 0:
            raise ExpiredError(
                f"changes have left the memory before they were sent: it begins after offset"
                f" {self.floor}"
            )
        return self._parts[index] if index < len(self._parts) else None

    def find_added(self, offset: int, acls: Collection[Acl]) -> Steps[set[Acl]]:
        """Return, in steps, which ACLs were added after a log offset, even if removed since then.

        Raises:
            ExpiredError: as ``find``.
        """
        wanted, found = frozenset(acls), set[Acl]()
        position = self.find(offset)
        while (part := self.look_up(position)) is not None:
            found |= wanted & {change.acl for change in part.changes if change.is_added}
            position += 1
            yield
        return found

    # The applier alone calls the methods below.

    def begin(self, offset: int, stop_reason: str) -> None:
        """Note that a state has been loaded. The journal has no changes up to its offset."""
        self.floor = self.offset = offset
        self.stop_reason = stop_reason

    def collect(self, before: AclSnapshot, changes: Iterable[Change]) -> Steps[None]:
        """Prepare changes that follow the state ``before``, in steps. None is visible yet."""
        if not self._bytes_max:
            self._is_lost = self._is_lost or any(True for _ in changes)
            return
        added: dict[bytes, Acl] = {}
        part: list[AclChange] = []
        cost = 0
        for change in changes:
            acl: Acl | None
            if type(change) is AclAdded:
                acl = added[change.id] = change.acl
                is_added = True
            else:
                acl, is_added = added.get(change.id) or before.acls.get(change.id), False
                if acl is None:
                    return  # the contradiction is reported when the batch is applied
            change_cost = _cost(acl)
            if part and (len(part) == CHANGES_PER_PART or cost + change_cost > PART_BYTES_MAX):
                self._pending.append(JournalPart(tuple(part), cost))
                part, cost = [], 0
                yield
            part.append(AclChange(is_added, change.id, acl))
            cost += change_cost
        if part:
            self._pending.append(JournalPart(tuple(part), cost))

    def commit(self, offset: int) -> None:
        """Make the prepared changes visible: they are applied now, up to this log offset."""
        self.offset = offset
        if self._is_lost:
            self.floor, self._is_lost = offset, False
        if not self._pending:
            return
        for part in self._pending:
            part.offset = offset
            self._bytes += part.cost
        self._pending[-1].is_last = True
        self._parts.extend(self._pending)
        self._pending.clear()
        self._notify()

    def trim(self) -> Steps[None]:
        """Drop the oldest changes, in steps, until the journal is within its limit."""
        while self._bytes > self._bytes_max:
            dropped = self._parts.popleft()
            self._dropped += 1
            self._bytes -= dropped.cost
            self.floor = dropped.offset
            del dropped
            yield

    def stop(self, reason: str) -> None:
        """Note that decisions are stopped."""
        self.stop_reason = reason
        self._notify()

    def resume(self) -> None:
        """Note that decisions resume."""
        self.stop_reason = ""
        self._notify()

    def _notify(self) -> None:
        self._news.publish(self._news.newest + 1)


def _cost(acl: Acl) -> int:
    texts = len(acl.resource_name) + len(acl.principal) + len(acl.host)
    return CHANGE_BYTES + _TEXT_COST * texts
