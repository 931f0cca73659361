"""Decide which question is answered next, and how many may wait.

**Invariant:** the callers take turns: before a caller gets another turn, every other waiting caller
has had one. An identified caller has one question answered at a time, which leaves a slot for
others. It never holds all waiting slots, or all listings.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, Generic, Protocol, TypeVar

WAITING_MAX: Final = 16
"""How many questions may wait."""
RUNNING_MAX: Final = 2
"""How many questions are answered at once."""
LISTINGS_MAX: Final = 8
"""How many listings may wait, be answered, or be read by their clients."""


class Waiting(Protocol):
    """A waiting question."""

    @property
    def caller(self) -> str | None:
        """The principal that asks, None if callers cannot be told apart."""

    @property
    def offset(self) -> int:
        """The log offset that the answer must include."""

    @property
    def is_listing(self) -> bool:
        """True if the client decides how fast the answer is read."""


Q = TypeVar("Q", bound=Waiting)


class AdmissionControl(Generic[Q]):
    """The questions that wait or are being answered, and the listings being read."""

    def __init__(self) -> None:
        self._waiting: Final[OrderedDict[str | None, deque[Q]]] = OrderedDict()
        self.running: Final[list[Q]] = []
        self._listings: Final[list[Q]] = []

    def admit(self, question: Q) -> bool:
        """Queue a question for its turn; return False if there is no slot."""
        caller = question.caller
        waiting = [each for queue in self._waiting.values() for each in queue]
        if not (
            _has_slot(caller, waiting, self.running, WAITING_MAX)
            and (not question.is_listing or _has_slot(caller, self._listings, [], LISTINGS_MAX))
        ):
            return False
        self._waiting.setdefault(caller, deque()).append(question)
        if question.is_listing:
            self._listings.append(question)
        return True

    def begin_next(self, offset: int) -> Q | None:
        """Return the question whose turn it is, None if none can be answered now.

        Args:
            offset: the log offset of the newest state.
        """
        if len(self.running) >= RUNNING_MAX:
            return None
        for caller, questions in self._waiting.items():
            if caller is not None and any(each.caller == caller for each in self.running):
                continue
            for question in questions:
                if question.offset <= offset:
                    self._end(question)
                    if questions:
                        self._waiting.move_to_end(caller)
                    self.running.append(question)
                    return question
        return None

    def finish(self, question: Q) -> None:
        """Free the slot of a complete listing, even while its client still reads it."""
        self.running.remove(question)

    def leave(self, question: Q) -> None:
        """Forget a question that is answered, or whose caller has disconnected."""
        self._end(question)
        if question in self._listings:
            self._listings.remove(question)

    def _end(self, question: Q) -> None:
        questions = self._waiting.get(question.caller)
        if question in self.running:
            self.running.remove(question)
        elif questions is not None and question in questions:
            questions.remove(question)
            if not questions:
                del self._waiting[question.caller]


def _has_slot(caller: str | None, held: list[Q], running: list[Q], most: int) -> bool:
    """Return True if fewer than ``most`` are held, and fewer than ``most / 2`` by the caller."""
    own = sum(each.caller == caller for each in (*held, *running))
    return len(held) < most and (caller is None or own < most // 2)
