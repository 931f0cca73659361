"""Histories on the decision port: ``POST /v1/history``, every answer to a question since a moment.

**Invariant:** the answers are those that decisions at each offset would have had with today's
settings. A caller needs the right to read ACLs.
"""

from __future__ import annotations

from typing import Final

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.model import Question
from authorizerd.actors.decider import DecisionState
from authorizerd.actors.standard_decider import StandardDecider
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.past import Past, PastAnswers
from authorizerd.daemon.decisions.question_surface import QuestionSurface
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.errors import PastTooFarError
from authorizerd.protocol.decisions.authzen import AuthZenError, Vocabulary
from authorizerd.protocol.decisions.past_answers import encode_answer_history
from authorizerd.protocol.http.rights import HISTORIES

SURFACE: Final = "History"
HISTORY_PATH: Final = "/v1/history"


class HistoryHandler(QuestionSurface):
    """Answer requests for histories. They are counted as questions about the past."""

    def __init__(
        self, decider: StandardDecider, vocabulary: Vocabulary, callers: Callers, past: Past
    ) -> None:
        super().__init__(SURFACE, HISTORIES, decider, vocabulary, callers, past)

    def _check_moment(self, as_of: AsOf | None) -> AsOf:
        if as_of is None:
            raise AuthZenError("context.as_of: expected the moment at which the history begins")
        return as_of

    async def _find(
        self, requester: PortRequester, state: DecisionState, question: Question, as_of: AsOf | None
    ) -> bytes:
        assert as_of is not None, "checked"
        with self._asking_past(requester) as past:
            found = await _read_answers(past, as_of, question, requester.principal)
            self._count_past(found.allowed)
            self._decider.check_current(found.now)
            return encode_answer_history(
                found.begin, found.now.offset, found.allowed, found.changes
            )


async def _read_answers(
    past: Past, as_of: AsOf, question: Question, principal: str | None
) -> PastAnswers:
    """Return the answers since a moment: by the state of then, or by the log if that is too far."""
    try:
        async with past.state_at(as_of, principal) as then:
            allowed = then.decide(question).allowed
            changes = await then.find_answer_changes(question)
            return PastAnswers(then.moment, then.now, allowed, changes)
    except PastTooFarError:
        return await past.read_answers(as_of, question, principal)
