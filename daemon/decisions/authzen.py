"""AuthZEN's endpoints for one evaluation and for several, on the decision port.

**Invariant:** one request is judged by one snapshot. An unreadable request is rejected as a whole
with HTTP 400 and a line of text. In a batch, an evaluation that is unreadable, or that the caller
may not ask for, becomes a denial that gives the reason.

Until the ACLs are loaded, the answer is HTTP 503 with AUTHORIZER_NOT_READY.

Source: OpenID AuthZEN Authorization API 1.0.
"""

from __future__ import annotations

from typing import Final

import msgspec
import trio

from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import Question
from authorizerd.acl.question_cost import bound_lookups
from authorizerd.actors.decider import Decider, DecisionContext, DecisionState
from authorizerd.daemon.decisions.answer_cache import AnswerCache, Answered
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.decisions.http_surface import JSON, HttpSurface
from authorizerd.daemon.errors import ForbiddenError
from authorizerd.protocol.decisions.authzen import (
    AuthZenError,
    Evaluation,
    Vocabulary,
    apply_defaults,
    build_question,
    decode_evaluation,
    decode_evaluations,
    encode_answer,
    encode_answers,
    encode_failed_answer,
    has_defaults,
)
from authorizerd.protocol.http.messages import (
    Request,
    Response,
    bearer_token,
    text_response,
)

SURFACE: Final = "AuthZEN"
EVALUATION_PATH: Final = "/access/v1/evaluation"
EVALUATIONS_PATH: Final = "/access/v1/evaluations"

_REQUEST_ID: Final = b"x-request-id"
_SLICE_BYTES_MAX: Final = 16 * 1024
_EVALUATION_BYTES: Final = 512
"""The fixed cost of an evaluation: reading this many bytes of text takes as long."""
_LOOKUPS_PER_EVALUATION: Final = 32
"""The number of lookups that count as one more evaluation."""


class _Judgement(msgspec.Struct, frozen=True, gc=False):
    """One request's caller, the state that decides it, and the generation of its cached answers."""

    state: DecisionState
    caller: Caller
    generation: int


class AuthZenHandler(HttpSurface):
    """Answer AuthZEN's requests."""

    def __init__(self, decider: Decider, vocabulary: Vocabulary, callers: Callers) -> None:
        super().__init__(SURFACE, decider, callers, AuthZenError)
        self._vocabulary = vocabulary
        self._cache = AnswerCache()
        self._context = DecisionContext(SURFACE, self._counts)

    async def __call__(self, request: Request) -> Response:
        """Answer one request. A long one is answered in slices, between which other tasks run."""
        if request.path in (EVALUATION_PATH, EVALUATIONS_PATH):
            response = await self._respond(request, bearer_token(request))
        else:
            response = text_response(
                404, f"no such path: expected {EVALUATION_PATH} or {EVALUATIONS_PATH}"
            )
        request_id = request.headers.get(_REQUEST_ID)
        if request_id is None:
            return response
        headers = (*response.headers, (b"X-Request-ID", request_id))
        return msgspec.structs.replace(response, headers=headers)

    async def _answer(self, request: Request, caller: Caller) -> Response:
        if request.path == EVALUATION_PATH:
            return self._evaluate(request.body, caller)
        return await self._evaluate_all(request.body, caller)

    def _judgement(self, caller: Caller) -> _Judgement:
        state = self._decider.current_state()
        return _Judgement(state, caller, self._cache.generation_of(state))

    def _evaluate(self, body: bytes, caller: Caller) -> Response:
        answer, _ = self._decide(self._judgement(caller), body)
        return Response(status=200, body=answer, content_type=JSON)

    async def _evaluate_all(self, body: bytes, caller: Caller) -> Response:
        request, evaluations = decode_evaluations(body)
        if not evaluations:
            return self._evaluate(body, caller)
        judgement = self._judgement(caller)
        defaults = request if has_defaults(request) else None
        heaviest = _weight(judgement.state, len(body))
        answers: list[bytes] = []
        slice_bytes = len(body)  # decoding the body was part of the first slice
        for raw in evaluations:
            text = bytes(raw)
            weight = heaviest
            if heaviest > 1 and defaults is None:  # a default name may be as long as the body
                weight = _weight(judgement.state, len(text))
            cost = _EVALUATION_BYTES * weight + len(text)
            if slice_bytes + cost > _SLICE_BYTES_MAX:
                await trio.lowlevel.checkpoint()
                slice_bytes = 0
            slice_bytes += cost
            try:
                answer, allowed = self._decide(judgement, text, defaults)
            except (AuthZenError, InvalidQuestionError) as error:
                answer, allowed = encode_failed_answer(400, str(error)), False
            except ForbiddenError as error:
                answer, allowed = encode_failed_answer(403, str(error)), False
            answers.append(answer)
            if request.semantic.ends_after(allowed):
                break
        return Response(status=200, body=encode_answers(answers), content_type=JSON)

    def _decide(
        self, judgement: _Judgement, text: bytes, defaults: Evaluation | None = None
    ) -> tuple[bytes, bool]:
        """Return the answer to one evaluation, and True if it allows.

        With ``defaults``, the cache is skipped, because the same text can mean different questions.
        """
        state, generation = judgement.state, judgement.generation
        cached = self._cache.find(text, generation) if defaults is None else None
        if cached is not None:
            question = cached.question
            self._check_may_ask(judgement.caller, question.principal, state)
            # A plugged-in authorizer decides again, because its decisions may depend on anything.
            decision = self._decider.repeat(state, question, cached.decision, self._context)
            if decision is cached.decision:
                return cached.answer, decision.allowed
        else:
            question = self._read_question(text, defaults)
            self._check_may_ask(judgement.caller, question.principal, state)
            decision = self._decider.decide(state, question, self._context)
        answer = encode_answer(decision, state.offset, question)
        if defaults is None:
            self._cache.keep(text, generation, Answered(question, decision, answer))
        return answer, decision.allowed

    def _read_question(self, text: bytes, defaults: Evaluation | None) -> Question:
        try:
            evaluation = decode_evaluation(text)
            if defaults is not None:
                evaluation = apply_defaults(evaluation, defaults)
            return build_question(evaluation, self._vocabulary)
        except AuthZenError:
            self._counts.invalid += 1
            raise


def _weight(state: DecisionState, text_size: int) -> int:
    """Return the weight of an evaluation with a text of this size, 1 if it needs few lookups."""
    if state.snapshot is None:
        return 1
    return 1 + bound_lookups(state.snapshot, text_size) // _LOOKUPS_PER_EVALUATION
