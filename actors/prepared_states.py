"""States that the applier computes before their changes are durable.

**Invariant:** a prepared state is invisible. The applier publishes it only once it gets the same
changes as a committed batch, and only if they follow the ACLs for which the state was computed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from immutables import Map

from authorizerd.acl.model import Acl, Change
from authorizerd.acl.snapshot import AclSnapshot, apply_changes
from authorizerd.acl.steps import Steps, in_chunks
from authorizerd.image.errors import ChangeError

CHANGES_TOGETHER: Final = 16
"""The number of changes that one step applies. More together take less time each, but each of the
costliest ones, DENY rules for ranges, takes 40 µs."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The state after ``changes``, which follow the ACLs ``before``, and the states it replaces."""

    changes: tuple[Change, ...]
    before: Map[bytes, Acl]
    after: AclSnapshot
    replaced: list[AclSnapshot]


class PreparedStates:
    """The states after the batches of one append, in log order."""

    def __init__(self) -> None:
        self._states: deque[_Prepared] = deque()

    def prepare(self, snapshot: AclSnapshot, batches: Iterable[tuple[Change, ...]]) -> Steps[None]:
        """Compute, in steps, the state after each batch. The first one follows ``snapshot``.

        States of an earlier append are dropped: if they are still here, it was never committed.
        """
        self._states.clear()
        for changes in batches:
            replaced: list[AclSnapshot] = []
            try:
                after = yield from apply_in_steps(snapshot, changes, replaced)
            except ChangeError:
                return  # reported once the batch is committed
            self._states.append(_Prepared(changes, snapshot.acls, after, replaced))
            snapshot = after

    def take(
        self, snapshot: AclSnapshot, changes: tuple[Change, ...], replaced: list[AclSnapshot]
    ) -> AclSnapshot | None:
        """Return the state after ``changes``, which follow ``snapshot``; None if it is not ready.

        Append the states that it replaces to ``replaced``, as ``apply_in_steps`` does.
        """
        if not self._states:
            return None
        first = self._states.popleft()
        # The map of all ACLs is a new object after each change, so it identifies the state.
        if first.changes is not changes or first.before is not snapshot.acls:
            self._states.clear()
            return None
        replaced += first.replaced
        return first.after


def apply_in_steps(
    snapshot: AclSnapshot, changes: tuple[Change, ...], replaced: list[AclSnapshot]
) -> Steps[AclSnapshot]:
    """Return the state after ``changes``. Append the one before each chunk to ``replaced``.

    Each state shares nearly everything with the next one, so each is freed quickly. Without the
    intermediate states, freeing a state that is ten thousand changes older would block the thread.
    """
    for chunk in in_chunks(changes):
        replaced.append(snapshot)
        for start in range(0, len(chunk), CHANGES_TOGETHER):
            snapshot = apply_changes(snapshot, chunk[start : start + CHANGES_TOGETHER])
            yield
    return snapshot
