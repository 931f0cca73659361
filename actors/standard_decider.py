"""The StandardDecider: it decides from the newest snapshot, and has its decisions audited.

**Invariant:** before the ACLs are loaded, only super users get answers. If the audit is required,
nobody gets answers while it cannot be written.

Source: KIP-504 (Authorizer), KIP-801 (loading).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from authorizerd.acl.audited_caller import Requester
from authorizerd.acl.by_resource_type import authorize_by_resource_type, check_by_resource_type
from authorizerd.acl.decision import SUPER_USER, AuthorizerSettings, Decision, authorize, explain
from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.model import Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import Steps
from authorizerd.actors.auditor import NOT_WRITTEN, Auditor
from authorizerd.actors.authorizer import RequestContext, probe_of
from authorizerd.actors.decider import (
    Decider,
    DecisionContext,
    DecisionCounts,
    DecisionState,
    Judge,
    context_of,
)
from authorizerd.actors.published import View
from authorizerd.actors.record_applier import NOT_LOADED
from authorizerd.config.values import boolean, parse_principals

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


class StandardDecider(Decider):
    """Decide as Kafka's StandardAuthorizer does.

    Args:
        auditor: None if nothing is audited.
        why_no_snapshot: returns the reason while there is no snapshot.
    """

    is_quick = True

    def __init__(
        self,
        snapshot: View[AclSnapshot | None],
        auditor: Auditor | None,
        *,
        why_no_snapshot: Callable[[], str] = lambda: NOT_LOADED,
    ) -> None:
        super().__init__(snapshot)
        self._auditor = auditor
        self._why_no_snapshot = why_no_snapshot
        self._settings = AuthorizerSettings()

    def reconfigure(self, configs: Mapping[str, str]) -> None:
        """Use other settings for requests that begin from now on.

        Raises:
            ValueError: the value of ``super.users`` or ``allow.everyone.if.no.acl.found`` is
                invalid.
        """
        self._settings = read_settings(configs)

    def current_state(self) -> DecisionState:
        snapshot, deadline = self._snapshot.read()
        return DecisionState(snapshot, self._settings, deadline)

    @property
    def refusal(self) -> str:
        if self._auditor is not None and self._auditor.log.is_refusing:
            return NOT_WRITTEN
        return "" if self._snapshot.newest is not None else self._why_no_snapshot()

    @property
    def not_ready_reason(self) -> str:
        return self.refusal or self._why_no_snapshot()

    def decide(
        self, state: DecisionState, question: Question, context: DecisionContext
    ) -> Decision:
        try:
            if self._auditor is not None:
                self._auditor.check()
            if state.snapshot is None:
                decision = self._decide_without_snapshot(state.settings, question.principal)
            else:
                decision = explain(state.snapshot, state.settings, question)
        except NotReadyError:
            context.counts.not_ready += 1
            raise
        except InvalidQuestionError:
            context.counts.invalid += 1
            raise
        self.report(state, question, decision, context)
        return decision

    def check_ready(self, state: DecisionState) -> AclSnapshot:
        """Return the ACLs of a state, for answers other than decisions.

        Raises:
            NotReadyError: the ACLs are not loaded, or too old, or the audit is required and cannot
                be written.
        """
        if self._auditor is not None:
            self._auditor.check()
        snapshot = state.snapshot
        if snapshot is None or self.has_expired(state):
            raise NotReadyError(self._why_no_snapshot())
        return snapshot

    def _decide_without_snapshot(self, settings: AuthorizerSettings, principal: str) -> Decision:
        if principal in settings.super_users:
            return SUPER_USER
        raise NotReadyError(self._why_no_snapshot())

    def report(
        self,
        state: DecisionState,
        question: Question,
        decision: Decision,
        context: DecisionContext,
    ) -> None:
        """Count the decision, and have it audited."""
        if decision.allowed:
            context.counts.allowed += 1
        else:
            context.counts.denied += 1
        # Check here first: calling `audit` for each allowed decision would take longer.
        auditor = self._auditor
        if auditor is not None and not (decision.allowed and auditor.skips_allowed):
            auditor.audit(state, question, decision, context)

    def judge(
        self, state: DecisionState, request_name: str, requester: Requester | None = None
    ) -> Judge:
        """See ``Decider.judge``. The function looks for the rule only if the audit log needs it."""
        snapshot, settings, auditor = state.snapshot, state.settings, self._auditor
        if snapshot is None:
            return super().judge(state, request_name, requester)
        if auditor is None:
            # A partial adds no Python frame, and `authorize` takes half of `explain`'s time.
            return partial(authorize, snapshot, settings)
        context = DecisionContext(request_name, DecisionCounts(), requester=requester)

        def is_allowed(
            principal: str, host: str | None, operation: int, resource_type: int, resource_name: str
        ) -> bool:
            auditor.check()
            allowed = authorize(
                snapshot, settings, principal, host, operation, resource_type, resource_name
            )
            if allowed and auditor.skips_allowed:
                return True
            level = auditor.select(allowed, principal, resource_type, resource_name, context)
            if level is not None:
                question = Question(principal, host, operation, resource_type, resource_name)
                decision = explain(snapshot, settings, question)
                auditor.record(level, state, question, decision, context)
            return allowed

        return is_allowed

    def authorize_by_resource_type(
        self, context: RequestContext, operation: int, resource_type: int
    ) -> Steps[bool]:
        """Return, in steps, True if the principal may do this to some resource of the type.

        The whole answer uses the snapshot and settings from its beginning. The audit log gets only
        the question about the probe, as in Kafka.

        Raises:
            NotReadyError, InvalidQuestionError: as ``decide``.
        """
        check_by_resource_type(operation, resource_type)
        state, probe = self.current_state(), probe_of(operation, resource_type)
        principal, host = context.principal, context.host
        question = Question(principal, host, operation, resource_type, probe.resource_name)
        uncounted = context_of(probe, context, DecisionCounts())
        if self.decide(state, question, uncounted).allowed:
            return True
        assert state.snapshot is not None, "no denial is possible before the ACLs are loaded"
        allowed = yield from authorize_by_resource_type(
            state.snapshot, state.settings, principal, host, operation, resource_type
        )
        self.check_current(state)
        return allowed


def read_settings(configs: Mapping[str, str]) -> AuthorizerSettings:
    """Return the settings in ``configs``, with Kafka's defaults for missing keys.

    Raises:
        ValueError: a value is invalid.
    """
    return AuthorizerSettings(
        super_users=parse_principals(configs.get(SUPER_USERS, "")),
        allow_everyone_if_no_acl_found=boolean(configs.get(ALLOW_EVERYONE, "false")),
    )
