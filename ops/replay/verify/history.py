"""The states of the ACLs over time, and which of them may have decided a recorded request.

**Invariant:** only states that a request does not depend on are left out: no ACL that may match it
differs between them. A clock of the log that was set back adds possible states, and removes none.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

from authorizerd.acl.host_ranges import find_range
from authorizerd.acl.index.builder import build
from authorizerd.acl.model import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclAdded,
    AclRemoved,
    Change,
    PatternType,
)
from authorizerd.acl.patterns import is_wildcard
from authorizerd.acl.snapshot import AclSnapshot, apply_changes
from authorizerd.replay.judging.asking import RESOURCE_TYPE_CODES, Asked
from authorizerd.replay.text import format_time

ALWAYS: Final = -sys.maxsize
"""The time of a state that has none: it is in force from the beginning."""
_ID_BYTES: Final = 16


class AclChange(NamedTuple):
    """The addition or removal of an ACL, which a removal in a log does not name."""

    id: bytes
    acl: Acl
    is_added: bool = True

    @property
    def change(self) -> Change:
        return AclAdded(self.id, self.acl) if self.is_added else AclRemoved(self.id)


class State(msgspec.Struct, frozen=True):
    """The ACLs after ``changes``, which became visible at ``offset`` and ``time_ms``.

    The first state has all of its ACLs as changes. ``offset`` is None for a source without offsets.
    """

    changes: tuple[AclChange, ...]
    time_ms: int
    offset: int | None = None


class History(msgspec.Struct, frozen=True, dict=True):
    """The states of ``source`` in order, as known at ``end_ms``.

    That is the time of the last record that was read, which has ``offset``, or of a listing. It is
    None if it is not known.
    """

    source: str
    states: Sequence[State]
    offset: int | None = None
    end_ms: int | None = None

    def snapshots(self) -> Iterator[AclSnapshot]:
        """Yield the ACLs of each state; a caller keeps one of them at a time.

        Raises:
            ChangeError: a change contradicts an earlier one.
        """
        snapshot: AclSnapshot | None = None
        for state in self.states:
            snapshot = apply_state(snapshot, state)
            yield snapshot

    @property
    def acls(self) -> Iterator[Acl]:
        """All ACLs of all states; some occur several times."""
        return (each.acl for state in self.states for each in state.changes)

    @cached_property
    def depends_on_release(self) -> bool:
        """Whether releases may differ: an ACL's host is a range of addresses."""
        return any(find_range(acl.host) is not None for acl in self.acls)

    @cached_property
    def texts(self) -> frozenset[str]:
        """All ACLs as audit lines name them."""
        return frozenset(map(str, self.acls))

    @cached_property
    def _begins(self) -> tuple[list[int], list[int]]:
        """The latest and the earliest time at which each state may have begun.

        They are equal if the times of the log never go back.
        """
        times = [state.time_ms for state in self.states]
        earliest = list(accumulate(reversed(times), min))
        return list(accumulate(times, max)), earliest[::-1]

    @cached_property
    def _changed(self) -> dict[tuple[int, bool, str], list[tuple[str, int]]]:
        """By resource type, whether the pattern is literal, and its name: principals and states."""
        changed: defaultdict[tuple[int, bool, str], list[tuple[str, int]]] = defaultdict(list)
        for number, state in enumerate(self.states[1:], 1):
            for _, acl, _ in state.changes:
                name, is_literal = acl.resource_name, acl.pattern_type == PatternType.LITERAL
                for is_exact in {is_literal, is_literal or is_wildcard(acl.pattern_type, name)}:
                    changed[acl.resource_type, is_exact, name].append((acl.principal, number))
        return dict(changed)

    def find_states(self, asked: Asked, *, any_principal: bool) -> list[int]:
        """Return the first state, and each with a change of an ACL that may match a request.

        Args:
            any_principal: also of ACLs of other principals, by which
                allow.everyone.if.no.acl.found depends on the resource.
        """
        kind, name = RESOURCE_TYPE_CODES[asked.resource_type], asked.resource_name
        places = [(kind, True, name), (kind, True, WILDCARD)]
        places += ((kind, False, name[:length]) for length in range(len(name) + 1))
        own = (asked.principal, WILDCARD_PRINCIPAL)
        found = {
            number
            for place in places
            for principal, number in self._changed.get(place, ())
            # Kafka cannot judge an ACL without a colon, for any principal.
            if any_principal or principal in own or ":" not in principal
        }
        return [0, *sorted(found)]

    def find_breaks(self, states: Iterable[int], window_ms: int) -> list[int]:
        """Return the times at which the result of ``find_possible`` may change."""
        latest, earliest = self._begins
        return sorted(
            {time for n in states for time in (latest[n] + window_ms, earliest[n] - window_ms)}
        )

    def find_possible(self, states: Sequence[int], at_ms: int, window_ms: int) -> Sequence[int]:
        """Return which of some states may have been in force within a window around a time."""
        latest, earliest = self._begins
        first = bisect_right(states, at_ms - window_ms, key=latest.__getitem__) - 1
        last = bisect_right(states, at_ms + window_ms, key=earliest.__getitem__)
        return states[max(first, 0) : last]


def list_states(source: str, acls: Iterable[Acl], listed_ms: int | None = None) -> History:
    """Return the one state of a listing, which is taken for that of every time."""
    changes = tuple(AclChange(n.to_bytes(_ID_BYTES, "big"), acl) for n, acl in enumerate(acls))
    return History(source, [State(changes, ALWAYS)], end_ms=listed_ms)


def apply_state(before: AclSnapshot | None, state: State) -> AclSnapshot:
    """Return the ACLs of a state, which follows another one or is the first.

    Raises:
        ChangeError: a change contradicts an earlier one.
    """
    changes = [each.change for each in state.changes]
    if before is None:
        return build(each for each in changes if isinstance(each, AclAdded))
    return apply_changes(before, changes)


def describe_state(history: History, number: int) -> str:
    """Return the offset and the time of a state of a log."""
    state = history.states[number]
    time = "an unknown time" if state.time_ms == ALWAYS else format_time(state.time_ms)
    return f"offset {state.offset} at {time}"
