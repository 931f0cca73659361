"""What a Kafka request's sender may do, asked of the authorizer in one question a request.

Law: all that one call asks is judged by one state of the ACLs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from acl.errors import InvalidQuestionError
from acl.model import CLUSTER_NAME, Operation, ResourceType
from acl.operations import NOT_REQUESTED, SUPPORTED, bit_field
from actors.authorizer import Action, Authorizer, RequestContext

_CLUSTER_OPERATIONS: Final = SUPPORTED[ResourceType.CLUSTER]


class Rights:
    """Raises (all methods): NotReadyError, where the ACLs are not loaded for this principal."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def may(self, context: RequestContext, operation: Operation) -> bool:
        """Say whether ``operation`` on the cluster is allowed."""
        return self._are_allowed(
            context, [Action(operation, ResourceType.CLUSTER, CLUSTER_NAME)]
        ) == [True]

    def may_describe(
        self, context: RequestContext, resource_type: ResourceType, names: Sequence[str]
    ) -> list[bool]:
        """Say for each name, in order, whether the resource may be described."""
        return self._are_allowed(
            context, [Action(Operation.DESCRIBE, resource_type, name) for name in names]
        )

    def cluster_operations(self, context: RequestContext, is_asked: bool) -> int:
        """Return KIP-430's bit field for the cluster: 0 for whoever may not describe it.

        These questions are no attempts, so the audit shows them at TRACE only.
        """
        if not is_asked:
            return NOT_REQUESTED
        actions = [
            Action(
                operation,
                ResourceType.CLUSTER,
                CLUSTER_NAME,
                log_if_allowed=False,
                log_if_denied=False,
            )
            for operation in _CLUSTER_OPERATIONS
        ]
        answers = zip(_CLUSTER_OPERATIONS, self._are_allowed(context, actions), strict=True)
        allowed = [operation for operation, is_allowed in answers if is_allowed]
        return bit_field(allowed) if Operation.DESCRIBE in allowed else 0

    def _are_allowed(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        try:
            return self._authorizer.authorize(context, actions)
        except InvalidQuestionError:
            return [False] * len(actions)
