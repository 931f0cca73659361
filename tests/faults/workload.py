"""Random batches of added and removed ACLs, of many sizes."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

from authorizerd.acl.model import Acl, AclAdded, AclRemoved, Change
from tests.support.acls import acl
from tests.support.log_files import added

State = dict[bytes, Acl]
"""ACLs by id."""
Batch = list[AclAdded | AclRemoved]


class BrokenInvariantError(Exception):
    """An invariant does not hold; the text says which."""


def apply(state: State, change: Change) -> None:
    """Make a change to ``state``, or raise BrokenInvariantError if it does not fit."""
    if isinstance(change, AclAdded):
        if change.id in state:
            raise BrokenInvariantError("an ACL is added twice")
        state[change.id] = change.acl
    elif state.pop(change.id, None) is None:
        raise BrokenInvariantError("an absent ACL is removed")


def after(state: State, batches: Iterable[Sequence[Change]]) -> State:
    state = dict(state)
    for batch in batches:
        for change in batch:
            apply(state, change)
    return state


class Workload:
    """Draw batches that fit the state before them. No ACL is repeated."""

    def __init__(self, chance: Random, *, is_large: bool) -> None:
        self._chance: Final = chance
        self._is_large: Final = is_large
        self._number = 0

    def new_batches(self, state: State) -> list[Batch]:
        """Return the batches of one append after ``state``."""
        state, batches = dict(state), []
        for _ in range(self._chance.choice((1, 1, 2, 3, 6))):
            size = self._chance.choice((1, 2, 3, 6))
            if self._is_large and self._chance.random() < 0.3:
                size = self._chance.randint(20, 60)
            batch: Batch = []
            for _ in range(size):
                if state and self._chance.random() < 0.4:
                    batch.append(AclRemoved(self._chance.choice(sorted(state))))
                else:
                    batch.append(self.new_acl())
                apply(state, batch[-1])
            batches.append(batch)
        return batches

    def new_acl(self) -> AclAdded:
        self._number += 1
        name = "n" * self._chance.choice((1, 20, self._chance.randint(1, 249)))
        return added(self._number, acl(f"User:{self._number}", topic=name))
