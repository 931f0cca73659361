"""The StandardAuthorizer: it answers questions from the newest snapshot, counts and audits them.

**Invariant:** before the ACLs are loaded, only super users get answers, and only early start
listeners are open. If the audit is required, nobody gets answers while it cannot be written.

Source: KIP-504 (Authorizer), KIP-801 (loading, early start listeners, AclCount).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from authorizerd.acl.audit import AuditLevel
from authorizerd.acl.by_resource_type import authorize_by_resource_type, check_by_resource_type
from authorizerd.acl.decision import SUPER_USER, AuthorizerSettings, Decision, authorize, explain
from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.model import Acl, AclFilter, PatternType, Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import Steps
from authorizerd.acl.updates import Deleted
from authorizerd.actors.audit_log import AuditEvent, AuditLog
from authorizerd.actors.authorizer import Action, Authorize, RequestContext, ServerInfo, probe_of
from authorizerd.actors.completion import Completion
from authorizerd.actors.decider import KAFKA_SURFACE, Decider, DecisionCounts, DecisionState, Judge
from authorizerd.actors.errors import EndpointStartError
from authorizerd.actors.published import View
from authorizerd.actors.update_queue import UpdateQueue
from authorizerd.config.values import boolean, super_users

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


class StandardAuthorizer(Decider):
    """The built-in authorizer.

    Args:
        audit_log: None if nothing is audited.
        now_s: returns the time in seconds since 1970.
        updates: the queue for creations and deletions, or None if they are not possible.
    """

    def __init__(
        self,
        snapshot: View[AclSnapshot | None],
        *,
        audit_log: AuditLog | None,
        now_s: Callable[[], float],
        updates: UpdateQueue | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._settings = AuthorizerSettings()
        self._starting: list[Completion[None]] = []
        self._audit_log = audit_log
        self._now_s = now_s
        self._updates = updates
        self._counts: Final[dict[str, DecisionCounts]] = {}

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set ``super.users`` and ``allow.everyone.if.no.acl.found``.

        Raises:
            ValueError: a value is invalid.
        """
        self._settings = _settings_of(configs)

    def start(self, server_info: ServerInfo) -> Mapping[str, Completion[None]]:
        """Return a completion for each endpoint.

        It is done at once for an early start listener, and for the others when the ACLs are loaded.
        """
        started = {name: Completion[None]() for name in server_info.endpoints}
        for name, completion in started.items():
            if name in server_info.early_start_listeners or self._snapshot.newest is not None:
                completion.succeed(None)
            else:
                self._starting.append(completion)
        return started

    def complete_initial_load(self, error: Exception | None = None) -> None:
        """Report that the ACLs are loaded, or the error that prevents it."""
        starting, self._starting = self._starting, []
        for completion in starting:
            if error is None:
                completion.succeed(None)
            else:
                completion.fail(error)

    def close(self) -> None:
        """End. Endpoints that still wait for the ACLs fail."""
        self.complete_initial_load(
            EndpointStartError("the authorizer was closed before the ACLs were loaded")
        )

    @property
    def reconfigurable_configs(self) -> frozenset[str]:
        return frozenset((SUPER_USERS, ALLOW_EVERYONE))

    def validate_reconfiguration(self, configs: Mapping[str, str]) -> None:
        """Raise ValueError if ``reconfigure`` would."""
        _settings_of(configs)

    def reconfigure(self, configs: Mapping[str, str]) -> None:
        """Use other settings for requests that begin from now on. Raises as ``configure``."""
        self._settings = _settings_of(configs)

    @property
    def counts(self) -> Mapping[str, DecisionCounts]:
        return self._counts

    def current_state(self) -> DecisionState:
        """Return the state for a request that begins now.

        It must be used until the request ends.
        """
        return DecisionState(self._snapshot.newest, self._settings)

    def counts_of(self, surface: str) -> DecisionCounts:
        return self._counts.setdefault(surface, DecisionCounts())

    def serves(self, principal: str) -> bool:
        """Return True if this principal gets answers now. Before loading, only super users do.

        Nobody does while the audit is required and cannot be written.
        """
        if self._audit_log is not None and self._audit_log.is_refusing:
            return False
        return self._snapshot.newest is not None or principal in self._settings.super_users

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        """Return for each action, in order, whether it is allowed. All answers use one snapshot.

        Raises:
            NotReadyError, InvalidQuestionError: as ``decide``.
        """
        return self._authorize(self.current_state(), context, actions)

    def pinned(self) -> Authorize:
        """Return an ``authorize`` whose calls all use the current snapshot."""
        return partial(self._authorize, self.current_state())

    def _authorize(
        self, state: DecisionState, context: RequestContext, actions: Sequence[Action]
    ) -> list[bool]:
        counts = self.counts_of(KAFKA_SURFACE)
        return [
            self.decide(
                state,
                Question(
                    context.principal,
                    context.host,
                    action.operation,
                    action.resource_type,
                    action.resource_name,
                ),
                context.request_name,
                counts,
                action,
            ).allowed
            for action in actions
        ]

    async def wait_until_applied(self, offset: int) -> None:
        """Return as soon as the newest snapshot has ``offset`` or a later one."""
        await self._snapshot.wait_until(
            lambda newest: newest is not None and newest.offset >= offset
        )

    def judge(self, state: DecisionState, request_name: str) -> Judge:
        """Return a fast function for many questions.

        It looks for the rule only if the audit log needs it.
        """
        if state.snapshot is None or self._audit_log is not None:
            return partial(self._judge, state, request_name)
        return partial(authorize, state.snapshot, state.settings)

    def _judge(
        self,
        state: DecisionState,
        request_name: str,
        principal: str,
        host: str | None,
        operation: int,
        resource_type: int,
        resource_name: str,
    ) -> bool:
        snapshot, settings, audit_log = state.snapshot, state.settings, self._audit_log
        if snapshot is None or audit_log is None:
            question = Question(principal, host, operation, resource_type, resource_name)
            return self.decide(state, question, request_name, DecisionCounts()).allowed
        if audit_log.is_refusing:
            raise _cannot_be_audited()
        allowed = authorize(
            snapshot, settings, principal, host, operation, resource_type, resource_name
        )
        if allowed and audit_log.passes_over_allowed:
            return True
        level = audit_log.level_of(allowed)
        if level is None or not audit_log.chooses(allowed, principal, resource_type, resource_name):
            return allowed
        question = Question(principal, host, operation, resource_type, resource_name)
        decision = explain(snapshot, settings, question)
        self._record(audit_log, level, state, question, decision, request_name)
        return allowed

    def decide(
        self,
        state: DecisionState,
        question: Question,
        request_name: str,
        counts: DecisionCounts,
        action: Action | None = None,
        known: Decision | None = None,
    ) -> Decision:
        """Return the decision and its rule. Count it, and pass it to the audit log.

        Args:
            action: details for the audit log beside the question.
            known: the earlier decision of the same state about the question, which is returned.

        Raises:
            NotReadyError: the ACLs are not loaded, and the principal is not a super user; or the
                audit is required and cannot be written.
            InvalidQuestionError: the principal is ``User:*``, or the action's pattern is not
                literal.
        """
        snapshot, audit_log = state.snapshot, self._audit_log
        try:
            if action is not None and action.pattern_type != PatternType.LITERAL:
                raise _not_literal(action.pattern_type)
            if audit_log is not None and audit_log.is_refusing:
                raise _cannot_be_audited()
            if known is not None:
                decision = known
            elif snapshot is None:
                decision = _before_loading(state.settings, question.principal)
            else:
                decision = explain(snapshot, state.settings, question)
        except NotReadyError:
            counts.not_ready += 1
            raise
        except InvalidQuestionError:
            counts.invalid += 1
            raise
        if decision.allowed:
            counts.allowed += 1
        else:
            counts.denied += 1
        if audit_log is not None and not (decision.allowed and audit_log.passes_over_allowed):
            self._audit(audit_log, state, question, decision, request_name, action)
        return decision

    def _audit(
        self,
        audit_log: AuditLog,
        state: DecisionState,
        question: Question,
        decision: Decision,
        request_name: str,
        action: Action | None,
    ) -> None:
        allowed, reference_count = decision.allowed, 1
        if action is None:
            level = audit_log.level_of(allowed)
        else:
            level = audit_log.level_of(allowed, action.log_if_allowed, action.log_if_denied)
            reference_count = action.resource_reference_count
        if level is not None and audit_log.chooses(
            allowed, question.principal, question.resource_type, question.resource_name
        ):
            self._record(audit_log, level, state, question, decision, request_name, reference_count)

    def _record(
        self,
        audit_log: AuditLog,
        level: AuditLevel,
        state: DecisionState,
        question: Question,
        decision: Decision,
        request_name: str,
        reference_count: int = 1,
    ) -> None:
        audit_log.record(
            AuditEvent(
                self._now_s(),
                level,
                question,
                decision,
                request_name,
                state.offset,
                reference_count,
                audit_log.allowed_rate if decision.allowed else 1.0,
            )
        )

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
        uncounted = DecisionCounts()
        if self.decide(state, question, context.request_name, uncounted, probe).allowed:
            return True
        snapshot = state.snapshot
        assert snapshot is not None, "no denial is possible before the ACLs are loaded"
        return (
            yield from authorize_by_resource_type(
                snapshot, state.settings, principal, host, operation, resource_type
            )
        )

    def create_acls(
        self, context: RequestContext, acls: Sequence[Acl]
    ) -> Sequence[Completion[None]]:
        """Create ACLs.

        Return one completion per item, in order, which fails with that item's error.
        """
        assert self._updates is not None, "this authorizer takes no updates"
        return self._updates.create(acls)

    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        """Delete ACLs. Return one completion per filter, in order."""
        assert self._updates is not None, "this authorizer takes no updates"
        return self._updates.delete(filters)

    def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
        """Yield, in slices, the ACLs that ``filter`` matches, all of one snapshot.

        Yield nothing until the ACLs are loaded.
        """
        snapshot = self._snapshot.newest
        if snapshot is not None:
            for found in scan_acls(snapshot, filter):
                yield [acl for _, acl in found]

    def acl_count(self) -> int:
        """Return the number of ACLs, or -1 until they are loaded."""
        snapshot = self._snapshot.newest
        return -1 if snapshot is None else len(snapshot.acls)


def _settings_of(configs: Mapping[str, str]) -> AuthorizerSettings:
    return AuthorizerSettings(
        super_users=super_users(configs.get(SUPER_USERS, "")),
        allow_everyone_if_no_acl_found=boolean(configs.get(ALLOW_EVERYONE, "false")),
    )


def _not_literal(pattern_type: int) -> InvalidQuestionError:
    """Return Kafka's IllegalArgumentException."""
    name = PatternType.read(pattern_type).name
    return InvalidQuestionError(f"Only literal resources are supported. Got: {name}")


def _cannot_be_audited() -> NotReadyError:
    return NotReadyError("the audit log is required, but cannot be written")


def _before_loading(settings: AuthorizerSettings, principal: str) -> Decision:
    if principal in settings.super_users:
        return SUPER_USER
    raise NotReadyError("the ACLs are not loaded yet")
