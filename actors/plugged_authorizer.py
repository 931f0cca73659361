"""A wrapper that makes a third-party authorizer safe for decision surfaces and listeners.

**Invariant:** a fault of the authorizer never ends the daemon and never allows anything. If it
raises an unexpected error (including SystemExit and KeyboardInterrupt), or returns the wrong number
or type of answers, the request is denied and the item fails. Catching BaseException never swallows
trio's Cancelled, since none of these calls awaits anything.

Source: KIP-504 (Authorizer).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from authorizerd.acl.decision import Decision, NamedRule
from authorizerd.acl.errors import InvalidQuestionError, NotReadyError
from authorizerd.acl.model import Acl, AclFilter, Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import Steps
from authorizerd.acl.updates import Deleted
from authorizerd.actors.authorizer import Action, Authorize, Authorizer, RequestContext, ServerInfo
from authorizerd.actors.completion import Completion, ItemCompletions
from authorizerd.actors.daemon_authorizer import (
    KAFKA_SURFACE,
    DaemonAuthorizer,
    DecisionContext,
    DecisionCounts,
    DecisionState,
)
from authorizerd.actors.errors import (
    AuthorizerFaultError,
    EndpointStartError,
    SecurityDisabledError,
)
from authorizerd.actors.plugged_values import (
    check_acl_count,
    check_acl_offset,
    check_answers,
    check_completions,
    check_count,
    check_reason,
    check_slices,
    iterate_safely,
    to_exception,
    with_reason,
)
from authorizerd.actors.published import View
from authorizerd.actors.published_state import NOT_LOADED

Value = TypeVar("Value")

_ANYBODY: Final = "User:ANONYMOUS"
"""A principal that is never a super user, unless everybody is one."""


class PluggedAuthorizer(DaemonAuthorizer):
    """Check every call of a third-party authorizer.

    Args:
        name: the rule that its decisions name.
        snapshot: its offset is reported with the answers.
        on_failure: called with each fault of the authorizer.
    """

    def __init__(
        self,
        authorizer: Authorizer,
        *,
        name: str,
        snapshot: View[AclSnapshot | None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        super().__init__(snapshot)
        self._authorizer = authorizer
        self._on_failure = on_failure
        self._allowed = Decision(True, NamedRule(name))
        self._denied = Decision(False, NamedRule(name))

    def configure(self, configs: Mapping[str, str]) -> None:
        """Configure the authorizer. Any error it raises stops the daemon from starting."""
        self._authorizer.configure(configs)

    def start(self, server_info: ServerInfo) -> Mapping[str, Completion[None]]:
        """Start the authorizer.

        Raises:
            EndpointStartError: it failed, or did not return every endpoint.
        """
        try:
            # Copied here, since reading the authorizer's mapping may also raise an error.
            started = dict(self._authorizer.start(server_info))
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"
            raise EndpointStartError(f"the authorizer could not start: {reason}") from error
        for name in server_info.endpoints:
            if not isinstance(started.get(name), Completion):
                raise EndpointStartError(
                    f"the authorizer returned no completion for endpoint {name}"
                )
        # Other names are dropped: the gate would wait for them before it counts as completely open.
        return {name: started[name] for name in server_info.endpoints}

    def learn_cluster_id(self, cluster_id: str) -> None:
        """Pass on the id of the cluster.

        Raises:
            EndpointStartError: the authorizer failed.
        """
        try:
            self._authorizer.learn_cluster_id(cluster_id)
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"
            raise EndpointStartError(f"the authorizer rejects the cluster id: {reason}") from error

    def serves(self, principal: str) -> bool:
        return self._ask(lambda: self._authorizer.serves(principal) is True, in_doubt=False)

    @property
    def refusal(self) -> str:
        is_serving = self._snapshot.newest is not None and self.serves(_ANYBODY)
        return "" if is_serving else self.not_ready_reason

    @property
    def not_ready_reason(self) -> str:
        return self._ask(
            lambda: check_reason(self._authorizer.not_ready_reason) or NOT_LOADED,
            in_doubt=NOT_LOADED,
        )

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        return self._authorize(self._authorizer.authorize, context, actions)

    def pinned(self) -> Authorize:
        # Unpinned calls may still work.
        unpinned: Authorize = self._authorizer.authorize
        return partial(self._authorize, self._ask(self._authorizer.pinned, in_doubt=unpinned))

    def decide(
        self, state: DecisionState, question: Question, context: DecisionContext
    ) -> Decision:
        """Ask the authorizer, which has its own state, and name it as the rule."""
        action = Action(
            question.operation,
            question.resource_type,
            question.resource_name,
            resource_reference_count=context.resource_reference_count,
            log_if_allowed=context.log_if_allowed,
            log_if_denied=context.log_if_denied,
        )
        request = RequestContext(
            principal=question.principal,
            host=question.host,
            request_name=context.request_name,
            requester=context.requester,
        )
        answer = self._authorize(self._authorizer.authorize, request, [action], context.counts)
        return self._allowed if answer == [True] else self._denied

    def _authorize(
        self,
        authorize: Authorize,
        context: RequestContext,
        actions: Sequence[Action],
        counts: DecisionCounts | None = None,
    ) -> list[bool]:
        counts = counts or self.counts_of(KAFKA_SURFACE)
        try:
            answers = check_answers(authorize(context, actions), actions)
        except NotReadyError as error:
            counts.not_ready += len(actions)
            raise with_reason(error) from error
        except InvalidQuestionError as error:
            counts.invalid += len(actions)
            raise with_reason(error) from error
        except BaseException as error:  # noqa: BLE001 - in doubt, deny
            self._on_failure(error)
            answers = [False] * len(actions)
        allowed = sum(answers)
        counts.allowed += allowed
        counts.denied += len(answers) - allowed
        return answers

    def authorize_by_resource_type(
        self, context: RequestContext, operation: int, resource_type: int
    ) -> Steps[bool]:
        try:
            answer = yield from iterate_safely(
                lambda: self._authorizer.authorize_by_resource_type(
                    context, operation, resource_type
                ),
                NotReadyError,
                InvalidQuestionError,
            )
        except AuthorizerFaultError as fault:  # in doubt, deny
            self._on_failure(fault)
            return False
        return answer is True

    def create_acls(
        self, context: RequestContext, acls: Sequence[Acl]
    ) -> Sequence[Completion[None]]:
        return self._begin(lambda: self._authorizer.create_acls(context, acls), acls)

    def delete_acls(
        self, context: RequestContext, filters: Sequence[AclFilter]
    ) -> Sequence[Completion[Deleted]]:
        return self._begin(lambda: self._authorizer.delete_acls(context, filters), filters, Deleted)

    def _begin(
        self,
        begin: Callable[[], Sequence[Completion[Value]]],
        items: Sequence[object],
        kind: type[Deleted] | None = None,
    ) -> Sequence[Completion[Value]]:
        try:
            completions = check_completions(begin(), kind, self._on_failure)
            check_count(completions, items)
        # Not a fault: listeners answer it with SECURITY_DISABLED.
        except SecurityDisabledError as error:
            raise with_reason(error) from error
        except BaseException as error:  # noqa: BLE001 - fail only this request's items
            self._on_failure(error)
            failed: Completion[Sequence[Value | Exception]] = Completion()
            failed.fail(to_exception(error))
            return ItemCompletions(failed, len(items))
        return completions

    def acls(self, filter: AclFilter) -> Iterator[Sequence[Acl]]:
        """Yield ACLs as ``Authorizer.acls`` does.

        Raises:
            AuthorizerFaultError: the authorizer failed, or returned something other than ACLs.
        """
        passed = (SecurityDisabledError, NotReadyError)
        try:
            for acls in iterate_safely(lambda: self._authorizer.acls(filter), *passed):
                yield from check_slices(acls)
        except AuthorizerFaultError as fault:
            self._on_failure(fault)
            raise

    def acl_offset(self) -> int | None:
        # Without an offset, guards are rejected.
        return self._ask(lambda: check_acl_offset(self._authorizer.acl_offset()), in_doubt=None)

    def acl_count(self) -> int:
        return self._ask(lambda: check_acl_count(self._authorizer.acl_count()), in_doubt=-1)

    @property
    def reconfigurable_configs(self) -> frozenset[str]:
        return self._ask(
            lambda: frozenset(map(str, self._authorizer.reconfigurable_configs)),
            in_doubt=frozenset(),
        )

    def validate_reconfiguration(self, configs: Mapping[str, str]) -> None:
        """Have the authorizer check ``configs``. Convert any error it raises to an Exception."""
        try:
            self._authorizer.validate_reconfiguration(configs)
        # Any Exception may be its rejection of the values, so it is not reported as a failure.
        except Exception:
            raise
        except BaseException as error:
            self._on_failure(error)
            raise to_exception(error) from error

    def reconfigure(self, configs: Mapping[str, str]) -> None:
        # The authorizer has already accepted the values.
        self._ask(lambda: self._authorizer.reconfigure(configs), in_doubt=None)

    def close(self) -> None:
        self._ask(self._authorizer.close, in_doubt=None)

    def _ask(self, call: Callable[[], Value], *, in_doubt: Value) -> Value:
        """Return what ``call`` returns, or ``in_doubt`` if the authorizer fails."""
        try:
            return call()
        except BaseException as error:  # noqa: BLE001 - no fault of a plug-in ends the daemon
            self._on_failure(error)
            return in_doubt
