"""What explanations and histories share: one question, whose answer shows ACLs of others.

**Invariant:** a caller needs the surface's right, even for a question about itself.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.model import Question
from authorizerd.actors.daemon_authorizer import DecisionState
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
from authorizerd.protocol.http.messages import JSON, Request, Response, Route, bearer_token
from authorizerd.protocol.http.rights import Needs


class QuestionSurface(HttpSurface):
    """Answer requests with one question.

    Args:
        name: the surface's name in the counts and in the audit log.
        needs: the rights that the surface requires.
    """

    def __init__(
        self,
        name: str,
        needs: Needs,
        decider: StandardAuthorizer,
        vocabulary: Vocabulary,
        callers: Callers,
        queries: Queries,
    ) -> None:
        super().__init__(name, decider, callers, AuthZenError, queries)
        self._needs: Final = needs
        self._vocabulary: Final = vocabulary

    async def __call__(self, request: Request) -> Response:
        """Answer one request, in turns."""
        response = await self._respond(request, bearer_token(request))
        assert isinstance(response, Response), "only listings are streamed"
        return response

    def route(self, request: Request) -> Route | None:
        """Return None: no question is answered at once."""
        return None

    async def _answer(self, request: Request, requester: PortRequester) -> Response:
        state = self._decider.current_state()
        try:
            evaluation = decode_evaluation(request.body)
            question = build_question(evaluation, self._vocabulary)
            as_of = self._check_moment(as_of_context(evaluation.context))
        except AuthZenError:
            self._counts.invalid += 1
            raise
        self._check(requester, self._needs, question.principal)
        body = await self._find(requester, state, question, as_of)
        return Response(status=200, body=body, content_type=JSON)

    def _check_moment(self, as_of: AsOf | None) -> AsOf | None:
        """Return the earlier moment that is asked about, None for now.

        Raises:
            AuthZenError: it is missing.
        """
        return as_of

    @abstractmethod
    async def _find(
        self, requester: PortRequester, state: DecisionState, question: Question, as_of: AsOf | None
    ) -> bytes:
        """Return the JSON of the answer; raises what ``_respond`` turns into a response."""
