"""KIP-504's Authorizer: the seam between what decides and the listeners that ask.

Law: a listener knows an authorizer by this protocol alone. ``authorize`` is synchronous and never
blocks; what has to be written or fetched is an awaitable an item.

Of KIP-504's methods ``start`` is the ListenerGate's, which opens endpoints; ``close`` is the
UpdateQueue's, which refuses what can no longer complete.

Source: KIP-504; KIP-679 (authorizeByResourceType), KIP-801 (aclCount).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from acl.model import Acl, AclFilter, PatternType
from acl.steps import Steps
from acl.updates import Deleted
from actors.completion import Completion


class RequestContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who asks, whence, and with which request; ``request_name`` is the API's, for the audit."""

    principal: str
    host: str | None
    request_name: str
    listener_name: str = ""
    client_id: str | None = None
    correlation_id: int = 0


class Action(msgspec.Struct, frozen=True, gc=False):
    """One thing that a request wants to do."""

    operation: int
    resource_type: int
    resource_name: str
    pattern_type: PatternType = PatternType.LITERAL
    resource_reference_count: int = 1
    log_if_allowed: bool = True
    log_if_denied: bool = True


class Authorizer(Protocol):
    """Decides, and keeps the ACLs that it decides by."""

    def serves(self, principal: str) -> bool:
        """Say whether this principal is answered yet: all are once the ACLs are loaded."""

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        """Return whether each action is allowed, in order, all by one state of the ACLs.

        Raises:
            NotReadyError: the ACLs are not loaded, and the principal is no super user.
            InvalidQuestionError: no question can be about this principal.
        """

    def authorize_by_resource_type(
        self, context: RequestContext, operation: int, resource_type: int
    ) -> bool:
        """Return whether some resource of the type may be used so; raises as ``authorize``."""

    def create_acls(
        self, context: RequestContext, acls: Sequence[Acl]
    ) -> Sequence[Completion[None]]:
        """Create; one completion an item, in order, that fails with that item's error."""

    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        """Delete; one completion a filter, in order."""

    def acls(self, filter: AclFilter) -> Steps[list[Acl]]:
        """Return, in steps, the ACLs that ``filter`` means, all of one state."""

    def acl_count(self) -> int:
        """Return the number of ACLs, -1 where it is not known."""
