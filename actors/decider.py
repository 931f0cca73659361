"""The interface of decision surfaces: an authorizer that names the rule behind each answer.

**Invariant:** one request uses one ``DecisionState``: one snapshot and one set of settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, Decision
from authorizerd.acl.model import Question
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.actors.authorizer import Action, Authorizer

KAFKA_SURFACE: Final = "Kafka"


class DecisionState(msgspec.Struct, frozen=True, gc=False):
    """The state that decides one request. ``snapshot`` is None until the ACLs are loaded."""

    snapshot: AclSnapshot | None
    settings: AuthorizerSettings

    @property
    def offset(self) -> int:
        return -1 if self.snapshot is None else self.snapshot.offset


@dataclass(slots=True)
class DecisionCounts:
    """The number of questions that one surface asked, by outcome."""

    allowed: int = 0
    denied: int = 0
    invalid: int = 0
    not_ready: int = 0


Judge: TypeAlias = Callable[[str, str | None, int, int, str], bool]
"""A function that returns True if a question, given by its fields, is allowed."""


class Decider(Authorizer, Protocol):
    """An authorizer as decision surfaces use it."""

    @property
    def counts(self) -> Mapping[str, DecisionCounts]:
        """The counts by surface."""

    def counts_of(self, surface: str) -> DecisionCounts:
        """Return the counts of one surface, to which its questions are added."""

    def current_state(self) -> DecisionState:
        """Return the state for a request that begins now.

        It must be used until the request ends.
        """

    async def wait_until_applied(self, offset: int) -> None:
        """Return as soon as the log is applied up to ``offset``. This may never happen."""

    def judge(self, state: DecisionState, request_name: str) -> Judge:
        """Return a fast function for many questions, which answers without the rule.

        It audits the questions, and the caller counts them. It raises as ``decide``.
        """

    def decide(
        self,
        state: DecisionState,
        question: Question,
        request_name: str,
        counts: DecisionCounts,
        action: Action | None = None,
        known: Decision | None = None,
    ) -> Decision:
        """Return the decision and its rule. Count it, and have it audited.

        Args:
            action: details for the audit log beside the question.
            known: the earlier decision of the same state about the question. It is returned, unless
                something other than the state decides.

        Raises:
            NotReadyError: the ACLs are not loaded, and the principal is not a super user.
            InvalidQuestionError: questions about this principal are invalid.
        """
