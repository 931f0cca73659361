"""Explanations on the decision port: ``POST /v1/explain``, and in the context of an evaluation.

**Invariant:** an explanation is about the state that has decided. It shows ACLs of other
principals, so a caller needs the right to ask about others, even for an explanation of its own
rights.
"""

from __future__ import annotations

from typing import Final

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.model import Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import Steps
from authorizerd.actors.decider import DecisionContext, DecisionState
from authorizerd.actors.standard_decider import StandardDecider
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.decisions.http_surface import JSON, HttpSurface
from authorizerd.daemon.decisions.long_work import LongWork
from authorizerd.daemon.decisions.past import Past
from authorizerd.protocol.decisions.authzen import (
    AuthZenError,
    Vocabulary,
    as_of_context,
    build_question,
    decode_evaluation,
)
from authorizerd.protocol.decisions.explanations import encode_in_steps
from authorizerd.protocol.decisions.past_answers import add_as_of_to_explanation
from authorizerd.protocol.http.messages import Request, Response, Route, bearer_token

SURFACE: Final = "Explain"
EXPLAIN_PATH: Final = "/v1/explain"


class Explainer:
    """Explain decisions.

    Args:
        decider: it decides by the ACLs that explanations show.
    """

    def __init__(self, decider: StandardDecider, work: LongWork) -> None:
        self._decider: Final = decider
        self._work: Final = work

    async def explain(self, state: DecisionState, question: Question) -> bytes:
        """Return the JSON of the explanation of a question, by the state that decides it.

        The question must have been decided, so that it is counted and audited.

        Raises:
            NotReadyError: the ACLs are not loaded yet.
            BusyError: see ``LongWork.run``.
        """
        snapshot = self._decider.check_ready(state)
        return await self._work.run(_explain(snapshot, state.settings, question))


def _explain(
    snapshot: AclSnapshot, settings: AuthorizerSettings, question: Question
) -> Steps[bytes]:
    """Return, in steps, the JSON of an explanation."""
    return (yield from encode_in_steps((yield from explain_fully(snapshot, settings, question))))


class ExplainHandler(HttpSurface):
    """Answer requests for explanations."""

    def __init__(
        self,
        decider: StandardDecider,
        vocabulary: Vocabulary,
        callers: Callers,
        explainer: Explainer,
        past: Past | None = None,
    ) -> None:
        super().__init__(SURFACE, decider, callers, AuthZenError, past)
        self._vocabulary: Final = vocabulary
        self._explainer: Final = explainer
        self._context: Final = DecisionContext(SURFACE, self._counts)

    async def __call__(self, request: Request) -> Response:
        """Answer one request, in turns."""
        return await self._respond(request, bearer_token(request))

    def route(self, request: Request) -> Route | None:
        """Return None: no explanation is given at once."""
        return None

    async def _answer(self, request: Request, caller: Caller) -> Response:
        state = self._decider.current_state()
        try:
            evaluation = decode_evaluation(request.body)
            question = build_question(evaluation, self._vocabulary)
            as_of = as_of_context(evaluation.context)
        except AuthZenError:
            self._counts.invalid += 1
            raise
        self._check_may_see_acls(caller, state)
        if as_of is not None:
            return await self._explain_past(as_of, question)
        self._decider.decide(state, question, self._context)
        explanation = await self._explainer.explain(state, question)
        return Response(status=200, body=explanation, content_type=JSON)

    async def _explain_past(self, as_of: AsOf, question: Question) -> Response:
        async with self._past_at(as_of) as then:
            self._count_past(then.decide(question).allowed)
            explanation = await self._explainer.explain(then.state, question)
            explanation = add_as_of_to_explanation(
                explanation, await then.describe(question, lambda: True)
            )
        return Response(status=200, body=explanation, content_type=JSON)
