"""OPA's data API on the decision port, as Kafka's OPA plugin uses it.

**Invariant:** the only JSON answers to questions are decisions; errors are plain text. The plugin
would cache a JSON error as a denial. If it gets plain text, it obeys
``opa.authorizer.allow.on.error``.

Source: org.openpolicyagent.kafka:opa-authorizer 1.5.1; OPA's REST API.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.model import Question
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer, DecisionContext, DecisionState
from authorizerd.actors.steps import finish_in_turns
from authorizerd.daemon.decisions.callers import Callers
from authorizerd.daemon.decisions.http_surface import HttpSurface
from authorizerd.daemon.decisions.requester import PortRequester
from authorizerd.protocol.decisions.opa import (
    ALLOWED,
    DENIED,
    OpaError,
    OpaQuestion,
    decode_question,
    token_in_query,
)
from authorizerd.protocol.http.messages import (
    JSON,
    Request,
    Response,
    bearer_token,
    method_not_allowed,
    text_response,
)
from authorizerd.protocol.http.rights import DECISIONS
from authorizerd.protocol.http.streamed import AnyResponse

SURFACE: Final = "OPA"
DATA_PATH: Final = "/v1/data"
"""All paths below it are equivalent: the name of the policy rule is ignored."""
HEALTH_PATH: Final = "/health"
_BELOW: Final = f"{DATA_PATH}/"

_ALLOWED: Final = Response(status=200, body=ALLOWED, content_type=JSON)
_DENIED: Final = Response(status=200, body=DENIED, content_type=JSON)
_HEALTHY: Final = Response(status=200, body=b"{}", content_type=JSON)


def _find_token(request: Request) -> str | bytes | None:
    return bearer_token(request) or token_in_query(request.query)


class OpaHandler(HttpSurface):
    """Answer the requests of Kafka's OPA plugin."""

    _find_token = staticmethod(_find_token)

    def __init__(self, authorizer: DaemonAuthorizer, callers: Callers) -> None:
        super().__init__(SURFACE, authorizer, callers, OpaError)

    def __call__(self, request: Request) -> AnyResponse | Awaitable[AnyResponse]:
        """Answer one request; see ``Handler``."""
        if request.path == HEALTH_PATH:
            return self._answer_health(request)
        # The port also passes on other paths with this prefix, such as /v1/database.
        if not request.path.startswith(_BELOW) and request.path != DATA_PATH:
            return text_response(
                404, f"no such path: expected {DATA_PATH}/ANY/PATH or {HEALTH_PATH}"
            )
        return super().__call__(request)

    def _answer_health(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return method_not_allowed(b"GET, HEAD")
        refusal = self._authorizer.refusal
        if refusal:
            return text_response(503, refusal)
        return _HEALTHY

    def _answer(self, request: Request, requester: PortRequester) -> Response | Awaitable[Response]:
        state = self._authorizer.current_state()
        try:
            asked = decode_question(request.body)
        except OpaError:
            self._counts.invalid += 1
            raise
        self._check(requester, DECISIONS, asked.principal)
        if asked.resource_name is None:
            return self._decide_by_type(asked, requester)
        allowed = self._decide_one(asked, asked.resource_name, state, requester)
        return _ALLOWED if allowed else _DENIED

    def _decide_one(
        self,
        asked: OpaQuestion,
        resource_name: str,
        state: DecisionState,
        requester: PortRequester,
    ) -> bool:
        question = Question(
            asked.principal, asked.host, asked.operation, asked.resource_type, resource_name
        )
        context = DecisionContext(
            asked.request_name or SURFACE,
            self._counts,
            asked.resource_reference_count,
            asked.log_if_allowed,
            asked.log_if_denied,
            requester,
        )
        return self._authorizer.decide(state, question, context).allowed

    async def _decide_by_type(self, asked: OpaQuestion, requester: PortRequester) -> Response:
        """Decide by resource type, from one state. Other tasks run between the steps."""
        counts = self._counts
        context = RequestContext(
            principal=asked.principal,
            host=asked.host,
            request_name=asked.request_name or SURFACE,
            requester=requester,
        )
        try:
            steps = self._authorizer.authorize_by_resource_type(
                context, asked.operation, asked.resource_type
            )
            allowed = await finish_in_turns(steps)
        except InvalidQuestionError:
            counts.invalid += 1
            raise
        except NotReadyError:
            counts.not_ready += 1
            raise
        if allowed:
            counts.allowed += 1
        else:
            counts.denied += 1
        return _ALLOWED if allowed else _DENIED
