"""Which ACLs were in force when, and whether an answer fits: the judge of a soak.

One writer makes the changes of a daemon one after the other, and notes each one before it sends it.
So the states that an answer may show are known: one if the answer names an offset of the log, and
else those between the request and the answer. ``tests.oracles.scan`` decides, by a plain scan that
shares no code with the daemon.

A daemon that follows brokers has offsets of its own. The offset at which one of its states begins
lies between two others; each answer that names an offset moves them closer together.

**Invariant:** a state is noted before the daemon can show it, and is the floor only once every
process of the daemon must show it or a later one.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from threading import RLock
from typing import Final

from authorizerd.acl.model import Acl
from tests.fleet.client import WrongAnswerError
from tests.fleet.journal import Answer, Listing
from tests.fleet.universe import named
from tests.oracles.scan import find_wrong

STATES_MAX: Final = 4_000
"""Older states are forgotten. A request takes far less time than so many changes."""


@dataclass(slots=True)
class State:
    """The ACLs that count, in force from an offset on: from ``first``, or from ``last`` at latest.

    It was noted at ``noted``, a time.
    """

    acls: frozenset[Acl]
    first: float
    last: float
    noted: float = field(default_factory=time.monotonic)


class History:
    """The states of one daemon. Threads may share it.

    Args:
        acls: the ACLs that count at ``offset``.
        newest_offset: return the newest offset that the daemon may know; None if each one is
            that of a state.
        is_one_process: True if each answer raises the floor, because the same process gives all.
    """

    def __init__(
        self,
        acls: frozenset[Acl],
        offset: int,
        *,
        newest_offset: Callable[[], float] | None = None,
        is_one_process: bool = False,
    ) -> None:
        self._states: deque[State] = deque([State(acls, offset, offset)], STATES_MAX)
        self._newest_offset = newest_offset or (lambda: self.newest.last)
        self.floor: float = offset
        """The lowest offset that an answer to a request from now on may show."""
        self.promised = offset
        """The newest offset for which a request may wait: it is committed."""
        self._is_one_process = is_one_process
        self._lock = RLock()

    @property
    def newest(self) -> State:
        return self._states[-1]

    @property
    def oldest(self) -> State:
        return self._states[0]

    def add(
        self,
        acls: frozenset[Acl],
        first: float,
        last: float | None = None,
        *,
        is_committed: bool = False,
    ) -> None:
        """Note the next state before the daemon can show it.

        Args:
            last: the last offset at which it may begin; None if that is ``first``.
        """
        with self._lock:
            assert first > self.newest.last
            self._states.append(State(acls, first, first if last is None else last))
            if is_committed:
                self.promised = int(first)

    def withdraw(self) -> None:
        """Forget the newest state: the daemon has refused the change."""
        with self._lock:
            self._states.pop()

    def settle(self, offset: int) -> None:
        """Let all later answers show the newest state, which is in force at ``offset``."""
        with self._lock:
            assert offset >= self.newest.first, f"offset {offset} has shown an older state"
            self.newest.last = min(self.newest.last, offset)
            self.floor = max(self.floor, offset)
            self.promised = max(self.promised, offset)

    def states(self, first: float, last: float) -> list[State]:
        """Return the states that may be in force at the offsets ``first`` to ``last``.

        Raises:
            WrongAnswerError: the first one is older than all known states.
        """
        with self._lock:
            states = list(self._states)
        begin = bisect_right(states, first, key=attrgetter("last")) - 1
        if begin < 0:
            raise WrongAnswerError(f"offset {first} is older than {states[0].last}")
        return states[begin : bisect_right(states, last, key=attrgetter("first"))]

    def check(
        self, floor: float, offset: int | None, find_fault: Callable[[frozenset[Acl]], str | None]
    ) -> None:
        """Check that one state explains an answer which has just arrived.

        Args:
            floor: the history's floor when the request was sent.
            offset: what the answer names; None if it names none.
            find_fault: return None if these ACLs explain the answer, or what they contradict.

        Raises:
            WrongAnswerError: no state does, or none can have this offset.
        """
        newest = self._newest_offset()
        if offset is not None and not floor <= offset <= newest:
            raise WrongAnswerError(f"offset {offset} is not from {floor} to {newest}")
        with self._lock:
            states = self.states(floor, newest) if offset is None else self.states(offset, offset)
            faults = [find_fault(each.acls) for each in states]
            if None in faults:
                if offset is not None:
                    self._learn(offset, states, faults)
                return
        now = time.monotonic()
        told = zip(states, faults, strict=True)
        texts = [f"at {each.last}, noted {now - each.noted:.3f} s before: {f}" for each, f in told]
        raise WrongAnswerError("; ".join(texts[-3:]))

    def _learn(self, offset: int, states: list[State], faults: list[str | None]) -> None:
        """Note that one of the states without a fault is in force at ``offset``."""
        begin = faults.index(None)
        states[begin].last = min(states[begin].last, offset)
        end = len(faults) - faults[::-1].index(None)
        for each in states[end:]:
            each.first = max(each.first, offset + 1)
        if self._is_one_process:
            self.floor = max(self.floor, offset)
            self.promised = max(self.promised, offset)

    def begin(self) -> float:
        return self.floor

    def take(self, told: Answer | Listing) -> None:
        """Check that one state explains a listing, or all decisions of a request."""

        def find_fault(acls: frozenset[Acl]) -> str | None:
            if isinstance(told, Answer):
                return find_wrong(acls, told.questions, told.decisions)
            expected = named(acls, told.topic)
            return None if told.acls == expected else f"expected {expected}, found {told.acls}"

        self.check(told.sent, told.offset if isinstance(told, Answer) else None, find_fault)
