"""A decision surface over HTTP: the checks and errors that AuthZEN and OPA share.

**Invariant:** the caller must have the right when the answer is ready, not only before the wait. An
error is one line of plain text, never JSON, which could be cached as a denial. A question that is
not decided is counted once, as invalid or not ready.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from authorizerd.acl.errors import InvalidQuestionError, NotReadyError, SearchLimitError
from authorizerd.acl.model import Question
from authorizerd.actors.daemon_authorizer import (
    DaemonAuthorizer,
    DecisionContext,
    DecisionCounts,
    DecisionState,
)
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.decisions.access_audit import audit_access
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.errors import (
    BusyError,
    ForbiddenError,
    PastRefusedError,
    PastUnavailableError,
)
from authorizerd.daemon.queries.client import NO_QUERIES, OpenAnswer, Queries
from authorizerd.protocol.http.messages import (
    UNIDENTIFIED,
    Request,
    Response,
    bearer_token,
    has_json_type,
    method_not_allowed,
    text_response,
)
from authorizerd.protocol.http.rights import PAST, Needs
from authorizerd.protocol.http.streamed import AnyResponse, StreamedResponse, complete
from authorizerd.protocol.queries import (
    Answer,
    ExplainQuestion,
    HistoryQuestion,
    PastEvaluations,
    SearchQuestion,
)

PAST_SURFACE: Final = "Past"
"""The surface under which questions about the past are counted."""
_INVALID: Final = (InvalidQuestionError, PastRefusedError, SearchLimitError)
_RETRY_SOON: Final = ((b"Retry-After", b"1"),)


class HttpSurface(ABC):
    """Answer questions that arrive as JSON documents.

    Args:
        name: the surface's name in the counts and in the audit log.
        unreadable: the error raised for a document that the surface cannot read.
        queries: answers long-running questions.
    """

    def __init__(
        self,
        name: str,
        authorizer: DaemonAuthorizer,
        callers: Callers,
        unreadable: type[Exception],
        queries: Queries = NO_QUERIES,
    ) -> None:
        self._queries: Final = queries
        self._past_counts: Final = authorizer.counts_of(PAST_SURFACE)
        self._name: Final = name
        self._authorizer: Final = authorizer
        self._callers: Final = callers
        self._unreadable: Final = unreadable
        self._counts: Final = authorizer.counts_of(name)

    @abstractmethod
    def _answer(
        self, request: Request, requester: PortRequester
    ) -> AnyResponse | Awaitable[AnyResponse]:
        """Return the answer, or an awaitable of it. ``_refuse`` handles errors in both cases."""

    _find_token: Callable[[Request], str | bytes | None] = staticmethod(bearer_token)

    def __call__(self, request: Request) -> AnyResponse | Awaitable[AnyResponse]:
        """Answer one request; see ``Handler``. An error response gives the reason."""
        if request.method != "POST":
            return method_not_allowed(b"POST")
        # Check this before the body: an unidentified caller must learn nothing from errors.
        version = self._callers.version
        try:
            token = self._find_token(request)
            caller = self._callers.identify(token, certified=request.principal)
            if caller is None:
                return UNIDENTIFIED
            if not has_json_type(request):
                return text_response(400, "Content-Type must be application/json")
            answer = self._answer(request, PortRequester(caller, request.address, request.headers))
        except Exception as error:  # noqa: BLE001 - unexpected ones are raised again
            return self._refuse(error)
        if isinstance(answer, (Response, StreamedResponse)):
            return answer
        return self._wait_for(answer, version, request)

    async def _wait_for(
        self, answer: Awaitable[AnyResponse], version: int, request: Request
    ) -> AnyResponse:
        try:
            response = await answer
        except Exception as error:  # noqa: BLE001 - unexpected ones are raised again
            return self._refuse(error)
        if version == self._callers.version:
            return response
        if isinstance(response, StreamedResponse):
            response.close()
        # A reload changed rights during the wait: answer the request again.
        return await complete(self(request))

    def _refuse(self, error: Exception) -> Response:
        """Return the response that gives the reason of an expected error; raise any other again."""
        if isinstance(error, (*_INVALID, self._unreadable)):
            return text_response(400, str(error))
        if isinstance(error, ForbiddenError):
            return text_response(403, str(error))
        if isinstance(error, NotReadyError):
            return text_response(503, f"AUTHORIZER_NOT_READY: {error}")
        if isinstance(error, (BusyError, PastUnavailableError)):
            return msgspec.structs.replace(text_response(503, str(error)), headers=_RETRY_SOON)
        raise error

    def _context_of(self, requester: PortRequester) -> DecisionContext:
        """Return the context of a request's decisions."""
        return DecisionContext(self._name, self._counts, requester=requester)

    async def _ask(
        self,
        question: SearchQuestion | ExplainQuestion | PastEvaluations | HistoryQuestion,
        requester: PortRequester,
        state: DecisionState,
        counts: DecisionCounts,
    ) -> Answer:
        """Return the query process's answer to a question; see ``_open``."""
        found = await self._open(question, requester, state, counts)
        found.close()
        return found.answer

    async def _open(
        self,
        question: SearchQuestion | ExplainQuestion | PastEvaluations | HistoryQuestion,
        requester: PortRequester,
        state: DecisionState,
        counts: DecisionCounts,
    ) -> OpenAnswer:
        """Return the query process's answer to a question; count the question if there is none.

        Args:
            state: the state that the caller's rights were checked against. Once it has expired, the
                answer is not used.

        Raises:
            ForbiddenError: the caller may not ask about the past.
            NotReadyError: there are no ACLs, the state has expired, or the audit is required and
                cannot be written.
            Others: see ``Queries.open``.
        """
        if question.as_of is not None:
            self._check(requester, PAST)
        try:
            if isinstance(self._authorizer, StandardAuthorizer):  # not a plugin
                self._authorizer.check_ready(state)
        except NotReadyError:
            counts.not_ready += 1
            raise
        offset = state.offset
        state = msgspec.structs.replace(state, snapshot=None)  # do not keep it alive
        try:
            found = await self._queries.open(question, caller=requester.principal, offset=offset)
        except (BusyError, PastUnavailableError):
            counts.not_ready += 1
            raise
        except (*_INVALID, self._unreadable):
            counts.invalid += 1
            raise
        if self._authorizer.has_expired(state):
            found.close()
            self._authorizer.check_current(state)
        return found

    async def _explain(
        self, question: Question, allowed: bool, requester: PortRequester, state: DecisionState
    ) -> bytes:
        """Return the JSON of the explanation of a decision, which was counted and audited.

        Raises:
            NotReadyError: see ``_ask``.
            BusyError: see ``Queries.open``; or the ACLs have changed so much that the explanation
                would give another answer.
        """
        asked = ExplainQuestion(question, state.settings)
        answer = await self._ask(asked, requester, state, DecisionCounts())
        if answer.allowed[0] != allowed:
            raise BusyError("the ACLs have changed since the decision: retry")
        return answer.bodies[0]

    def _count_past(self, is_allowed: bool) -> None:
        """Count an answer about the past. It is not audited, because nobody enforces it."""
        if is_allowed:
            self._past_counts.allowed += 1
        else:
            self._past_counts.denied += 1

    def _check(self, requester: PortRequester, needs: Needs, about: str | None = None) -> None:
        """Check that the caller may ask. If it may not, count and audit the question.

        Raises:
            ForbiddenError: see ``Caller.check``.
        """
        try:
            requester.caller.check(needs, about)
        except ForbiddenError:
            self._counts.invalid += 1
            audit_access(self._authorizer, requester, self._name, allowed=False)
            raise
