"""The query process's own copy of the state, kept current by the daemon's feed.

**Invariant:** a state becomes visible only once all changes of its batch are applied, in log order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from authorizerd.acl.index.builder import SnapshotBuilder
from authorizerd.acl.release_in_force import ReleaseInForce
from authorizerd.acl.snapshot import (
    EMPTY_SNAPSHOT,
    AclSnapshot,
    apply_changes,
    at_offset,
    with_rules,
)
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.protocol.worker_changes import (
    SharedTexts,
    to_batch,
)
from authorizerd.protocol.worker_feed import (
    TakeChanges,
)

STATES_KEPT_MAX: Final = 256
"""The number of states kept, so that a question is answered by its sender's state even if newer
ones have arrived."""


class ReplicatedState(msgspec.Struct, frozen=True, gc=False):
    """ACLs and topics at one log offset."""

    snapshot: AclSnapshot
    image: ClusterImage


class Replica:
    """Applies the orders of the feed.

    ``states`` are the newest ones, none until the whole state has arrived.

    Args:
        judge: returns the releases whose rules judge the ACLs of an image.
    """

    def __init__(self, judge: Callable[[ClusterImage], ReleaseInForce]) -> None:
        self._judge = judge
        self._builder: SnapshotBuilder | None = SnapshotBuilder()
        self._texts = SharedTexts()
        self._snapshot, self._image = EMPTY_SNAPSHOT, EMPTY_IMAGE
        self.states: deque[ReplicatedState] = deque(maxlen=STATES_KEPT_MAX)

    @property
    def offset(self) -> int:
        """The log offset of the newest state, -1 before the first."""
        return self.states[-1].snapshot.offset if self.states else -1

    def find(self, offset: int) -> ReplicatedState:
        """Return the state at this log offset, or the newest one if it is no longer kept."""
        newest = self.states[-1]
        exact = (state for state in reversed(self.states) if state.snapshot.offset == offset)
        return next(exact, newest)

    def take_changes(self, order: TakeChanges) -> None:
        """Apply one part of a batch.

        Raises:
            ChangeError: it contradicts the state before it.
        """
        batch = to_batch(order, self._texts if self._builder is None else None)
        self._image = apply_cluster_changes(self._image, batch.cluster_changes)
        if self._builder is not None:
            self._builder.apply_changes(batch.changes)
            return
        self._snapshot = apply_changes(self._snapshot, batch.changes)
        if batch.is_end:
            self._show(at_offset(self._snapshot, batch.last_offset))

    def finish_load(self, offset: int) -> None:
        """Publish the changes so far, which are the whole state."""
        assert self._builder is not None, "a state is loaded once"
        snapshot = self._builder.freeze(offset)
        self._builder = None
        self._show(snapshot)

    def _show(self, snapshot: AclSnapshot) -> None:
        self._snapshot = with_rules(snapshot, self._judge(self._image).rules)
        self.states.append(ReplicatedState(self._snapshot, self._image))
