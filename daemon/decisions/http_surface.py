"""A decision surface over HTTP: the checks and errors that AuthZEN and OPA share.

**Invariant:** an answer is given only if the caller has the right once it is made, not only before
it waited. An error is one line of plain text, never JSON, which could be cached as a denial. A
question that is not decided is counted once, as invalid or not ready.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import msgspec

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.errors import InvalidQuestionError, NotReadyError, SearchLimitError
from authorizerd.actors.decider import Decider, DecisionContext
from authorizerd.daemon.decisions.access_audit import audit_access
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.past import PAST_SURFACE, Past, PastState
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.errors import (
    BusyError,
    ForbiddenError,
    PastRefusedError,
    PastUnavailableError,
)
from authorizerd.protocol.http.messages import (
    JSON,
    UNIDENTIFIED,
    Request,
    Response,
    Route,
    has_json_type,
    method_not_allowed,
    text_response,
)
from authorizerd.protocol.http.rights import PAST, Needs

_INVALID: Final = (InvalidQuestionError, PastRefusedError, SearchLimitError)
_RETRY_SOON: Final = ((b"Retry-After", b"1"),)


class HttpSurface(ABC):
    """Answer questions that arrive as JSON documents.

    Args:
        name: the surface's name in the counts and in the audit log.
        unreadable: the error that is raised for a document that the surface cannot read.
        past: None if nothing can be asked about the past.
    """

    def __init__(
        self,
        name: str,
        decider: Decider,
        callers: Callers,
        unreadable: type[Exception],
        past: Past | None = None,
    ) -> None:
        self._past: Final = past
        self._past_counts: Final = decider.counts_of(PAST_SURFACE)
        self._name: Final = name
        self._decider: Final = decider
        self._callers: Final = callers
        self._unreadable: Final = unreadable
        self._counts: Final = decider.counts_of(name)

    @abstractmethod
    async def _answer(self, request: Request, requester: PortRequester) -> Response:
        """Return the answer, or raise an error that ``_respond`` turns into a response."""

    async def _respond(self, request: Request, token: str | bytes | None) -> Response:
        """Return the answer to a POST request, or an error response that gives the reason."""
        if request.method != "POST":
            return method_not_allowed(b"POST")
        while True:
            # Before the body is examined: an unidentified caller must learn nothing from errors.
            version = self._callers.version
            caller = self._callers.identify(token, certified=request.principal)
            if caller is None:
                return UNIDENTIFIED
            if not has_json_type(request):
                return text_response(400, "Content-Type must be application/json")
            try:
                response = await self._answer(
                    request, PortRequester(caller, request.address, request.headers)
                )
            except Exception as error:  # noqa: BLE001 - unexpected ones are raised again
                return self._refuse(error)
            if version == self._callers.version:
                return response
            # A reload has changed rights meanwhile: a request that has waited is answered again.

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

    def _new_route(
        self,
        request: Request,
        token: str | bytes | None,
        decide: Callable[[bytes, PortRequester], bytes | None],
    ) -> Route | None:
        """Return what answers the requests with this head in one step, if ``_respond`` allows any.

        Args:
            request: its body is not used.
            decide: returns the answer's JSON, or None before it counts anything; raises as
                ``_answer``.
        """
        if request.method != "POST" or not has_json_type(request):
            return None

        def answer(body: bytes, address: str | None) -> bytes | Response | None:
            # For each request, because a reload may remove the token.
            caller = self._callers.identify(token, certified=request.principal)
            try:
                if caller is None:
                    return None
                return decide(body, PortRequester(caller, address, request.headers))
            except Exception as error:  # noqa: BLE001 - unexpected ones are raised again
                return self._refuse(error)

        return Route(answer, JSON)

    def _context_of(self, requester: PortRequester) -> DecisionContext:
        """Return the context of a request's decisions."""
        return DecisionContext(self._name, self._counts, requester=requester)

    @asynccontextmanager
    async def _past_at(self, as_of: AsOf, requester: PortRequester) -> AsyncIterator[PastState]:
        """Provide the state of an earlier moment, if the caller may ask about it.

        Raises:
            ForbiddenError: it may not.
            PastRefusedError, PastUnavailableError, NotReadyError: see ``Past.state_at``.
        """
        with self._asking_past(requester) as past:
            async with past.state_at(as_of, requester.principal) as then:
                yield then

    @contextmanager
    def _asking_past(self, requester: PortRequester) -> Iterator[Past]:
        """Provide the past, if the caller may ask about it. Count and raise as ``_past_at``."""
        self._check(requester, PAST)
        if self._past is None:
            raise PastRefusedError("as_of: this daemon answers no questions about the past")
        try:
            yield self._past
        except (PastRefusedError, InvalidQuestionError):
            self._past_counts.invalid += 1
            raise
        except (PastUnavailableError, NotReadyError):
            self._past_counts.not_ready += 1
            raise

    def _count_past(self, is_allowed: bool) -> None:
        """Count an answer about the past. It is not audited, because nobody enforces it."""
        if is_allowed:
            self._past_counts.allowed += 1
        else:
            self._past_counts.denied += 1

    def _check(self, requester: PortRequester, needs: Needs, about: str | None = None) -> None:
        """Check that the caller may ask. If it may not, count the question, and have it audited.

        Raises:
            ForbiddenError: see ``Caller.check``.
        """
        try:
            requester.caller.check(needs, about)
        except ForbiddenError:
            self._counts.invalid += 1
            audit_access(self._decider, requester, self._name, allowed=False)
            raise
