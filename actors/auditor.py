"""The Auditor: it selects the decisions that the audit log contains, and records them.

**Invariant:** denials are never sampled. The level, the filter and the sampling affect only what is
logged, never a decision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from authorizerd.acl.audit.filter import NO_FILTER, AuditFilter, AuditRules, Sampler
from authorizerd.acl.audit.line import AuditLevel, audit_level
from authorizerd.acl.decision import Decision, NamedRule
from authorizerd.acl.errors import NotReadyError
from authorizerd.acl.model import CLUSTER_NAME, Operation, Question, ResourceType
from authorizerd.actors.audit_log import AuditEvent, AuditLog
from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.daemon_authorizer import DecisionContext, DecisionState

_DEFAULT_RULES: Final = AuditRules()
_ALTER_CLUSTER: Final = (int(Operation.ALTER), int(ResourceType.CLUSTER), CLUSTER_NAME)
_WRITTEN: Final = Decision(True, NamedRule("Written"))

NOT_WRITTEN: Final = "the audit log is required, but cannot be written"


class Auditor:
    """Audit decisions by a level and rules, both of which may be changed at any time.

    Args:
        log: gets the selected decisions. While it refuses, ``check`` raises.
        now_s: returns the time in seconds since 1970.
    """

    def __init__(
        self,
        log: AuditLog,
        *,
        level: AuditLevel,
        rules: AuditRules = _DEFAULT_RULES,
        now_s: Callable[[], float],
    ) -> None:
        self.log: Final = log
        self._now_s = now_s
        self._allowed_rate = 1.0
        self._sampler = Sampler(self._allowed_rate)
        self._filter: AuditFilter | None
        self._level: AuditLevel
        self.skips_allowed: bool
        """True if allowed decisions are never recorded. Callers check it first, to save a call."""
        self.reconfigure(level, rules)

    def reconfigure(self, level: AuditLevel, rules: AuditRules) -> None:
        """Use another level and other rules from now on."""
        self._level = level
        self.skips_allowed = level > AuditLevel.DEBUG
        # An unchanged rate keeps its sampler: a new one would begin its sequence again.
        if rules.allowed_rate != self._allowed_rate:
            self._sampler = Sampler(rules.allowed_rate)
        self._allowed_rate = rules.allowed_rate
        self._filter = None if rules.filter == NO_FILTER else rules.filter
        self.log.set_required(rules.is_required)

    def check(self) -> None:
        """Check that a decision may be made now.

        Raises:
            NotReadyError: the audit is required, and the log cannot be written.
        """
        if self.log.is_refusing:
            raise NotReadyError(NOT_WRITTEN)

    def record_written(self, context: RequestContext, offset: int) -> None:
        """Record that a request has changed ACLs, at any level, without filter and sampling.

        Args:
            offset: the last offset of its changes.
        """
        self.log.record(
            AuditEvent(
                self._now_s(),
                AuditLevel.INFO,
                Question(context.principal, context.host, *_ALTER_CLUSTER),
                _WRITTEN,
                context.request_name,
                offset,
                caller=context.audited(),
                written_offset=offset,
            )
        )

    def audit(
        self,
        state: DecisionState,
        question: Question,
        decision: Decision,
        context: DecisionContext,
    ) -> None:
        """Record the decision if it is selected."""
        level = self.select(
            decision.allowed,
            question.principal,
            question.resource_type,
            question.resource_name,
            context,
        )
        if level is not None:
            self.record(level, state, question, decision, context)

    def select(
        self,
        allowed: bool,
        principal: str,
        resource_type: int,
        resource_name: str,
        context: DecisionContext,
    ) -> AuditLevel | None:
        """Return the level at which to record a decision, or None if it is not recorded.

        A decision that the filter or the sampling leaves out is counted. Call this exactly once per
        decision, since each call advances the sampling.
        """
        level = audit_level(allowed, context.log_if_allowed, context.log_if_denied)
        if level < self._level:
            return None
        if self._filter is not None and not self._filter.admits(
            allowed, principal, resource_type, resource_name
        ):
            self.log.statistics.filtered += 1
            return None
        if allowed and self._allowed_rate < 1 and not self._sampler.select_next():
            self.log.statistics.sampled += 1
            return None
        return level

    def record(
        self,
        level: AuditLevel,
        state: DecisionState,
        question: Question,
        decision: Decision,
        context: DecisionContext,
    ) -> None:
        """Pass a selected decision to the log."""
        self.log.record(
            AuditEvent(
                self._now_s(),
                level,
                question,
                decision,
                context.request_name,
                state.offset,
                context.resource_reference_count,
                self._allowed_rate if decision.allowed else 1.0,
                None if context.requester is None else context.requester.audited(),
                () if state.snapshot is None else state.snapshot.rules.releases,
            )
        )
