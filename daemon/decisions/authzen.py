"""AuthZEN's endpoints for one evaluation and for several, on the decision port.

**Invariant:** one request is judged by one snapshot. An invalid request is rejected as a whole with
HTTP 400 and a line of text. In a batch, an evaluation that is invalid, or that the caller may not
ask for, becomes a denial that gives the reason.

Until the ACLs are loaded, the answer is HTTP 503 with AUTHORIZER_NOT_READY.

Source: OpenID AuthZEN Authorization API 1.0.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from typing import Final

import msgspec
import trio

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import Question
from authorizerd.acl.steps import Steps
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer, DecisionState
from authorizerd.actors.steps import pause_if_due
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.http_surface import HttpSurface
from authorizerd.daemon.decisions.question_cost import bound_explanation
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.errors import ForbiddenError
from authorizerd.daemon.queries.client import NO_QUERIES, Queries
from authorizerd.protocol.decisions.authzen import (
    AuthZenError,
    Context,
    Evaluation,
    Vocabulary,
    as_of_context,
    build_question,
    decode_evaluation,
)
from authorizerd.protocol.decisions.authzen_answers import (
    add_explanation,
    encode_answer,
    encode_answers,
    encode_failed_answer,
)
from authorizerd.protocol.decisions.authzen_batches import (
    Batch,
    Semantic,
    apply_defaults,
    decode_evaluation_of,
    decode_evaluations,
)
from authorizerd.protocol.decisions.discovery import EVALUATION_PATH
from authorizerd.protocol.http.messages import JSON, Request, Response
from authorizerd.protocol.http.rights import EVALUATIONS, EXPLANATIONS
from authorizerd.protocol.queries import PastEvaluations

SURFACE: Final = "AuthZEN"
AT_ONCE_MAX: Final = 100
"""The evaluations in the first step of a short batch, if each needs few lookups: at most 2 ms."""
PER_STEP: Final = 32
"""The evaluations in each later step, and in every step of a slow authorizer."""
LOOKUPS_PER_EVALUATION: Final = 32
"""The number of lookups that count as one more evaluation."""
BYTES_PER_EVALUATION: Final = 512
"""The number of bytes to decode that count as one more evaluation."""


class AuthZenHandler(HttpSurface):
    """Answer AuthZEN's requests.

    Args:
        explains: False if decisions cannot be explained.
    """

    def __init__(
        self,
        authorizer: DaemonAuthorizer,
        vocabulary: Vocabulary,
        callers: Callers,
        queries: Queries = NO_QUERIES,
        *,
        explains: bool = False,
    ) -> None:
        super().__init__(SURFACE, authorizer, callers, AuthZenError, queries)
        self._explains: Final = explains
        self._vocabulary = vocabulary

    def _answer(self, request: Request, requester: PortRequester) -> Response | Awaitable[Response]:
        body = request.body
        if request.path == EVALUATION_PATH:
            return self._evaluate(body, requester)
        batch, evaluations = decode_evaluations(body)
        if not evaluations:
            return self._evaluate(body, requester)
        as_of = as_of_context(batch.context)
        if as_of is not None:
            return self._evaluate_all_past(as_of, batch, evaluations, requester)
        state = self._authorizer.current_state()
        steps = self._evaluate_all(batch, evaluations, requester, state, len(body))
        try:
            next(steps)
        except StopIteration as end:  # most batches take one step
            response: Response = end.value
            return response
        return self._finish(steps, state)

    async def _finish(self, steps: Steps[Response], state: DecisionState) -> Response:
        while True:
            await trio.lowlevel.checkpoint()
            try:
                next(steps)
            except StopIteration as end:
                self._authorizer.check_current(state)
                response: Response = end.value
                return response

    def _evaluate(self, body: bytes, requester: PortRequester) -> Response | Awaitable[Response]:
        state = self._authorizer.current_state()
        try:
            evaluation = decode_evaluation(body)
            question = build_question(evaluation, self._vocabulary)
        except AuthZenError:
            self._counts.invalid += 1
            raise
        explains, of_question = False, evaluation.context
        if of_question is not None:
            if of_question.as_of is not None:
                return self._evaluate_past(of_question, question, requester)
            explains = self._explains and of_question.explain
        if explains:
            self._check(requester, EXPLANATIONS, question.principal)
        if requester.caller.principal is not None:
            self._check(requester, EVALUATIONS, question.principal)
        decision = self._authorizer.decide(state, question, self._context_of(requester))
        answer = encode_answer(decision, state.offset, question)
        if explains:
            return self._add_why(answer, question, decision.allowed, requester, state)
        return Response(200, answer, JSON)

    async def _add_why(
        self,
        answer: bytes,
        question: Question,
        allowed: bool,
        requester: PortRequester,
        state: DecisionState,
    ) -> Response:
        explanation = await self._explain(question, allowed, requester, state)
        return Response(200, add_explanation(answer, explanation), JSON)

    async def _evaluate_past(
        self, context: Context, question: Question, requester: PortRequester
    ) -> Response:
        """Answer by the ACLs of an earlier moment. The caller's current rights apply."""
        as_of, explains = as_of_context(context), context.explain
        assert as_of is not None, "it is about an earlier moment"
        self._check(requester, EVALUATIONS, question.principal)
        if explains:
            self._check(requester, EXPLANATIONS, question.principal)
        state = self._authorizer.current_state()
        asked = PastEvaluations((question,), state.settings, as_of, False, explains)
        found = await self._ask(asked, requester, state, self._past_counts)
        self._count_past(found.allowed[0])
        return Response(200, found.bodies[0], JSON)

    async def _evaluate_all_past(
        self,
        as_of: AsOf,
        batch: Batch,
        evaluations: Sequence[Evaluation | msgspec.Raw],
        requester: PortRequester,
    ) -> Response:
        """Answer a batch by the ACLs of an earlier moment."""
        state = self._authorizer.current_state()
        read: list[Question | bytes] = []
        defaults = batch.defaults
        for chunk in self._chunks(evaluations, 1):
            await pause_if_due()
            for each in chunk:
                try:
                    question = self._read(each, defaults, batch)
                    self._check(requester, EVALUATIONS, question.principal)
                    read.append(question)
                except (AuthZenError, ForbiddenError) as error:
                    read.append(self._refuse_one(error))
        questions = tuple(each for each in read if isinstance(each, Question))
        asked = PastEvaluations(questions, state.settings, as_of, is_batch=True)
        found = await self._ask(asked, requester, state, self._past_counts)
        decided = zip(found.bodies, found.allowed, strict=True)
        answers: list[bytes] = []
        for asked_or_refused in read:
            answer, allowed = asked_or_refused, False
            if isinstance(answer, Question):
                answer, allowed = next(decided)
                self._count_past(allowed)
            answers.append(answer)
            if batch.semantic.ends_after(allowed):
                break
        return Response(200, encode_answers(answers), JSON)

    def _evaluate_all(
        self,
        batch: Batch,
        evaluations: Sequence[Evaluation | msgspec.Raw],
        requester: PortRequester,
        state: DecisionState,
        body_size: int,
    ) -> Steps[Response]:
        """Answer each evaluation of a batch by one state. A refused evaluation does not end the
        batch."""
        decide, context, offset = self._authorizer.decide, self._context_of(requester), state.offset
        vocabulary, semantic, defaults = self._vocabulary, batch.semantic, batch.defaults
        trusts_all = requester.caller.principal is None
        is_cut_short = semantic is not Semantic.EXECUTE_ALL
        answers: list[bytes] = []
        for chunk in self._chunks(evaluations, _weigh(state, body_size)):
            if answers:
                yield
            for each in chunk:
                allowed = False
                try:
                    if (
                        isinstance(each, Evaluation)
                        and defaults is None
                        and (each.context is None or each.context.as_of is None)
                    ):  # the common case, and one call less
                        question = build_question(each, vocabulary)
                    else:
                        question = self._read(each, defaults, batch)
                    if not trusts_all:
                        self._check(requester, EVALUATIONS, question.principal)
                    decision = decide(state, question, context)
                    allowed = decision.allowed
                    answers.append(encode_answer(decision, offset, question))
                except (AuthZenError, InvalidQuestionError, ForbiddenError) as error:
                    answers.append(self._refuse_one(error))
                if is_cut_short and semantic.ends_after(allowed):
                    return Response(200, encode_answers(answers), JSON)
        return Response(200, encode_answers(answers), JSON)

    def _chunks(
        self, evaluations: Sequence[Evaluation | msgspec.Raw], weight: int
    ) -> Iterator[Sequence[Evaluation | msgspec.Raw]]:
        """Yield the evaluations in parts, each of which takes one step.

        Args:
            weight: see ``_weigh``.
        """
        is_decoded = isinstance(evaluations[0], Evaluation)
        left, start = AT_ONCE_MAX if is_decoded and self._authorizer.is_quick else PER_STEP, 0
        if is_decoded and weight * len(evaluations) <= left:
            yield evaluations
            return
        for number, each in enumerate(evaluations):
            left -= weight
            if not isinstance(each, Evaluation):
                left -= len(bytes(each)) // BYTES_PER_EVALUATION
            if left < 0 and number > start:
                yield evaluations[start:number]
                left, start = PER_STEP - weight, number
        yield evaluations[start:]

    def _read(
        self,
        evaluation: Evaluation | msgspec.Raw,
        defaults: Evaluation | None,
        batch: Batch,
    ) -> Question:
        """Return one evaluation's question. Raises AuthZenError if it is invalid."""
        if not isinstance(evaluation, Evaluation):
            evaluation = decode_evaluation_of(batch, evaluation)
        if defaults is not None:
            evaluation = apply_defaults(evaluation, defaults)
        question = build_question(evaluation, self._vocabulary)
        if evaluation.context is not None and evaluation.context.as_of is not None:
            _check_one_moment(evaluation.context, batch.context)
        return question

    def _refuse_one(self, error: AuthZenError | InvalidQuestionError | ForbiddenError) -> bytes:
        """Return the denial of one evaluation among many that gives the reason."""
        if isinstance(error, AuthZenError):  # other errors are counted where they are raised
            self._counts.invalid += 1
        return encode_failed_answer(403 if isinstance(error, ForbiddenError) else 400, str(error))


def _check_one_moment(context: Context, of_batch: Context | None) -> None:
    """Reject an evaluation about a different moment: a batch is judged by one state."""
    if of_batch is None or of_batch.as_of != context.as_of:
        raise AuthZenError("context.as_of: state it once, in the context of the whole batch")


def _weigh(state: DecisionState, body_size: int) -> int:
    """Return the weight of each evaluation in a body; 1 if every name needs few lookups."""
    if state.snapshot is None:
        return 1
    return 1 + bound_explanation(state.snapshot, body_size) // LOOKUPS_PER_EVALUATION
