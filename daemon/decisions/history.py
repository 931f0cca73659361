"""Histories on the decision port: ``POST /v1/history``, every answer to a question since a moment.

**Invariant:** the answers are those that decisions at each offset would have had with today's
settings. A caller needs the right to read ACLs.
"""

from __future__ import annotations

from typing import Final

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.model import Question
from authorizerd.actors.daemon_authorizer import DecisionState
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.question_surface import QuestionSurface
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.queries.client import Queries
from authorizerd.protocol.decisions.authzen import AuthZenError, Vocabulary
from authorizerd.protocol.http.rights import HISTORIES
from authorizerd.protocol.queries import HistoryQuestion

SURFACE: Final = "History"
HISTORY_PATH: Final = "/v1/history"


class HistoryHandler(QuestionSurface):
    """Answer requests for histories. They are counted as questions about the past."""

    def __init__(
        self,
        decider: StandardAuthorizer,
        vocabulary: Vocabulary,
        callers: Callers,
        queries: Queries,
    ) -> None:
        super().__init__(SURFACE, HISTORIES, decider, vocabulary, callers, queries)

    def _check_moment(self, as_of: AsOf | None) -> AsOf:
        if as_of is None:
            raise AuthZenError("context.as_of: expected the moment at which the history begins")
        return as_of

    async def _find(
        self, requester: PortRequester, state: DecisionState, question: Question, as_of: AsOf | None
    ) -> bytes:
        assert as_of is not None, "checked"
        asked = HistoryQuestion(question, state.settings, as_of)
        answer = await self._ask(asked, requester, state, self._past_counts)
        self._count_past(answer.allowed[0])
        return answer.bodies[0]
