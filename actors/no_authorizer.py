"""The stand-in used when ``authorizer.class.name`` is empty, so that no authorizer is configured.

**Invariant:** every check passes, and there are no ACLs to manage. Anyone who can connect may do
anything, as with a Kafka broker without an authorizer.

Source: Kafka 4.3 AuthHelper, AclApis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.updates import Deleted
from authorizerd.actors.authorizer import Action, Authorizer, RequestContext
from authorizerd.actors.completion import Completion
from authorizerd.actors.errors import SecurityDisabledError

# The texts below end differently, as Kafka's do.
_NOT_CONFIGURED = "No Authorizer is configured"


class NoAuthorizer(Authorizer):
    """Allow everything. Every method that manages ACLs raises SecurityDisabledError."""

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        return [True] * len(actions)

    def create_acls(
        self, context: RequestContext, acls: Sequence[Acl]
    ) -> Sequence[Completion[None]]:
        raise SecurityDisabledError(f"{_NOT_CONFIGURED}.")

    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        raise SecurityDisabledError(f"{_NOT_CONFIGURED}.")

    def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
        raise SecurityDisabledError(f"{_NOT_CONFIGURED} on the broker")
