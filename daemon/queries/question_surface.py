"""One question on the decision port: ``POST /v1/explain`` explains its decision, and
``POST /v1/history`` gives every answer to it since a moment.

**Invariant:** both show other principals' ACLs, so a caller needs the surface's right even for a
question about itself. An explanation gives the answer that was decided and audited. A history has
the answers that decisions at each offset would have given with today's settings.
"""

from __future__ import annotations

from typing import Final

from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.http_surface import HttpSurface
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.queries.client import Queries
from authorizerd.protocol.decisions.authzen import (
    AuthZenError,
    Vocabulary,
    as_of_context,
    build_question,
    decode_evaluation,
)
from authorizerd.protocol.http.messages import JSON, Request, Response
from authorizerd.protocol.http.rights import EXPLANATIONS, HISTORIES, Needs
from authorizerd.protocol.queries import ExplainQuestion, HistoryQuestion

EXPLAIN_PATH: Final = "/v1/explain"
HISTORY_PATH: Final = "/v1/history"
_SURFACES: Final[dict[str, tuple[str, Needs]]] = {
    EXPLAIN_PATH: ("Explain", EXPLANATIONS),
    HISTORY_PATH: ("History", HISTORIES),
}
"""The name of each surface in the counts and in the audit log, and the rights that it requires."""


class QuestionHandler(HttpSurface):
    """Answer requests with one question.

    Questions about the past are counted as such.

    Args:
        path: ``EXPLAIN_PATH`` or ``HISTORY_PATH``.
    """

    def __init__(
        self,
        path: str,
        authorizer: StandardAuthorizer,
        vocabulary: Vocabulary,
        callers: Callers,
        queries: Queries,
    ) -> None:
        name, self._needs = _SURFACES[path]
        super().__init__(name, authorizer, callers, AuthZenError, queries)
        self._is_history: Final = path == HISTORY_PATH
        self._vocabulary: Final = vocabulary

    async def _answer(self, request: Request, requester: PortRequester) -> Response:
        state = self._authorizer.current_state()
        try:
            evaluation = decode_evaluation(request.body)
            question = build_question(evaluation, self._vocabulary)
            as_of = as_of_context(evaluation.context)
            if self._is_history and as_of is None:
                raise AuthZenError("context.as_of: expected the moment at which the history begins")
        except AuthZenError:
            self._counts.invalid += 1
            raise
        self._check(requester, self._needs, question.principal)
        if as_of is None:
            decision = self._authorizer.decide(state, question, self._context_of(requester))
            body = await self._explain(question, decision.allowed, requester, state)
        else:
            kind = HistoryQuestion if self._is_history else ExplainQuestion
            asked = kind(question, state.settings, as_of)
            answer = await self._ask(asked, requester, state, self._past_counts)
            self._count_past(answer.allowed[0])
            body = answer.bodies[0]
        return Response(status=200, body=body, content_type=JSON)
