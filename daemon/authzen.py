"""AuthZEN's evaluation and evaluations on the decision port.

Law: one request is judged by one snapshot. A request that cannot be read is refused whole with
HTTP 400 and a line of text; one evaluation of many that cannot be read, or that the caller may not
ask for, is a denial that says why.

Source: OpenID AuthZEN Authorization API 1.0; RULINGS for AUTHORIZER_NOT_READY: HTTP 503.
"""

from __future__ import annotations

from typing import Final

import msgspec
import trio

from acl.errors import InvalidQuestionError, NotReadyError
from actors.decider import Authority, Decider
from daemon.askers import Asker, Askers, check_may_ask
from daemon.errors import ForbiddenError
from protocol.authzen import (
    AuthZenError,
    Evaluation,
    Vocabulary,
    decode_evaluation,
    decode_evaluations,
    encode_answer,
    encode_answers,
    encode_failed_answer,
    question_of,
    with_defaults,
)
from protocol.http import (
    UNIDENTIFIED,
    Request,
    Response,
    bearer_token,
    has_json_type,
    text_response,
)

SURFACE: Final = "AuthZEN"
EVALUATION_PATH: Final = "/access/v1/evaluation"
EVALUATIONS_PATH: Final = "/access/v1/evaluations"

_JSON: Final = "application/json"
_REQUEST_ID: Final = b"x-request-id"
_EVALUATIONS_PER_SLICE: Final = 64


class AuthZenHandler:
    def __init__(self, authorizer: Decider, vocabulary: Vocabulary, askers: Askers) -> None:
        self._authorizer = authorizer
        self._askers = askers
        self._vocabulary = vocabulary
        self._counts = authorizer.counts_of(SURFACE)

    async def __call__(self, request: Request) -> Response:
        """Answer one request; long ones yield to other connections between slices."""
        response = await self._answer(request)
        request_id = request.headers.get(_REQUEST_ID)
        if request_id is None:
            return response
        headers = (*response.headers, (b"X-Request-ID", request_id))
        return msgspec.structs.replace(response, headers=headers)

    async def _answer(self, request: Request) -> Response:
        if request.path not in (EVALUATION_PATH, EVALUATIONS_PATH):
            return text_response(404, "no such path")
        if request.method != "POST":
            response = text_response(405, "only POST is answered here")
            return msgspec.structs.replace(response, headers=((b"Allow", b"POST"),))
        asker = self._askers.identify(bearer_token(request), SURFACE)
        if asker is None:
            return UNIDENTIFIED
        if not has_json_type(request):
            return text_response(400, "Content-Type must be application/json")
        try:
            if request.path == EVALUATION_PATH:
                return self._evaluate(decode_evaluation(request.body), asker)
            return await self._evaluate_all(request.body, asker)
        except (AuthZenError, InvalidQuestionError) as error:
            return text_response(400, str(error))
        except ForbiddenError as error:
            return text_response(403, str(error))
        except NotReadyError as error:
            return text_response(503, f"AUTHORIZER_NOT_READY: {error}")

    def _evaluate(self, evaluation: Evaluation, asker: Asker) -> Response:
        answer, _ = self._decide(self._authorizer.newest(), evaluation, asker)
        return Response(status=200, body=answer, content_type=_JSON)

    async def _evaluate_all(self, body: bytes, asker: Asker) -> Response:
        request = decode_evaluations(body)
        if not request.evaluations:
            return self._evaluate(request, asker)
        authority = self._authorizer.newest()
        answers: list[bytes] = []
        for raw in request.evaluations:
            if len(answers) % _EVALUATIONS_PER_SLICE == _EVALUATIONS_PER_SLICE - 1:
                await trio.lowlevel.checkpoint()
            try:
                evaluation = with_defaults(decode_evaluation(raw), request)
                answer, allowed = self._decide(authority, evaluation, asker)
            except (AuthZenError, InvalidQuestionError) as error:
                answer, allowed = encode_failed_answer(400, str(error)), False
            except ForbiddenError as error:
                answer, allowed = encode_failed_answer(403, str(error)), False
            answers.append(answer)
            if request.semantic.ends_after(allowed):
                break
        return Response(status=200, body=encode_answers(answers), content_type=_JSON)

    def _decide(
        self, authority: Authority, evaluation: Evaluation, asker: Asker
    ) -> tuple[bytes, bool]:
        try:
            question = question_of(evaluation, self._vocabulary)
            check_may_ask(asker, question.principal, authority)
        except (AuthZenError, ForbiddenError):
            self._counts.invalid += 1
            raise
        except NotReadyError:
            self._counts.not_ready += 1
            raise
        decision = self._authorizer.decide(authority, question, SURFACE, self._counts)
        return encode_answer(decision, authority.offset), decision.allowed
