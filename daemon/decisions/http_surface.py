"""A decision surface over HTTP: the checks and errors that AuthZEN and OPA share.

**Invariant:** an error is one line of plain text, never JSON, which could be cached as a denial. A
question that is not decided is counted once, as invalid or not ready.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from authorizerd.acl.errors import InvalidQuestionError, NotReadyError, SearchLimitError
from authorizerd.acl.printable import escape_unprintable
from authorizerd.actors.decider import Decider, DecisionState
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.errors import BusyError, ForbiddenError
from authorizerd.protocol.http.messages import (
    UNIDENTIFIED,
    Request,
    Response,
    Route,
    has_json_type,
    method_not_allowed,
    text_response,
)

JSON: Final = "application/json"
SHOWN_PRINCIPAL_CHARACTERS: Final = 200
"""The longest principal in an error: a batch repeats the error for each question."""
_RETRY_SOON: Final = ((b"Retry-After", b"1"),)


class HttpSurface(ABC):
    """Answer questions that arrive as JSON documents.

    Args:
        name: the surface's name in the counts and in the audit log.
        unreadable: the error that is raised for a document that the surface cannot read.
    """

    def __init__(
        self, name: str, decider: Decider, callers: Callers, unreadable: type[Exception]
    ) -> None:
        self._name: Final = name
        self._decider: Final = decider
        self._callers: Final = callers
        self._unreadable: Final = unreadable
        self._counts: Final = decider.counts_of(name)

    @abstractmethod
    async def _answer(self, request: Request, caller: Caller) -> Response:
        """Return the answer, or raise an error that ``_respond`` turns into a response."""

    async def _respond(self, request: Request, token: str | bytes | None) -> Response:
        """Return the answer to a POST request, or an error response that gives the reason."""
        if request.method != "POST":
            return method_not_allowed(b"POST")
        # Before the body is examined: an unidentified caller must learn nothing from errors.
        caller = self._callers.identify(token, self._name, certified=request.principal)
        if caller is None:
            return UNIDENTIFIED
        if not has_json_type(request):
            return text_response(400, "Content-Type must be application/json")
        try:
            return await self._answer(request, caller)
        except Exception as error:  # noqa: BLE001 - unexpected ones are raised again
            return self._refuse(error)

    def _refuse(self, error: Exception) -> Response:
        """Return the response that gives the reason of an expected error; raise any other again."""
        if isinstance(error, (self._unreadable, InvalidQuestionError, SearchLimitError)):
            return text_response(400, str(error))
        if isinstance(error, ForbiddenError):
            return text_response(403, str(error))
        if isinstance(error, NotReadyError):
            return text_response(503, f"AUTHORIZER_NOT_READY: {error}")
        if isinstance(error, BusyError):
            return msgspec.structs.replace(text_response(503, str(error)), headers=_RETRY_SOON)
        raise error

    def _new_route(
        self,
        request: Request,
        token: str | bytes | None,
        decide: Callable[[bytes, Caller], bytes | None],
    ) -> Route | None:
        """Return what answers the requests with this head in one step, if ``_respond`` allows any.

        Args:
            request: its body is not used.
            decide: returns the answer's JSON, or None before it counts anything; raises as
                ``_answer``.
        """
        if request.method != "POST" or not has_json_type(request):
            return None

        def answer(body: bytes) -> bytes | Response | None:
            # For each request, because a reload may remove the token.
            caller = self._callers.identify(token, self._name, certified=request.principal)
            try:
                return None if caller is None else decide(body, caller)
            except Exception as error:  # noqa: BLE001 - unexpected ones are raised again
                return self._refuse(error)

        return Route(answer, JSON)

    def _check_may_ask(self, caller: Caller, principal: str, state: DecisionState) -> None:
        """Check that the caller may ask about ``principal``. If it may not, count the question.

        Raises:
            ForbiddenError: it may not.
            NotReadyError: the ACLs are not loaded yet.
        """
        self._check_right(caller, partial(caller.may_ask_about, principal, state))

    def _check_may_ask_about_others(self, caller: Caller, state: DecisionState) -> None:
        """Check that the caller may ask about every principal. See ``_check_may_ask``."""
        self._check_right(caller, partial(caller.may_ask_about_others, state))

    def _check_may_see_acls(self, caller: Caller, state: DecisionState) -> None:
        """Check that the caller may see ACLs that matter for a decision. See ``_check_may_ask``."""
        has_right = partial(caller.may_ask_about_others, state)
        self._check_right(caller, has_right, to="get explanations, which show ACLs of others")

    def _check_right(
        self, caller: Caller, has_right: Callable[[], bool], to: str = "ask about others"
    ) -> None:
        try:
            if has_right():
                return
        except NotReadyError:
            self._counts.not_ready += 1
            raise
        self._counts.invalid += 1
        shown = escape_unprintable((caller.principal or "")[:SHOWN_PRINCIPAL_CHARACTERS])
        raise ForbiddenError(f"{shown} needs CLUSTER_ACTION on the cluster to {to}")
