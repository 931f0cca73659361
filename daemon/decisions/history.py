"""Histories on the decision port: ``POST /v1/history``, every answer to a question since a moment.

**Invariant:** the answers are those that decisions at each offset would have had with today's
settings. They name ACLs of other principals, so a caller needs the right to ask about others, as
for explanations.
"""

from __future__ import annotations

from typing import Final

from authorizerd.actors.standard_decider import StandardDecider
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.decisions.http_surface import JSON, HttpSurface
from authorizerd.daemon.decisions.past import Past
from authorizerd.protocol.decisions.authzen import (
    AuthZenError,
    Vocabulary,
    as_of_context,
    build_question,
    decode_evaluation,
)
from authorizerd.protocol.decisions.past_answers import encode_answer_history
from authorizerd.protocol.http.messages import Request, Response, Route, bearer_token

SURFACE: Final = "History"
HISTORY_PATH: Final = "/v1/history"


class HistoryHandler(HttpSurface):
    """Answer requests for histories. They are counted as questions about the past."""

    def __init__(
        self, decider: StandardDecider, vocabulary: Vocabulary, callers: Callers, past: Past
    ) -> None:
        super().__init__(SURFACE, decider, callers, AuthZenError, past)
        self._vocabulary: Final = vocabulary

    async def __call__(self, request: Request) -> Response:
        """Answer one request, in turns."""
        return await self._respond(request, bearer_token(request))

    def route(self, request: Request) -> Route | None:
        """Return None: no history is given at once."""
        return None

    async def _answer(self, request: Request, caller: Caller) -> Response:
        state = self._decider.current_state()
        try:
            evaluation = decode_evaluation(request.body)
            question = build_question(evaluation, self._vocabulary)
            as_of = as_of_context(evaluation.context)
            if as_of is None:
                raise AuthZenError("context.as_of: expected the moment at which the history begins")
        except AuthZenError:
            self._counts.invalid += 1
            raise
        self._check_may_see_acls(caller, state)
        async with self._past_at(as_of) as then:
            allowed = then.decide(question).allowed
            self._count_past(allowed)
            changes = await then.find_answer_changes(question)
            body = encode_answer_history(then.moment, then.now.offset, allowed, changes)
        return Response(status=200, body=body, content_type=JSON)
