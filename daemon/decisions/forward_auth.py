"""Forward authorization: a gateway asks for the request of a user, by the table of routes.

The answers are those that nginx's auth_request, Traefik, Caddy and Envoy expect: 200 allows the
request, 403 denies it, 401 means that the gateway named no user. Gateways turn any other status
into an error, and let no request pass.

**Invariant:** the answer is 200 only if the table has a route for the request, and each of its
questions is allowed by one state. A fault of the gateway itself, such as a wrong token, is 503:
401 or 403 would be shown to the user.
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.decision import DefaultRule, MatchingAcl, Rule
from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.model import OPERATION_NAMES, RESOURCE_TYPE_NAMES, Question
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer, DecisionContext
from authorizerd.config.routes.errors import RefusedRequestError
from authorizerd.config.routes.forwarded import Forwarded
from authorizerd.daemon.decisions.access_audit import audit_access
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.daemon.decisions.route_file import FORWARD_PATH, KEY, RouteFile
from authorizerd.daemon.errors import ForbiddenError
from authorizerd.protocol.http.messages import (
    NO_STORE,
    Request,
    Response,
    bearer_token,
    text_response,
)
from authorizerd.protocol.http.request_head import RepeatedHeaders
from authorizerd.protocol.http.rights import FORWARDED

SURFACE: Final = "ForwardAuth"
REASON: Final = b"X-Authorizerd-Reason"
REASON_BYTES_MAX: Final = 512

# A gateway that caches answers would keep them longer than the ACLs allow.
_ALLOWED: Final = Response(status=200, body=b"", headers=NO_STORE)
_UNIDENTIFIED: Final = (
    "the gateway is unknown: it needs a valid token (Authorization: Bearer ID.SECRET) or a client"
    " certificate"
)


def refuse(status: int, reason: str) -> Response:
    """Return an answer that gives the reason in its body and in a header."""
    shown = escape_unprintable(_shorten(reason))
    header = _shorten(shown.encode("ascii", "backslashreplace").decode()).encode()
    response = text_response(status, shown)
    return msgspec.structs.replace(response, headers=((REASON, header), *NO_STORE))


def _shorten(text: str) -> str:
    return text if len(text) <= REASON_BYTES_MAX else f"{text[: REASON_BYTES_MAX - 3]}..."


class ForwardAuthHandler:
    """Answers the requests of gateways."""

    def __init__(self, authorizer: DaemonAuthorizer, callers: Callers, routes: RouteFile) -> None:
        self._authorizer: Final = authorizer
        self._callers: Final = callers
        self._routes: Final = routes
        self._counts: Final = authorizer.counts_of(SURFACE)

    def __call__(self, request: Request) -> Response:
        """Answer one request; see ``Handler``."""
        # Gateways pass on the user's Authorization: a certificate identifies the gateway alone.
        certified = request.principal
        token = bearer_token(request) if certified is None else None
        caller = self._callers.identify(token, certified=certified)
        if caller is None:
            return refuse(503, _UNIDENTIFIED)
        requester = PortRequester(caller, request.address, request.headers)
        try:
            caller.check(FORWARDED)
        except ForbiddenError as error:
            self._counts.invalid += 1
            audit_access(self._authorizer, requester, SURFACE, allowed=False)
            return refuse(503, str(error))
        try:
            forwarded = self._read(request)
        except RefusedRequestError as error:
            self._counts.invalid += 1
            return refuse(error.status, str(error))
        return self._decide(forwarded, requester)

    def _read(self, request: Request) -> Forwarded:
        routes = self._routes.newest
        if routes is None:
            raise RefusedRequestError(f"{KEY} is not read yet", 503)
        target = request.path[len(FORWARD_PATH) :]
        if target and not routes.gateway.is_below:
            raise RefusedRequestError(
                f"no such path: expected {FORWARD_PATH} alone for a gateway of the kind"
                f" {routes.gateway.name}"
            )
        if request.query:
            target = f"{target}?{request.query}"
        headers = request.headers
        repeated = headers.repeated if isinstance(headers, RepeatedHeaders) else ()
        return routes.reader.read(request.method, target, headers, repeated)

    def _decide(self, forwarded: Forwarded, requester: PortRequester) -> Response:
        principal, host, (route, values) = forwarded
        if not route.questions:
            self._counts.denied += 1
            return refuse(403, f"{principal} may not do this: {route.denial}")
        authorizer = self._authorizer
        state = authorizer.current_state()
        context = DecisionContext(SURFACE, self._counts, requester=requester)
        try:
            for template in route.questions:
                question = Question(
                    principal,
                    host,
                    template.operation,
                    template.resource_type,
                    template.fill(values),
                )
                decision = authorizer.decide(state, question, context)
                if not decision.allowed:
                    return refuse(403, describe_denial(question, decision.rule))
        except InvalidQuestionError as error:
            return refuse(403, str(error))
        except NotReadyError as error:
            return refuse(503, f"AUTHORIZER_NOT_READY: {error}")
        return _ALLOWED


def describe_denial(question: Question, rule: Rule) -> str:
    """Return a denial in words for the user, without the text of ACLs."""
    why = "the authorizer denies it"
    if rule is DefaultRule.DEFAULT_DENY:
        why = "no ACL allows it"
    elif isinstance(rule, MatchingAcl):
        why = "an ACL denies it"
    operation = OPERATION_NAMES[question.operation]
    resource_type = RESOURCE_TYPE_NAMES[question.resource_type]
    return (
        f"{question.principal} may not {operation} {resource_type} {question.resource_name} from"
        f" {question.host}: {why}"
    )
