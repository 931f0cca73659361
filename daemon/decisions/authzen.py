"""AuthZEN's endpoints for one evaluation and for several, on the decision port.

**Invariant:** one request is judged by one snapshot. An unreadable request is rejected as a whole
with HTTP 400 and a line of text. In a batch, an evaluation that is unreadable, or that the caller
may not ask for, becomes a denial that gives the reason.

Until the ACLs are loaded, the answer is HTTP 503 with AUTHORIZER_NOT_READY.

Source: OpenID AuthZEN Authorization API 1.0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
import trio

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import Question
from authorizerd.acl.question_cost import bound_explanation
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer, DecisionContext, DecisionState
from authorizerd.actors.steps import pause_if_due
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.http_surface import HttpSurface
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.errors import ForbiddenError
from authorizerd.daemon.queries.client import NO_QUERIES, Queries
from authorizerd.protocol.decisions.authzen import (
    AuthZenError,
    Evaluation,
    Evaluations,
    Vocabulary,
    apply_defaults,
    as_of_context,
    build_question,
    decode_evaluation,
    decode_evaluations,
    has_defaults,
    read_question,
    read_questions,
)
from authorizerd.protocol.decisions.authzen_answers import (
    add_explanation,
    encode_answer,
    encode_answers,
    encode_failed_answer,
)
from authorizerd.protocol.decisions.discovery import EVALUATION_PATH
from authorizerd.protocol.http.messages import (
    JSON,
    Request,
    Response,
    Route,
    bearer_token,
)
from authorizerd.protocol.http.rights import EVALUATIONS, EXPLANATIONS
from authorizerd.protocol.queries import PastEvaluations

SURFACE: Final = "AuthZEN"
AT_ONCE_MAX: Final = 256
"""The maximum number of evaluations that are answered in one step, if each needs few lookups."""
_SLICE_BYTES_MAX: Final = 16 * 1024
_EVALUATION_BYTES: Final = 512
"""The fixed cost of an evaluation: reading this many bytes of text takes as long."""
_LOOKUPS_PER_EVALUATION: Final = 32
"""The number of lookups that count as one more evaluation."""


class AuthZenHandler(HttpSurface):
    """Answer AuthZEN's requests.

    Args:
        explains: False if decisions cannot be explained.
    """

    def __init__(
        self,
        decider: DaemonAuthorizer,
        vocabulary: Vocabulary,
        callers: Callers,
        queries: Queries = NO_QUERIES,
        *,
        explains: bool = False,
    ) -> None:
        super().__init__(SURFACE, decider, callers, AuthZenError, queries)
        self._explains: Final = explains
        self._vocabulary = vocabulary

    async def __call__(self, request: Request) -> Response:
        """Answer one request. A long one is answered in slices, between which other tasks run."""
        response = await self._respond(request, bearer_token(request))
        assert isinstance(response, Response), "only listings are streamed"
        return response

    def route(self, request: Request) -> Route | None:
        """Return what answers requests with this head at once; see ``HttpServer``."""
        is_one = request.path == EVALUATION_PATH
        decide = self._evaluate_at_once if is_one else self._evaluate_all_at_once
        return self._new_route(request, bearer_token(request), decide)

    async def _answer(self, request: Request, requester: PortRequester) -> Response:
        if request.path == EVALUATION_PATH:
            return await self._evaluate(request.body, requester)
        return await self._evaluate_all(request.body, requester)

    def _evaluate_at_once(self, body: bytes, requester: PortRequester) -> bytes | None:
        question = read_question(body, self._vocabulary)
        if question is None:
            return None
        state, context = self._decider.current_state(), self._context_of(requester)
        return self._decide(state, requester, context, question)[0]

    def _evaluate_all_at_once(self, body: bytes, requester: PortRequester) -> bytes | None:
        """Return the answers if they take less than a millisecond."""
        questions = read_questions(body, self._vocabulary)
        if questions is None or not self._decider.is_quick:
            return None
        state = self._decider.current_state()
        if len(questions) * _weight(state, len(body)) > AT_ONCE_MAX:
            return None
        # ``_decide_one``, inlined: its calls would take a tenth of the time.
        decide, context, offset = self._decider.decide, self._context_of(requester), state.offset
        trusts_all = requester.principal is None
        answers: list[bytes] = []
        for question in questions:
            try:
                if not trusts_all:
                    self._check(requester, EVALUATIONS, question.principal)
                decision = decide(state, question, context)
            except (InvalidQuestionError, ForbiddenError) as error:
                answers.append(_encode_error(error))
            else:
                answers.append(encode_answer(decision, offset, question))
        return encode_answers(answers)

    async def _evaluate(self, body: bytes, requester: PortRequester) -> Response:
        state, context = self._decider.current_state(), self._context_of(requester)
        evaluation, question = self._read(body, None)
        as_of = as_of_context(evaluation.context)
        if as_of is not None:
            return await self._evaluate_past(as_of, evaluation, question, requester)
        explains = self._explains and _asks_why(evaluation)
        if explains:
            self._check(requester, EXPLANATIONS, question.principal)
        answer, allowed = self._decide(state, requester, context, question)
        if explains:
            explanation = await self._explain(question, allowed, requester, state)
            answer = add_explanation(answer, explanation)
        return Response(status=200, body=answer, content_type=JSON)

    async def _evaluate_past(
        self, as_of: AsOf, evaluation: Evaluation, question: Question, requester: PortRequester
    ) -> Response:
        """Answer by the ACLs of an earlier moment. The caller's rights are those of now."""
        self._check(requester, EVALUATIONS, question.principal)
        if _asks_why(evaluation):
            self._check(requester, EXPLANATIONS, question.principal)
        state = self._decider.current_state()
        asked = PastEvaluations((question,), state.settings, as_of, False, _asks_why(evaluation))
        found = await self._ask(asked, requester, state, self._past_counts)
        self._count_past(found.allowed[0])
        return Response(status=200, body=found.bodies[0], content_type=JSON)

    async def _evaluate_all(self, body: bytes, requester: PortRequester) -> Response:
        request, evaluations = decode_evaluations(body)
        if not evaluations:
            return await self._evaluate(body, requester)
        as_of = as_of_context(request.context)
        if as_of is None:
            context = self._context_of(requester)
            state = self._decider.current_state()
            decide = partial(self._decide_one, state, requester, context)
            return await self._evaluate_each(request, evaluations, decide, len(body), state)
        return await self._evaluate_all_past(as_of, request, evaluations, requester)

    async def _evaluate_all_past(
        self,
        as_of: AsOf,
        request: Evaluations,
        evaluations: list[msgspec.Raw],
        requester: PortRequester,
    ) -> Response:
        """Answer a batch by the ACLs of an earlier moment."""
        defaults = _defaults_of(request)
        state = self._decider.current_state()
        read: list[Question | bytes] = []
        for raw in evaluations:
            await pause_if_due()
            read.append(self._read_one_of_past(bytes(raw), defaults, request, requester))
        questions = tuple(each for each in read if isinstance(each, Question))
        asked = PastEvaluations(questions, state.settings, as_of, is_batch=True)
        found = await self._ask(asked, requester, state, self._past_counts)
        decided = zip(found.bodies, found.allowed, strict=True)
        answers: list[bytes] = []
        for each in read:
            answer, allowed = (each, False) if isinstance(each, bytes) else next(decided)
            if not isinstance(each, bytes):
                self._count_past(allowed)
            answers.append(answer)
            if request.semantic.ends_after(allowed):
                break
        return Response(status=200, body=encode_answers(answers), content_type=JSON)

    def _read_one_of_past(
        self,
        text: bytes,
        defaults: Evaluations | None,
        request: Evaluations,
        requester: PortRequester,
    ) -> Question | bytes:
        """Return the question of one evaluation among many, or the answer that refuses it."""
        try:
            evaluation, question = self._read(text, defaults)
            self._check_one_moment(evaluation, request)
            self._check(requester, EVALUATIONS, question.principal)
        except AuthZenError as error:
            return encode_failed_answer(400, str(error))
        except ForbiddenError as error:
            return _encode_error(error)
        return question

    async def _evaluate_each(
        self,
        request: Evaluations,
        evaluations: list[msgspec.Raw],
        decide: Callable[[Question], tuple[bytes, bool]],
        body_size: int,
        state: DecisionState,
    ) -> Response:
        """Answer each evaluation of a batch, in slices.

        Args:
            decide: returns the answer to one question by ``state``, and True if it allows.
        """
        defaults = _defaults_of(request)
        heaviest = _weight(state, body_size)
        answers: list[bytes] = []
        slice_bytes = body_size  # decoding the body was part of the first slice
        for raw in evaluations:
            text = bytes(raw)
            weight = heaviest
            if heaviest > 1 and defaults is None:  # a default name may be as long as the body
                weight = _weight(state, len(text))
            cost = _EVALUATION_BYTES * weight + len(text)
            if slice_bytes + cost > _SLICE_BYTES_MAX:
                await trio.lowlevel.checkpoint()
                slice_bytes = 0
            slice_bytes += cost
            try:
                evaluation, question = self._read(text, defaults)
                self._check_one_moment(evaluation, request)
            except AuthZenError as error:
                answer, allowed = encode_failed_answer(400, str(error)), False
            else:
                answer, allowed = decide(question)
            answers.append(answer)
            if request.semantic.ends_after(allowed):
                break
        self._decider.check_current(state)
        return Response(status=200, body=encode_answers(answers), content_type=JSON)

    def _decide_one(
        self,
        state: DecisionState,
        requester: PortRequester,
        context: DecisionContext,
        question: Question,
    ) -> tuple[bytes, bool]:
        """Do as ``_decide`` for one question among many: errors about it become denials."""
        try:
            return self._decide(state, requester, context, question)
        except (InvalidQuestionError, ForbiddenError) as error:
            return _encode_error(error), False

    def _check_one_moment(self, evaluation: Evaluation, request: Evaluations) -> None:
        """Reject an evaluation about another moment than the batch, which has one state.

        Raises:
            AuthZenError: see above.
        """
        if evaluation.context is None or evaluation.context.as_of is None:
            return
        if request.context is None or request.context.as_of != evaluation.context.as_of:
            self._counts.invalid += 1
            raise AuthZenError("context.as_of: state it once, in the context of the whole batch")

    def _decide(
        self,
        state: DecisionState,
        requester: PortRequester,
        context: DecisionContext,
        question: Question,
    ) -> tuple[bytes, bool]:
        """Return the answer to one question, and True if it allows."""
        self._check(requester, EVALUATIONS, question.principal)
        decision = self._decider.decide(state, question, context)
        return encode_answer(decision, state.offset, question), decision.allowed

    def _read(self, text: bytes, defaults: Evaluation | None) -> tuple[Evaluation, Question]:
        try:
            evaluation = decode_evaluation(text)
            if defaults is not None:
                evaluation = apply_defaults(evaluation, defaults)
            return evaluation, build_question(evaluation, self._vocabulary)
        except AuthZenError:
            self._counts.invalid += 1
            raise


def _defaults_of(request: Evaluations) -> Evaluations | None:
    return request if has_defaults(request) else None


def _asks_why(evaluation: Evaluation) -> bool:
    return evaluation.context is not None and bool(evaluation.context.explain)


def _encode_error(error: InvalidQuestionError | ForbiddenError) -> bytes:
    return encode_failed_answer(403 if isinstance(error, ForbiddenError) else 400, str(error))


def _weight(state: DecisionState, text_size: int) -> int:
    """Return the weight of an evaluation with a text of this size, 1 if it needs few lookups."""
    if state.snapshot is None:
        return 1
    return 1 + bound_explanation(state.snapshot, text_size) // _LOOKUPS_PER_EVALUATION
