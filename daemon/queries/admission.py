"""Which question is answered next, and how many may wait.

**Invariant:** the callers take turns: before a caller gets another one, every other caller that
waits has had one. A caller that can be told apart has one question answered at a time, so a place
is left for others, and it never has all places of those that wait. One listing is sent at a time:
its client may read slowly.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, Generic, Protocol, TypeVar

WAITING_MAX: Final = 16
"""How many questions may wait."""
SHARE_MAX: Final = WAITING_MAX // 2
"""How many questions of one caller may wait or be answered."""
RUNNING_MAX: Final = 2
"""How many questions are answered at once."""


class Waiting(Protocol):
    """A question that waits."""

    @property
    def caller(self) -> str | None:
        """The principal that asks, None if callers cannot be told apart."""

    @property
    def offset(self) -> int:
        """The log offset that the answer must include."""

    @property
    def is_listing(self) -> bool:
        """True if the answer is sent as fast as its client reads."""


Q = TypeVar("Q", bound=Waiting)


class AdmissionControl(Generic[Q]):
    """The questions that wait, and those that are answered."""

    def __init__(self) -> None:
        self._waiting: Final[OrderedDict[str | None, deque[Q]]] = OrderedDict()
        self._running: Final[list[Q]] = []

    def admit(self, question: Q) -> bool:
        """Let a question wait for its turn; return False if there is no place."""
        caller = question.caller
        waiting = self._waiting.get(caller, ())
        own = len(waiting) + self._count_running(caller)
        total = sum(map(len, self._waiting.values()))
        if total >= WAITING_MAX or (caller is not None and own >= SHARE_MAX):
            return False
        self._waiting.setdefault(caller, deque()).append(question)
        return True

    def begin_next(self, offset: int) -> Q | None:
        """Return the question whose turn it is, None if none can be answered now.

        Args:
            offset: the log offset of the newest state.
        """
        if len(self._running) >= RUNNING_MAX:
            return None
        lists = any(question.is_listing for question in self._running)
        for caller, questions in self._waiting.items():
            if caller is not None and self._count_running(caller):
                continue
            for question in questions:
                if question.offset <= offset and not (question.is_listing and lists):
                    self.leave(question)
                    if questions:
                        self._waiting.move_to_end(caller)
                    self._running.append(question)
                    return question
        return None

    def leave(self, question: Q) -> None:
        """Forget a question that is answered, or whose caller has gone."""
        if question in self._running:
            self._running.remove(question)
            return
        questions = self._waiting[question.caller]
        questions.remove(question)
        if not questions:
            del self._waiting[question.caller]

    def _count_running(self, caller: str | None) -> int:
        return sum(each.caller == caller for each in self._running)
