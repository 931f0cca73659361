"""The grants of one cluster, as a task keeps them: what the notes say, and what they need.

**Invariant:** each note is read once, and a note that cannot be read is a fault, never nothing.
Work that grows with the number of grants is done in chunks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Container, Iterable, Sequence

import msgspec

from authorizerd.acl.grants.model import Grant, read_grant_note
from authorizerd.acl.grants.steps import FindId, Step, find_steps
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import NoteError, name_note
from authorizerd.acl.steps import Steps


class GrantState(msgspec.Struct, frozen=True):
    """What is known of a cluster's ACLs at one time.

    Attributes:
        names: the names that notes may have; see ``acl.notes.list_note_names``.
        has_acl: whether an ACL exists, also a note.
        find_id: returns the uuid of an ACL, which may be one of those given; None if it is not
            known. None if the ids of this cluster are never known.
        offset: the log offset, -1 if it is not known.
    """

    names: Collection[str]
    has_acl: Callable[[Acl], bool]
    find_id: Callable[[Acl, Iterable[bytes]], bytes | None] | None = None
    offset: int = -1


class GrantCounts(msgspec.Struct, frozen=True):
    """How many grants there are. ``overdue_ms`` is for how long the first one has been overdue."""

    active: int
    waiting: int
    overdue: int
    unreadable: int
    overdue_ms: int


class GrantBook:
    """The notes of grants, and their faults. Only one task may change it."""

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}
        """By the name of the note."""
        self.unidentified: frozenset[Acl] = frozenset()
        """The ACLs whose uuid a note lacks."""
        self._read: dict[str, Grant | None] = {}
        self._by_acl: dict[Acl, dict[str, Grant]] = {}
        self._names: Collection[str] | None = None
        self._due_ms: list[int] = []
        self._active = 0

    @property
    def is_empty(self) -> bool:
        return not self._by_acl

    def replace(self, state: GrantState) -> Steps[None]:
        """Note which notes there are now."""
        if state.names is self._names:
            return
        names = set(state.names)
        known = self._read.keys() | self.faults.keys()
        for name in known - names:
            self.faults.pop(name, None)
            self._forget(name, self._read.pop(name, None))
            yield
        for name in sorted(names - known):  # in the same order in every process
            self._add(name, state)
            yield
        yield from self._sum_up()
        self._names = state.names

    def _sum_up(self) -> Steps[None]:
        ends: dict[Acl, int] = {}
        begins: list[int] = []
        unidentified: set[Acl] = set()
        for acl, grants in self._by_acl.items():
            for grant in grants.values():
                if grant.is_waiting:
                    begins.append(grant.begin_ms)
                    continue
                ends[acl] = max(grant.end_ms, ends.get(acl, grant.end_ms))
                if grant.acl_id is None:
                    unidentified.add(acl)
            yield
        self.unidentified = frozenset(unidentified)
        self._due_ms, self._active = sorted((*ends.values(), *begins)), len(ends)

    def _add(self, name: str, state: GrantState) -> None:
        note = name_note(name)
        if not state.has_acl(note):
            return
        try:
            grant = self._read[name] = read_grant_note(note)
        except NoteError as error:
            self.faults[name] = str(error)
        else:
            if grant is not None:
                self._by_acl.setdefault(grant.acl, {})[name] = grant

    def _forget(self, name: str, grant: Grant | None) -> None:
        if grant is None:
            return
        left = self._by_acl[grant.acl]
        del left[name]
        if not left:
            del self._by_acl[grant.acl]

    def find(
        self, state: GrantState, now_ms: int, only: Container[Acl] | None = None
    ) -> Steps[tuple[list[Step], int | None]]:
        """Return the steps of ``find_steps``, and when the next one is due; None if never.

        Args:
            only: the ACLs to look at; None for all.
        """
        steps: list[Step] = []
        next_ms: int | None = None
        for acl, grants in list(self._by_acl.items()):
            if only is None or acl in only:
                theirs = [*grants.values()]
                found = find_steps(theirs, state.has_acl, now_ms, _bind_ids(state, theirs))
                if found.steps:  # another ACL may keep the name of a note that has gone
                    theirs = [g for name, g in grants.items() if state.has_acl(name_note(name))]
                    found = find_steps(theirs, state.has_acl, now_ms, _bind_ids(state, theirs))
                steps += found.steps
                if found.next_ms is not None:
                    next_ms = min(found.next_ms, next_ms or found.next_ms)
                yield
        return steps, next_ms

    def count(self, now_ms: int) -> GrantCounts:
        """Return the counts at a time. A waiting grant is overdue if it should have begun."""
        due, overdue = self._due_ms, bisect_left(self._due_ms, now_ms)
        return GrantCounts(
            active=self._active,
            waiting=len(due) - self._active,
            overdue=overdue,
            unreadable=len(self.faults),
            overdue_ms=now_ms - due[0] if overdue else 0,
        )


def _bind_ids(state: GrantState, grants: Sequence[Grant]) -> FindId | None:
    find_id = state.find_id
    if find_id is None:
        return None
    known = [grant.acl_id for grant in grants if grant.acl_id is not None]
    return lambda acl: find_id(acl, known)
