"""Explanations on the decision port: ``POST /v1/explain``.

**Invariant:** an explanation gives the answer that was decided and audited.
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
from authorizerd.protocol.decisions.authzen import Vocabulary
from authorizerd.protocol.http.rights import EXPLANATIONS
from authorizerd.protocol.queries import ExplainQuestion

SURFACE: Final = "Explain"
EXPLAIN_PATH: Final = "/v1/explain"


class ExplainHandler(QuestionSurface):
    """Answer requests for explanations."""

    def __init__(
        self,
        decider: StandardAuthorizer,
        vocabulary: Vocabulary,
        callers: Callers,
        queries: Queries,
    ) -> None:
        super().__init__(SURFACE, EXPLANATIONS, decider, vocabulary, callers, queries)

    async def _find(
        self, requester: PortRequester, state: DecisionState, question: Question, as_of: AsOf | None
    ) -> bytes:
        if as_of is None:
            decision = self._decider.decide(state, question, self._context_of(requester))
            return await self._explain(question, decision.allowed, requester, state)
        asked = ExplainQuestion(question, state.settings, as_of)
        answer = await self._ask(asked, requester, state, self._past_counts)
        self._count_past(answer.allowed[0])
        return answer.bodies[0]
