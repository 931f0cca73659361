"""Audit lines about the rights of callers.

**Invariant:** such a line names the caller and the right, but no ACL decision. Its operation is
``ANY``, so no tool mistakes it for a decision. It is not counted as a question.
"""

from __future__ import annotations

from authorizerd.acl.decision import Decision, NamedRule
from authorizerd.acl.model import CLUSTER_NAME, Operation, Question, ResourceType
from authorizerd.actors.daemon_authorizer import DaemonAuthorizer, DecisionContext, DecisionCounts
from authorizerd.actors.standard_authorizer import StandardAuthorizer
from authorizerd.daemon.decisions.requester import PortRequester


def audit_access(
    authorizer: DaemonAuthorizer, requester: PortRequester, request_name: str, *, allowed: bool
) -> None:
    """Audit that the caller was refused, or that it sees ACLs.

    Custom authorizers write their own audit, and only about their decisions.
    """
    principal = requester.principal
    if principal is None or not isinstance(authorizer, StandardAuthorizer):
        return
    question = Question(principal, None, Operation.ANY, ResourceType.CLUSTER, CLUSTER_NAME)
    decision = Decision(allowed, NamedRule("Callers"))
    context = DecisionContext(request_name, DecisionCounts(), requester=requester)
    authorizer.report(authorizer.current_state(), question, decision, context)
