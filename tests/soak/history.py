"""Which ACLs were in force when, and whether an answer fits: the independent evaluator.

One writer makes the changes of a daemon one after the other, and notes each one before it sends it.
So the states that an answer may show are known: exactly one if the answer names its offset, and
else those between the request and the answer. ``tests.oracles.scan`` decides, by a plain scan that
shares no code with the daemon.

**Invariant:** a state is noted before the daemon can show it, and is the floor only once every
process of the daemon must show it or a later one.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from authorizerd.acl.model import Acl, Question
from tests.fleet.answers import find_wrong
from tests.fleet.client import WrongAnswerError
from tests.fleet.universe import named

STATES_MAX: Final = 4_000
"""Older states are forgotten. A request takes far less time than so many changes."""


@dataclass(frozen=True, slots=True)
class State:
    """The ACLs that count, in force from ``offset`` on. It was noted at ``noted``, a time."""

    offset: int
    acls: frozenset[Acl]
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
        newest_offset: Callable[[], int] | None = None,
        is_one_process: bool = False,
    ) -> None:
        self._states: deque[State] = deque([State(offset, acls)], STATES_MAX)
        self._newest_offset = newest_offset or (lambda: self.newest.offset)
        self._floor = self._promised = offset
        self._is_one_process = is_one_process
        self._lock = Lock()

    @property
    def newest(self) -> State:
        with self._lock:
            return self._states[-1]

    @property
    def oldest(self) -> State:
        with self._lock:
            return self._states[0]

    @property
    def floor(self) -> int:
        """The lowest offset that an answer to a request from now on may show."""
        with self._lock:
            return self._floor

    @property
    def promised(self) -> int:
        """The newest offset for which a request may wait: it is committed."""
        with self._lock:
            return self._promised

    def add(self, acls: frozenset[Acl], offset: int, *, is_committed: bool = False) -> None:
        """Note the next state before the daemon can show it."""
        with self._lock:
            assert offset > self._states[-1].offset
            self._states.append(State(offset, acls))
            if is_committed:
                self._promised = offset

    def withdraw(self) -> None:
        """Forget the newest state: the daemon has refused the change."""
        with self._lock:
            self._states.pop()

    def raise_floor(self, offset: int) -> None:
        """Let all later answers show ``offset`` or more."""
        with self._lock:
            self._floor = max(self._floor, offset)
            self._promised = max(self._promised, offset)

    def state_at(self, offset: int) -> State:
        """Return the state in force at ``offset``.

        Raises:
            WrongAnswerError: the offset is older than all known states.
        """
        return self.states(offset, offset)[0]

    def states(self, first: float, last: int) -> list[State]:
        """Return the states in force at the offsets ``first`` to ``last``.

        Raises:
            WrongAnswerError: the first one is older than all known states.
        """
        with self._lock:
            states = list(self._states)
        begin = bisect_right(states, int(first), key=_offset_of) - 1
        if begin < 0:
            raise WrongAnswerError(f"offset {first} is older than {states[0].offset}")
        return states[begin : bisect_right(states, last, key=_offset_of)]

    def candidates(self, floor: float, offset: int | None) -> list[State]:
        """Return the states that an answer which has just arrived may show.

        Args:
            floor: the history's floor when the request was sent.
            offset: what the answer names; None if it names none.

        Raises:
            WrongAnswerError: no state can have this offset.
        """
        newest = self._newest_offset()
        if offset is None:
            return self.states(floor, newest)
        if not floor <= offset <= newest:
            raise WrongAnswerError(f"offset {offset} is not from {floor} to {newest}")
        return [self.state_at(offset)]

    def check(
        self, floor: float, offset: int | None, fits: Callable[[frozenset[Acl]], str | None]
    ) -> None:
        """Check that one state explains an answer which has just arrived.

        Args:
            floor: the history's floor when the request was sent.
            offset: what the answer names; None if it names none.
            fits: return None if these ACLs explain the answer, or what they contradict.

        Raises:
            WrongAnswerError: no state does.
        """
        states = self.candidates(floor, offset)
        faults = []
        for state in states:
            fault = fits(state.acls)
            if fault is None:
                if self._is_one_process and offset is not None:
                    self.raise_floor(offset)
                return
            seconds = time.monotonic() - state.noted
            faults.append(f"at offset {state.offset}, noted {seconds:.3f} s before: {fault}")
        raise WrongAnswerError("; ".join(faults[-3:]))

    def begin(self) -> float:
        return self.floor

    def check_listing(self, begun: float, listed: frozenset[Acl], topic: str | None = None) -> None:
        """Check that one state explains a listing."""

        def find_fault(acls: frozenset[Acl]) -> str | None:
            expected = named(acls, topic)
            return None if listed == expected else f"expected {expected}, found {listed}"

        self.check(begun, None, find_fault)

    def check_decisions(
        self,
        begun: float,
        offset: int | None,
        asked: Sequence[Question],
        decisions: Sequence[bool],
        *,
        surface: str = "",
        connection: int = 0,
    ) -> None:
        """Check that one state explains all decisions of a request.

        Raises:
            WrongAnswerError: none does, or the number of decisions differs.
        """
        self.check(begun, offset, lambda acls: find_wrong(acls, asked, decisions))


def _offset_of(state: State) -> int:
    return state.offset
