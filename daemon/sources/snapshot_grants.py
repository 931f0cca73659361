"""The grants of this daemon's own state: where their notes are read, and the own log's requests.

**Invariant:** the own log carries a request out only if nothing that it rests on has changed since
its state was read: no note, and none of its ACLs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any, Final

import trio

from authorizerd.acl.audit.authors import CREATE, DELETE
from authorizerd.acl.errors import AclError, StateMovedError
from authorizerd.acl.filters import filter_of
from authorizerd.acl.grants.book import GrantState
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note, list_note_names
from authorizerd.acl.snapshot import AclSnapshot, contains
from authorizerd.acl.steps import Steps, in_chunks
from authorizerd.acl.updates import AclTail, Deleted, TailGuard
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.completion import Completion
from authorizerd.actors.errors import LogWriteError, UpdateRefusedError
from authorizerd.actors.grant_keeper import GrantAccessError
from authorizerd.actors.published import View
from authorizerd.actors.steps import finish_in_turns
from authorizerd.actors.updates import Updates

AUTHOR: Final = "Authorizerd:grants"
"""Who begins and ends grants, for the audit log. No client has this principal."""
CHANGE_SECONDS: Final = 1.0
"""How soon after a look another ACL's change leads to the next."""


class SnapshotGrants:
    """Reads grants from the newest snapshot.

    Args:
        knows_ids: False if the snapshot's ids are derived from the ACLs.
    """

    def __init__(self, snapshot: View[AclSnapshot | None], *, knows_ids: bool) -> None:
        self._snapshot = snapshot
        self._knows_ids = knows_ids
        self._ids: dict[Acl, bytes] = {}
        self._seen: tuple[object, object] = None, None

    async def read_state(self) -> GrantState | None:
        snapshot = self._snapshot.newest
        await trio.lowlevel.checkpoint()
        if snapshot is None:
            return None
        self._seen = list_note_names(snapshot), snapshot.acls
        return self._state_of(snapshot)

    def _state_of(self, snapshot: AclSnapshot) -> GrantState:
        def find_id(acl: Acl, candidates: Iterable[bytes]) -> bytes | None:
            for each in (*candidates, self._ids.get(acl, b"")):
                if snapshot.acls.get(each) == acl:
                    self._ids[acl] = each
                    return each
            return None

        return GrantState(
            list_note_names(snapshot),
            lambda acl: contains(snapshot.types[acl.resource_type], acl),
            find_id if self._knows_ids else None,
            snapshot.offset,
        )

    async def learn_ids(self, acls: Collection[Acl]) -> None:
        """Search the snapshot, in steps, for the ids of ACLs that are not known yet."""
        snapshot = self._snapshot.newest
        if snapshot is None or not self._knows_ids:
            return
        find_id = self._state_of(snapshot).find_id
        assert find_id is not None, "the ids are known"
        self._ids = {acl: self._ids[acl] for acl in self._ids.keys() & acls}
        missing = {acl for acl in acls if find_id(acl, ()) is None}
        if missing:
            self._ids |= await finish_in_turns(_search(snapshot, missing))

    async def wait(self, seconds: float) -> None:
        looked_at = trio.current_time()

        def needs_look(newest: AclSnapshot | None) -> bool:
            if newest is None:
                return False
            if list_note_names(newest) is not self._seen[0]:
                return True
            is_early = trio.current_time() < looked_at + CHANGE_SECONDS
            return newest.acls is not self._seen[1] and not is_early

        with trio.move_on_after(seconds):
            await self._snapshot.wait_until(needs_look)


def _search(snapshot: AclSnapshot, acls: Collection[Acl]) -> Steps[dict[Acl, bytes]]:
    found: dict[Acl, bytes] = {}
    principals = {acl.principal for acl in acls}
    for chunk in in_chunks(snapshot.acls.items()):
        found |= {
            acl: acl_id for acl_id, acl in chunk if acl.principal in principals and acl in acls
        }
        yield
    return found


class GrantGuard(TailGuard):
    """The condition of a request about grants; other changes of ACLs do not matter to it."""

    __slots__ = ("_acls", "_ids", "_names", "_state")

    def __init__(self, state: GrantState, acls: Sequence[Acl]) -> None:
        super().__init__(state.offset)
        self._names = state.names
        self._state = state
        self._acls = frozenset(acl for acl in acls if not is_note(acl))
        find_id = state.find_id
        assert find_id is not None, "the own log knows its ids"
        self._ids = {acl: find_id(acl, ()) for acl in self._acls}

    def permits(self, tail: AclTail) -> bool:
        snapshot, touched = tail.snapshot, chain(tail.added, tail.removed)
        return (
            list_note_names(snapshot) is self._names
            and not any(is_note(acl) or acl in self._acls for acl in touched)
            and all(
                contains(snapshot.types[acl.resource_type], acl) == self._state.has_acl(acl)
                and (acl_id is None or snapshot.acls.get(acl_id) == acl)
                for acl, acl_id in self._ids.items()
            )
        )


class OwnLogGrants(SnapshotGrants):
    """Keeps the grants of the daemon's own log, whose controller it is."""

    def __init__(self, snapshot: View[AclSnapshot | None], updates: Updates) -> None:
        super().__init__(snapshot, knows_ids=True)
        self._updates = updates

    async def confirm_state(self, acls: Collection[Acl]) -> GrantState:
        state = await self.read_state()
        if state is None:
            raise GrantAccessError("the ACLs are not available")
        return state

    async def read_clock_ms(self) -> None:
        await trio.lowlevel.checkpoint()

    async def create(self, acls: Sequence[Acl], state: GrantState) -> Sequence[str]:
        return await _collect(self._updates.create(acls, _context(CREATE, acls, state)))

    async def delete(self, acls: Sequence[Acl], state: GrantState | None) -> Sequence[str]:
        filters = [filter_of(acl) for acl in acls]
        return await _collect(self._updates.delete(filters, _context(DELETE, acls, state)))


def _context(name: str, acls: Sequence[Acl], state: GrantState | None) -> RequestContext:
    guard = None if state is None else GrantGuard(state, acls)
    return RequestContext(principal=AUTHOR, host=None, request_name=name, guard=guard)


async def _collect(completions: Sequence[Completion[Any]]) -> Sequence[str]:
    """Return the error of each item.

    Raises:
        StateMovedError: the guard's condition does not hold.
        GrantAccessError: the request was not carried out, or it is not known whether it was.
    """
    errors: list[str] = []
    for completion in completions:
        try:
            result = await completion
            error = result.error if isinstance(result, Deleted) else None
        except AclError as rejected:
            error = rejected
        except (UpdateRefusedError, LogWriteError) as refused:
            raise GrantAccessError(str(refused)) from refused
        if isinstance(error, StateMovedError):
            raise StateMovedError(str(error))
        errors.append("" if error is None else str(error))
    return errors
