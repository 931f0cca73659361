"""AuthZEN's evaluation and evaluations on the decision port.

Law: one request is judged by one snapshot. A request that cannot be read is refused whole with
HTTP 400 and a line of text; one evaluation of many that cannot be read is a denial that says why.

Source: OpenID AuthZEN Authorization API 1.0; RULINGS for AUTHORIZER_NOT_READY: HTTP 503.
"""

from __future__ import annotations

from typing import Final

import msgspec
import trio

from acl.errors import InvalidQuestionError, NotReadyError
from actors.decider import Authority, Decider
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
from protocol.http import Request, Response, text_response

SURFACE: Final = "AuthZEN"
EVALUATION_PATH: Final = "/access/v1/evaluation"
EVALUATIONS_PATH: Final = "/access/v1/evaluations"

_JSON: Final = "application/json"
_JSON_BYTES: Final = b"application/json"
_REQUEST_ID: Final = b"x-request-id"
_EVALUATIONS_PER_SLICE: Final = 64


class AuthZenHandler:
    def __init__(self, authorizer: Decider, vocabulary: Vocabulary) -> None:
        self._authorizer = authorizer
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
        try:
            _check_content_type(request)
            if request.path == EVALUATION_PATH:
                return self._evaluate(decode_evaluation(request.body))
            return await self._evaluate_all(request.body)
        except (AuthZenError, InvalidQuestionError) as error:
            return text_response(400, str(error))
        except NotReadyError as error:
            return text_response(503, f"AUTHORIZER_NOT_READY: {error}")

    def _evaluate(self, evaluation: Evaluation) -> Response:
        answer, _ = self._decide(self._authorizer.newest(), evaluation)
        return Response(status=200, body=answer, content_type=_JSON)

    async def _evaluate_all(self, body: bytes) -> Response:
        request = decode_evaluations(body)
        if not request.evaluations:
            return self._evaluate(request)
        authority = self._authorizer.newest()
        answers: list[bytes] = []
        for raw in request.evaluations:
            if len(answers) % _EVALUATIONS_PER_SLICE == _EVALUATIONS_PER_SLICE - 1:
                await trio.lowlevel.checkpoint()
            try:
                evaluation = with_defaults(decode_evaluation(raw), request)
                answer, allowed = self._decide(authority, evaluation)
            except (AuthZenError, InvalidQuestionError) as error:
                answer, allowed = encode_failed_answer(400, str(error)), False
            answers.append(answer)
            if request.semantic.ends_after(allowed):
                break
        return Response(status=200, body=encode_answers(answers), content_type=_JSON)

    def _decide(self, authority: Authority, evaluation: Evaluation) -> tuple[bytes, bool]:
        try:
            question = question_of(evaluation, self._vocabulary)
        except AuthZenError:
            self._counts.invalid += 1
            raise
        decision = self._authorizer.decide(authority, question, SURFACE, self._counts)
        return encode_answer(decision, authority.offset), decision.allowed


def _check_content_type(request: Request) -> None:
    """Refuse what a browser could send across origins without asking first."""
    content_type = request.headers.get(b"content-type", b"")
    if content_type != _JSON_BYTES and (
        content_type.partition(b";")[0].strip().lower() != _JSON_BYTES
    ):
        raise AuthZenError("Content-Type must be application/json")
