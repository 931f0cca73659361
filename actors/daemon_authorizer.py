"""An authorizer as the daemon runs it: it also names and counts the rule of each answer.

**Invariant:** one request uses one ``DecisionState``: one snapshot and one set of settings.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

from authorizerd.acl.audit.caller import Requester
from authorizerd.acl.decision import AuthorizerSettings, Decision
from authorizerd.acl.errors import NotReadyError
from authorizerd.acl.model import Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.authorizer import Action, Authorizer, RequestContext
from authorizerd.actors.published import View

KAFKA_SURFACE: Final = "Kafka"


class DecisionState(msgspec.Struct, frozen=True, gc=False):
    """The state that decides one request. ``snapshot`` is None until the ACLs are loaded.

    ``deadline`` is the time until which the snapshot may be used; see
    ``DaemonAuthorizer.has_expired``.
    """

    snapshot: AclSnapshot | None
    settings: AuthorizerSettings
    deadline: float = math.inf

    @property
    def offset(self) -> int:
        """The log offset of the snapshot, or -1."""
        return -1 if self.snapshot is None else self.snapshot.offset


@dataclass(slots=True)
class DecisionCounts:
    """The number of questions that one surface asked, by outcome."""

    allowed: int = 0
    denied: int = 0
    invalid: int = 0
    not_ready: int = 0


class DecisionContext(msgspec.Struct, frozen=True, gc=False):
    """The facts needed to count and audit a decision, besides the question.

    ``counts`` belong to the asking surface. The other fields are for the audit log; the next three
    have the meaning and defaults of ``Action``. ``requester`` is the asking party.
    """

    request_name: str
    counts: DecisionCounts
    resource_reference_count: int = 1
    log_if_allowed: bool = True
    log_if_denied: bool = True
    requester: Requester | None = None


def context_of(action: Action, request: RequestContext, counts: DecisionCounts) -> DecisionContext:
    """Return the context of a decision about ``action``, which ``request`` needs."""
    return DecisionContext(
        request.request_name,
        counts,
        action.resource_reference_count,
        action.log_if_allowed,
        action.log_if_denied,
        request,
    )


AuthorizeFields: TypeAlias = Callable[
    [AclSnapshot | None, AuthorizerSettings, str, str | None, int, int, str], bool
]
"""A function that returns True if a question is allowed; see ``acl.decision.authorize``."""


class DaemonAuthorizer(Authorizer):
    """An authorizer for Kafka listeners, and for the decision surfaces.

    Args:
        snapshot: its offset is reported with the answers.
    """

    is_quick = False
    """True if a decision takes microseconds, so that hundreds fit in one step."""
    names_rules = True
    """True if ``authorize_by`` finds the rules of decisions, for the audit log."""

    def __init__(self, snapshot: View[AclSnapshot | None]) -> None:
        self._snapshot: Final = snapshot
        self._settings = AuthorizerSettings()
        self._counts: Final[dict[str, DecisionCounts]] = {}

    @property
    def counts(self) -> Mapping[str, DecisionCounts]:
        """The counts by surface."""
        return self._counts

    def counts_of(self, surface: str) -> DecisionCounts:
        """Return the counts of one surface, to which its questions are added."""
        return self._counts.setdefault(surface, DecisionCounts())

    @property
    @abstractmethod
    def refusal(self) -> str:
        """Why every decision is refused now, without a final period; empty if any are made.

        **Invariant:** surfaces and /readyz read it here, so that all know every reason. Decisions
        for super users do not count: before the ACLs are loaded, only they get any.
        """

    async def wait_until_applied(self, offset: int) -> None:
        """Return once the log is applied up to ``offset``. This may never happen."""
        await self._snapshot.wait_until(
            lambda newest: newest is not None and newest.offset >= offset
        )

    def current_state(self) -> DecisionState:
        """Return the state for a request that begins now. Use it until the request ends.

        Without a snapshot, it has no deadline: such answers do not depend on the ACLs.
        """
        snapshot, deadline = self._snapshot.read()
        return DecisionState(snapshot, self._settings, math.inf if snapshot is None else deadline)

    def has_expired(self, state: DecisionState) -> bool:
        """Return True if a state is too old for decisions.

        A request that lets other tasks run must ask this, or call ``check_current``, before it
        answers: the process may have been paused in between.
        """
        return self._snapshot.has_passed(state.deadline)

    def seconds_left(self, state: DecisionState) -> float:
        """Return for how long a state may be used."""
        return self._snapshot.seconds_until(state.deadline)

    def check_current(self, state: DecisionState) -> None:
        """Raise NotReadyError if a state has expired since the request began."""
        if self.has_expired(state):
            raise NotReadyError(self.not_ready_reason)

    @abstractmethod
    def decide(
        self, state: DecisionState, question: Question, context: DecisionContext
    ) -> Decision:
        """Return the decision and its rule. Count it, and have it audited.

        Raises:
            NotReadyError: the ACLs are not loaded, and the principal is not a super user; or the
                audit is required and cannot be written.
            InvalidQuestionError: questions about this principal are invalid.
        """

    def authorize_by(
        self, state: DecisionState, request_name: str, requester: Requester | None = None
    ) -> AuthorizeFields:
        """Return a function that answers many questions without naming the rules.

        Its first arguments are the snapshot and the settings of ``state``: so it can be
        ``authorize`` itself. It audits the decisions; the caller counts them. It raises as
        ``decide``.
        """
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
            question = Question(principal, host, operation, resource_type, resource_name)
            return self.decide(state, question, context).allowed

        return is_allowed
