"""A cache of answers, keyed by the text of the question.

Clients repeat their questions: in 75 seconds of a real broker's log, two of three were repetitions.
A cached answer in a batch takes 2 µs instead of 9.

**Invariant:** an answer is returned only for exactly the same bytes, and only while questions are
judged by the snapshot and the settings that produced it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, Decision
from authorizerd.acl.model import Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.decider import DecisionState

ANSWERS_MAX: Final = 10_000
QUESTION_BYTES_MAX: Final = 1024
ANSWER_BYTES_MAX: Final = 1024


class Answered(msgspec.Struct, frozen=True, gc=False):
    """A question, its decision, and the text of the answer."""

    question: Question
    decision: Decision
    answer: bytes


class AnswerCache:
    """The latest answers. Once the cache is full, each new answer replaces the oldest."""

    def __init__(self, answers_max: int = ANSWERS_MAX) -> None:
        self._answers_max: Final = answers_max
        self._answers: Final[OrderedDict[bytes, tuple[int, Answered]]] = OrderedDict()
        self._snapshot: AclSnapshot | None = None
        self._settings: AuthorizerSettings | None = None
        self._generation = 0

    def generation_of(self, state: DecisionState) -> int:
        """Return the number under which answers from ``state`` are kept and looked up.

        Call it once per request, with the newest state. A later call with an older state would make
        that state count as the newest.
        """
        if state.snapshot is not self._snapshot or state.settings is not self._settings:
            self._snapshot, self._settings = state.snapshot, state.settings
            self._generation += 1
        return self._generation

    def find(self, text: bytes, generation: int) -> Answered | None:
        """Return the answer kept for exactly this text, or None."""
        kept = self._answers.get(text)
        return kept[1] if kept is not None and kept[0] == generation else None

    def keep(self, text: bytes, generation: int, answered: Answered) -> None:
        """Keep an answer, unless the question's or the answer's text exceeds its size limit."""
        if len(text) > QUESTION_BYTES_MAX or len(answered.answer) > ANSWER_BYTES_MAX:
            return
        self._answers[text] = (generation, answered)
        if len(self._answers) > self._answers_max:
            self._answers.popitem(last=False)
