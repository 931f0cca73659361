"""The StandardAuthorizer decides from the newest snapshot, and audits its decisions.

**Invariant:** before the ACLs are loaded, only super users get answers, and only early start
listeners are open. If the audit is required, nobody gets answers while it cannot be written.

Source: KIP-504 (Authorizer), KIP-801 (loading, early start listeners, AclCount).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, cast

from authorizerd.acl.audit.caller import Requester
from authorizerd.acl.by_resource_type import authorize_by_resource_type, check_by_resource_type
from authorizerd.acl.decision import SUPER_USER, AuthorizerSettings, Decision, authorize, explain
from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.filters import match_acls
from authorizerd.acl.model import Acl, AclFilter, PatternType, Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import Steps
from authorizerd.acl.updates import Deleted
from authorizerd.actors.auditor import NOT_WRITTEN, Auditor
from authorizerd.actors.authorizer import Action, Authorize, RequestContext, ServerInfo, probe_of
from authorizerd.actors.completion import Completion
from authorizerd.actors.daemon_authorizer import (
    KAFKA_SURFACE,
    AuthorizeFields,
    DaemonAuthorizer,
    DecisionContext,
    DecisionCounts,
    DecisionState,
    context_of,
)
from authorizerd.actors.errors import EndpointStartError
from authorizerd.actors.published import View
from authorizerd.actors.published_state import NOT_LOADED
from authorizerd.actors.updates import Updates
from authorizerd.config.values import boolean, parse_principals

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
_NO_UPDATES: Final = "a worker changes nothing"


class StandardAuthorizer(DaemonAuthorizer):
    """The built-in authorizer. It decides as Kafka's StandardAuthorizer does.

    Args:
        updates: makes creations and deletions; None in a worker, which gets no such requests.
        auditor: None if nothing is audited.
        why_no_snapshot: returns the reason while there is no snapshot.
    """

    is_quick = True

    def __init__(
        self,
        snapshot: View[AclSnapshot | None],
        updates: Updates | None = None,
        *,
        auditor: Auditor | None = None,
        why_no_snapshot: Callable[[], str] = lambda: NOT_LOADED,
    ) -> None:
        super().__init__(snapshot)
        self._updates = updates
        self._auditor = auditor
        self.names_rules = auditor is not None
        self._why_no_snapshot = why_no_snapshot
        self._starting: list[Completion[None]] = []

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set ``super.users`` and ``allow.everyone.if.no.acl.found``."""
        self._settings = read_settings(configs)

    def reconfigure(self, configs: Mapping[str, str]) -> None:
        """Use new settings for requests that begin from now on."""
        self._settings = read_settings(configs)

    @property
    def reconfigurable_configs(self) -> frozenset[str]:
        return frozenset((SUPER_USERS, ALLOW_EVERYONE))

    def validate_reconfiguration(self, configs: Mapping[str, str]) -> None:
        read_settings(configs)

    def start(self, server_info: ServerInfo) -> Mapping[str, Completion[None]]:
        """Start early start listeners at once, and the others when the ACLs are loaded."""
        started = {name: Completion[None]() for name in server_info.endpoints}
        for name, completion in started.items():
            if name in server_info.early_start_listeners or self._snapshot.newest is not None:
                completion.succeed(None)
            else:
                self._starting.append(completion)
        return started

    def complete_initial_load(self, error: Exception | None = None) -> None:
        """Report that the ACLs are loaded, or the error that prevents it."""
        # Emptied first: `close` calls this method again, and a completion can end only once.
        starting, self._starting = self._starting, []
        for completion in starting:
            if error is None:
                completion.succeed(None)
            else:
                completion.fail(error)

    def close(self) -> None:
        """Close the authorizer. Endpoints that still wait for the ACLs fail."""
        self.complete_initial_load(
            EndpointStartError("the authorizer was closed before the ACLs were loaded")
        )

    def serves(self, principal: str) -> bool:
        if self._auditor is not None and self._auditor.log.is_refusing:
            return False
        return self._snapshot.newest is not None or principal in self._settings.super_users

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
        auditor = self._auditor
        try:
            if auditor is not None and auditor.log.is_refusing:  # saves a call
                auditor.check()
            if state.snapshot is not None:
                decision = explain(state.snapshot, state.settings, question)
            elif question.principal in state.settings.super_users:
                decision = SUPER_USER
            else:
                raise NotReadyError(self._why_no_snapshot())
        except NotReadyError:
            context.counts.not_ready += 1
            raise
        except InvalidQuestionError:
            context.counts.invalid += 1
            raise
        if decision.allowed and (auditor is None or auditor.skips_allowed):  # most; kept fast
            context.counts.allowed += 1
        else:
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

    def report(
        self,
        state: DecisionState,
        question: Question,
        decision: Decision,
        context: DecisionContext,
    ) -> None:
        """Count and audit the decision."""
        if decision.allowed:
            context.counts.allowed += 1
        else:
            context.counts.denied += 1
        if self._auditor is not None:
            self._auditor.audit(state, question, decision, context)

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        return self._authorize(self.current_state(), context, actions)

    def pinned(self) -> Authorize:
        return partial(self._authorize, self.current_state())

    def _authorize(
        self, state: DecisionState, context: RequestContext, actions: Sequence[Action]
    ) -> list[bool]:
        self.check_current(state)
        principal, host = context.principal, context.host
        counts = self.counts_of(KAFKA_SURFACE)
        answers = []
        for action in actions:
            if action.pattern_type != PatternType.LITERAL:
                counts.invalid += 1
                raise _not_literal(action.pattern_type)
            question = Question(
                principal, host, action.operation, action.resource_type, action.resource_name
            )
            details = context_of(action, context, counts)
            answers.append(self.decide(state, question, details).allowed)
        return answers

    def authorize_by(
        self, state: DecisionState, request_name: str, requester: Requester | None = None
    ) -> AuthorizeFields:
        """As the interface says. The function looks for the rule only if the audit log needs it."""
        snapshot, settings, auditor = state.snapshot, state.settings, self._auditor
        if snapshot is None:
            return super().authorize_by(state, request_name, requester)
        if auditor is None:
            # It takes half of `explain`'s time, and the state has a snapshot for it.
            return cast(AuthorizeFields, authorize)
        context = DecisionContext(request_name, DecisionCounts(), requester=requester)

        def is_allowed(
            _snapshot: AclSnapshot | None,
            _settings: AuthorizerSettings,
            principal: str,
            host: str | None,
            operation: int,
            resource_type: int,
            resource_name: str,
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
        """As the interface says. The audit log gets only the question about the probe, as Kafka's.

        The whole answer uses the snapshot and settings from its beginning.
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

    def create_acls(
        self, context: RequestContext, acls: Sequence[Acl]
    ) -> Sequence[Completion[None]]:
        assert self._updates is not None, _NO_UPDATES
        return self._updates.create(acls, context)

    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        assert self._updates is not None, _NO_UPDATES
        return self._updates.delete(filters, context)

    def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
        """As the interface says. Until the ACLs are loaded, there are none, as in Kafka.

        Raises:
            NotReadyError: decisions are stopped; an empty listing would mean that there are none.
        """
        state = self.current_state()
        if state.snapshot is not None:
            for acls in match_acls(state.snapshot, filter):
                self.check_current(state)
                yield acls
        elif self.not_ready_reason != NOT_LOADED:
            raise NotReadyError(self.not_ready_reason)

    def acl_offset(self) -> int | None:
        """Return the snapshot's log offset, or None if the ACLs are also changed elsewhere."""
        snapshot = self._snapshot.newest
        is_checked = self._updates is not None and self._updates.checks_guards
        return snapshot.offset if snapshot is not None and is_checked else None

    def acl_count(self) -> int:
        snapshot = self._snapshot.newest
        return -1 if snapshot is None else len(snapshot.acls)


def read_settings(configs: Mapping[str, str]) -> AuthorizerSettings:
    """Return the settings in ``configs``, with Kafka's defaults for missing keys.

    Raises:
        ValueError: a value is invalid.
    """
    return AuthorizerSettings(
        super_users=parse_principals(configs.get(SUPER_USERS, "")),
        allow_everyone_if_no_acl_found=boolean(configs.get(ALLOW_EVERYONE, "false")),
    )


def _not_literal(pattern_type: int) -> InvalidQuestionError:
    """Return Kafka's IllegalArgumentException."""
    name = PatternType.read(pattern_type).name
    return InvalidQuestionError(f"Only literal resources are supported. Got: {name}")
