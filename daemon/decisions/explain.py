"""Explanations on the decision port: ``POST /v1/explain``, and in the context of an evaluation.

**Invariant:** an explanation is about the state that has decided.
"""

from __future__ import annotations

from typing import Final

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.explanation.explainer import explain_fully
from authorizerd.acl.model import Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import Steps
from authorizerd.actors.decider import DecisionState
from authorizerd.actors.standard_decider import StandardDecider
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.long_work import LongWork
from authorizerd.daemon.decisions.past import Past
from authorizerd.daemon.decisions.question_surface import QuestionSurface
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.protocol.decisions.authzen import Vocabulary
from authorizerd.protocol.decisions.explanations import encode_in_steps
from authorizerd.protocol.decisions.past_answers import add_as_of_to_explanation
from authorizerd.protocol.http.rights import EXPLANATIONS

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

    async def explain(
        self, state: DecisionState, question: Question, principal: str | None
    ) -> bytes:
        """Return the JSON of the explanation of a question, by the state that decides it.

        The question must have been decided, so that it is counted and audited.

        Args:
            principal: that of the caller; see ``LongWork.run``.

        Raises:
            NotReadyError: the ACLs are not loaded yet.
            BusyError: see ``LongWork.run``.
        """
        snapshot = self._decider.check_ready(state)
        explanation = await self._work.run(_explain(snapshot, state.settings, question), principal)
        self._decider.check_current(state)
        return explanation


def _explain(
    snapshot: AclSnapshot, settings: AuthorizerSettings, question: Question
) -> Steps[bytes]:
    """Return, in steps, the JSON of an explanation."""
    return (yield from encode_in_steps((yield from explain_fully(snapshot, settings, question))))


class ExplainHandler(QuestionSurface):
    """Answer requests for explanations."""

    def __init__(
        self,
        decider: StandardDecider,
        vocabulary: Vocabulary,
        callers: Callers,
        explainer: Explainer,
        past: Past | None = None,
    ) -> None:
        super().__init__(SURFACE, EXPLANATIONS, decider, vocabulary, callers, past)
        self._explainer: Final = explainer

    async def _find(
        self, requester: PortRequester, state: DecisionState, question: Question, as_of: AsOf | None
    ) -> bytes:
        if as_of is not None:
            return await self._explain_past(requester, as_of, question)
        self._decider.decide(state, question, self._context_of(requester))
        return await self._explainer.explain(state, question, requester.principal)

    async def _explain_past(
        self, requester: PortRequester, as_of: AsOf, question: Question
    ) -> bytes:
        async with self._past_at(as_of, requester) as then:
            self._count_past(then.decide(question).allowed)
            explanation = await self._explainer.explain(then.state, question, requester.principal)
            about = await then.describe(question)
            return add_as_of_to_explanation(explanation, about)
