"""The StandardAuthorizer: KIP-504's authorizer over the daemon's own snapshot.

**Invariant:** before the ACLs are loaded, only super users get answers, and only early start
listeners are open.

Source: KIP-504 (Authorizer), KIP-801 (loading, early start listeners, AclCount).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.filters import match_acls
from authorizerd.acl.model import Acl, AclFilter, PatternType, Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.updates import Deleted
from authorizerd.actors.auditor import Auditor
from authorizerd.actors.authorizer import Action, Authorize, RequestContext, ServerInfo
from authorizerd.actors.completion import Completion
from authorizerd.actors.decider import (
    KAFKA_SURFACE,
    DecidingAuthorizer,
    DecisionState,
    context_of,
)
from authorizerd.actors.errors import EndpointStartError
from authorizerd.actors.published import View
from authorizerd.actors.record_applier import NOT_LOADED
from authorizerd.actors.standard_decider import (
    ALLOW_EVERYONE,
    SUPER_USERS,
    StandardDecider,
    read_settings,
)
from authorizerd.actors.updates import Updates


class StandardAuthorizer(StandardDecider, DecidingAuthorizer):
    """The built-in authorizer.

    Args:
        updates: makes creations and deletions.
        auditor, why_no_snapshot: see ``StandardDecider``.
    """

    def __init__(
        self,
        snapshot: View[AclSnapshot | None],
        updates: Updates,
        auditor: Auditor | None = None,
        *,
        why_no_snapshot: Callable[[], str] = lambda: NOT_LOADED,
    ) -> None:
        super().__init__(snapshot, auditor, why_no_snapshot=why_no_snapshot)
        self._updates = updates
        self._starting: list[Completion[None]] = []

    def configure(self, configs: Mapping[str, str]) -> None:
        """Set ``super.users`` and ``allow.everyone.if.no.acl.found``.

        Raises:
            ValueError: a value is invalid.
        """
        self.reconfigure(configs)

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

    @property
    def reconfigurable_configs(self) -> frozenset[str]:
        return frozenset((SUPER_USERS, ALLOW_EVERYONE))

    def validate_reconfiguration(self, configs: Mapping[str, str]) -> None:
        """Raise ValueError if ``reconfigure`` would."""
        read_settings(configs)

    def serves(self, principal: str) -> bool:
        """Return True if this principal gets answers now.

        Before loading, only super users get answers. While the audit is required but cannot be
        written, nobody does.
        """
        if self._auditor is not None and self._auditor.log.is_refusing:
            return False
        return self._snapshot.newest is not None or principal in self._settings.super_users

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        """Return for each action, in order, whether it is allowed. All answers use one snapshot.

        Raises:
            NotReadyError: as ``decide``.
            InvalidQuestionError: as ``decide``; or a pattern is not literal.
        """
        return self._authorize(self.current_state(), context, actions)

    def pinned(self) -> Authorize:
        """Return an ``authorize`` whose calls all use the current snapshot."""
        return partial(self._authorize_pinned, self.current_state())

    def _authorize_pinned(
        self, state: DecisionState, context: RequestContext, actions: Sequence[Action]
    ) -> list[bool]:
        self.check_current(state)
        return self._authorize(state, context, actions)

    def _authorize(
        self, state: DecisionState, context: RequestContext, actions: Sequence[Action]
    ) -> list[bool]:
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

    def create_acls(
        self, context: RequestContext, acls: Sequence[Acl]
    ) -> Sequence[Completion[None]]:
        """Create ACLs.

        Return one completion per item, in order, which fails with that item's error.
        """
        return self._updates.create(acls, context)

    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        """Delete ACLs. Return one completion per filter, in order."""
        return self._updates.delete(filters, context)

    def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
        """Yield, in slices, the ACLs that ``filter`` matches, all of one snapshot.

        Yield nothing until the ACLs are loaded, as Kafka does.

        Raises:
            NotReadyError: decisions are stopped; an empty listing would mean that there are none.
        """
        state = self.current_state()
        if state.snapshot is not None:
            for some in match_acls(state.snapshot, filter):
                self.check_current(state)
                yield some
        elif self.not_ready_reason != NOT_LOADED:
            raise NotReadyError(self.not_ready_reason)

    def acl_offset(self) -> int | None:
        """Return the snapshot's log offset, or None if the ACLs are changed elsewhere, too."""
        snapshot = self._snapshot.newest
        return snapshot.offset if snapshot is not None and self._updates.checks_guards else None

    def acl_count(self) -> int:
        """Return the number of ACLs, or -1 until they are loaded."""
        snapshot = self._snapshot.newest
        return -1 if snapshot is None else len(snapshot.acls)


def _not_literal(pattern_type: int) -> InvalidQuestionError:
    """Return Kafka's IllegalArgumentException."""
    name = PatternType.read(pattern_type).name
    return InvalidQuestionError(f"Only literal resources are supported. Got: {name}")
