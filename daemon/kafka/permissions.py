"""The rights of a Kafka request's sender, according to the authorizer.

**Invariant:** one request is judged entirely by one state of the ACLs, even if that takes several
calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from authorizerd.acl.errors import InvalidQuestionError
from authorizerd.acl.model import CLUSTER_NAME, Operation, ResourceType
from authorizerd.acl.operations import SUPPORTED, bit_field
from authorizerd.actors.authorizer import Action, Authorize, Authorizer, RequestContext
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

NOT_AUTHORIZED: Final = ApiError(
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED.text
)
UNEXPLAINED: Final = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
"""The same error without a text, as in some of Kafka's answers."""


class RefusedError(Exception):
    """The error that answers a whole request."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.error = error


class Rights:
    """Asks the authorizer for a right, or pins its state to ask for all rights of one request."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    @property
    def not_ready_error(self) -> ApiError:
        """The error of requests that the authorizer does not serve now."""
        reason = self._authorizer.not_ready_reason
        return ApiError(ErrorCode.AUTHORIZER_NOT_READY, f"{reason[:1].upper()}{reason[1:]}.")

    def may(
        self, context: RequestContext, operation: Operation, *, log_if_allowed: bool = True
    ) -> bool:
        """Return True if ``operation`` on the cluster is allowed.

        Raises:
            NotReadyError: the ACLs are not loaded for this principal.
        """
        action = Action(
            operation, ResourceType.CLUSTER, CLUSTER_NAME, log_if_allowed=log_if_allowed
        )
        return _are_allowed(self._authorizer.authorize, context, [action]) == [True]

    def require(
        self, context: RequestContext, operation: Operation, refusal: ApiError = NOT_AUTHORIZED
    ) -> None:
        """Raise RefusedError unless ``operation`` on the cluster is allowed. See ``may``."""
        if not self.may(context, operation):
            raise RefusedError(refusal)

    def pin(self, context: RequestContext) -> RequestRights:
        """Return the sender's rights as of now, to be used until the request is answered."""
        return RequestRights(self._authorizer.pinned(), context)


class RequestRights:
    """One request's rights.

    To keep the event loop responsive, ask about a few resources at a time, and yield in between.

    Raises (all methods):
        NotReadyError: the ACLs are not loaded for this principal.
    """

    def __init__(self, authorize: Authorize, context: RequestContext) -> None:
        self._authorize = authorize
        self._context = context

    def may_describe(
        self, resource_type: ResourceType, names: Sequence[str], *, log_if_denied: bool = True
    ) -> list[bool]:
        """Return for each name, in order, True if the sender may describe the resource."""
        actions = [
            Action(Operation.DESCRIBE, resource_type, name, log_if_denied=log_if_denied)
            for name in names
        ]
        return _are_allowed(self._authorize, self._context, actions)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """Return KIP-430's bit field for a resource: 0 if the sender may not describe it.

        These questions are not access attempts, so the audit logs them only at TRACE.
        """
        supported = SUPPORTED[resource_type]
        actions = [
            Action(operation, resource_type, name, log_if_allowed=False, log_if_denied=False)
            for operation in supported
        ]
        answers = _are_allowed(self._authorize, self._context, actions)
        allowed = [each for each, is_allowed in zip(supported, answers, strict=True) if is_allowed]
        return bit_field(allowed) if Operation.DESCRIBE in allowed else 0

    def cluster_operations(self) -> int:
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def _are_allowed(
    authorize: Authorize, context: RequestContext, actions: Sequence[Action]
) -> list[bool]:
    try:
        return authorize(context, actions)
    except InvalidQuestionError:  # a principal such as ``User:*`` cannot be asked about
        return [False] * len(actions)
