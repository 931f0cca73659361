"""What ``/v1/acls``, ``/v1/watch`` and ``/v1/state`` share: methods, rights and errors.

**Invariant:** no caller sees an ACL without credentials and the right to read ACLs. An error is one
line of plain text, and an unidentified caller learns nothing from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

import msgspec

from authorizerd.acl.errors import NotReadyError
from authorizerd.actors.acl_journal import ExpiredError
from authorizerd.actors.daemon_authorizer import DecisionState
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.decisions.access_audit import audit_access
from authorizerd.daemon.decisions.callers import Caller, Callers
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.errors import (
    BusyError,
    ForbiddenError,
    PastRefusedError,
    PastUnavailableError,
)
from authorizerd.protocol.decisions.acl_filters import QueryError
from authorizerd.protocol.http.messages import (
    UNIDENTIFIED,
    Request,
    Response,
    bearer_token,
    method_not_allowed,
    text_response,
)
from authorizerd.protocol.http.rights import ACLS
from authorizerd.protocol.http.streamed import StreamedResponse

NO_STORE: Final = (b"Cache-Control", b"no-store")
RETRY_AFTER: Final = (b"Retry-After", b"1")
_METHODS: Final = ("GET", "HEAD")


class AclSurface(ABC):
    """Answer requests that show ACLs.

    Args:
        name: the surface's name in the audit log.
    """

    audits_access = True
    """False if only refusals are audited."""

    def __init__(self, name: str, authorizer: StandardAuthorizer, callers: Callers) -> None:
        self._name: Final = name
        self._authorizer: Final = authorizer
        self._callers: Final = callers

    async def __call__(self, request: Request) -> Response | StreamedResponse:
        """Answer one request."""
        if request.method not in _METHODS:
            return method_not_allowed(b"GET, HEAD")
        caller = self._callers.identify(bearer_token(request), certified=request.principal)
        if caller is None:
            return UNIDENTIFIED
        requester = PortRequester(caller, request.address, request.headers)
        try:
            check_may_list(self._authorizer, caller)
            if self.audits_access:
                audit_access(self._authorizer, requester, self._name, allowed=True)
            return await self._answer(request, caller)
        except (QueryError, PastRefusedError) as error:
            return text_response(400, str(error))
        except (BusyError, PastUnavailableError) as error:
            return refuse_for_now(str(error))
        except ForbiddenError as error:
            audit_access(self._authorizer, requester, self._name, allowed=False)
            return text_response(403, str(error))
        except ExpiredError as error:
            return text_response(410, f"{error}: list the ACLs again (GET /v1/acls)")
        except NotReadyError as error:
            return text_response(503, f"AUTHORIZER_NOT_READY: {error}")

    @abstractmethod
    async def _answer(self, request: Request, caller: Caller) -> Response | StreamedResponse:
        """Return the answer, or raise one of the errors above."""


def check_may_list(authorizer: StandardAuthorizer, caller: Caller) -> DecisionState:
    """Return the newest state, whose ACLs the caller may see.

    Raises:
        ForbiddenError: it may not.
        NotReadyError: there are no ACLs, or the audit is required and cannot be written.
    """
    caller.check(ACLS)
    state = authorizer.current_state()
    authorizer.check_ready(state)
    return state


def refuse_for_now(reason: str) -> Response:
    """Return a refusal that tells the caller to retry later."""
    return msgspec.structs.replace(text_response(503, reason), headers=(RETRY_AFTER,))
