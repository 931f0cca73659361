"""OPA's data API on the decision port, as Kafka's OPA plugin uses it.

**Invariant:** JSON carries decisions only. Everything else, such as an error or that Kafka's ACLs
are not loaded, is plain text: the plugin would cache any JSON as a denial, while on plain text it
applies ``opa.authorizer.allow.on.error``.

Source: org.openpolicyagent.kafka:opa-authorizer 1.5.1; OPA's REST API.
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.model import Question
from authorizerd.actors.authorizer import Action, RequestContext
from authorizerd.actors.decider import Decider, DecisionState
from authorizerd.actors.steps import finish_in_turns
from authorizerd.daemon.decisions.callers import Caller, Callers, check_may_ask
from authorizerd.daemon.errors import ForbiddenError
from authorizerd.protocol.decisions.opa import (
    ALLOWED,
    DENIED,
    OpaError,
    OpaQuestion,
    decode_question,
    token_in_query,
)
from authorizerd.protocol.http.messages import (
    UNIDENTIFIED,
    Request,
    Response,
    bearer_token,
    has_json_type,
    text_response,
)

SURFACE: Final = "OPA"
DATA_PATH: Final = "/v1/data"
"""All paths below it give the same answer: the name of the policy rule is ignored."""
HEALTH_PATH: Final = "/health"

_JSON: Final = "application/json"
_ALLOWED: Final = Response(status=200, body=ALLOWED, content_type=_JSON)
_DENIED: Final = Response(status=200, body=DENIED, content_type=_JSON)
_HEALTHY: Final = Response(status=200, body=b"{}", content_type=_JSON)


def is_opa_path(path: str) -> bool:
    return path.startswith(DATA_PATH) or path == HEALTH_PATH


class OpaHandler:
    def __init__(self, authorizer: Decider, callers: Callers) -> None:
        self._authorizer = authorizer
        self._callers = callers
        self._counts = authorizer.counts_of(SURFACE)

    async def __call__(self, request: Request) -> Response:
        if request.path == HEALTH_PATH:
            return self._answer_health(request)
        if request.path != DATA_PATH and not request.path.startswith(f"{DATA_PATH}/"):
            return text_response(
                404, f"no such path: expected {DATA_PATH}/ANY/PATH or {HEALTH_PATH}"
            )
        if request.method != "POST":
            return _only(b"POST")
        token = bearer_token(request) or token_in_query(request.query)
        caller = self._callers.identify(token, SURFACE)
        if caller is None:
            return UNIDENTIFIED
        if not has_json_type(request):
            return text_response(400, "Content-Type must be application/json")
        try:
            return _ALLOWED if await self._decide(request.body, caller) else _DENIED
        except (OpaError, InvalidQuestionError) as error:
            return text_response(400, str(error))
        except ForbiddenError as error:
            return text_response(403, str(error))
        except NotReadyError as error:
            return text_response(503, f"AUTHORIZER_NOT_READY: {error}")

    def _answer_health(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return _only(b"GET, HEAD")
        if self._authorizer.current_state().snapshot is None:
            return text_response(503, "the ACLs are not loaded yet")
        return _HEALTHY

    async def _decide(self, body: bytes, caller: Caller) -> bool:
        state = self._authorizer.current_state()
        try:
            asked = decode_question(body)
            check_may_ask(caller, asked.principal, state)
        except (OpaError, ForbiddenError):
            self._counts.invalid += 1
            raise
        except NotReadyError:
            self._counts.not_ready += 1
            raise
        if asked.resource_name is None:
            return await self._decide_by_type(asked)
        return self._decide_one(asked, asked.resource_name, state)

    def _decide_one(self, asked: OpaQuestion, resource_name: str, state: DecisionState) -> bool:
        question = Question(
            asked.principal, asked.host, asked.operation, asked.resource_type, resource_name
        )
        action = Action(
            asked.operation,
            asked.resource_type,
            resource_name,
            resource_reference_count=asked.resource_reference_count,
            log_if_allowed=asked.log_if_allowed,
            log_if_denied=asked.log_if_denied,
        )
        request_name = asked.request_name or SURFACE
        return self._authorizer.decide(state, question, request_name, self._counts, action).allowed

    async def _decide_by_type(self, asked: OpaQuestion) -> bool:
        """Answer authorizeByResourceType from the state at its start, yielding between steps."""
        counts = self._counts
        context = RequestContext(
            principal=asked.principal, host=asked.host, request_name=asked.request_name or SURFACE
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
        return allowed


def _only(methods: bytes) -> Response:
    response = text_response(405, f"method not allowed: expected {methods.decode()}")
    return msgspec.structs.replace(response, headers=((b"Allow", methods),))
