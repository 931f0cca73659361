"""What a decision surface asks: an authorizer that names the rule behind each of its answers.

Invariant: one request uses one ``Authority``, so one snapshot and one set of settings; a later one
is never mixed in.
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


class Authority(msgspec.Struct, frozen=True, gc=False):
    """What one request is judged by; ``snapshot`` is None until the ACLs are loaded."""

    snapshot: AclSnapshot | None
    settings: AuthorizerSettings

    @property
    def offset(self) -> int:
        return -1 if self.snapshot is None else self.snapshot.offset


@dataclass(slots=True)
class DecisionCounts:
    """How many questions one surface has put, by how they ended."""

    allowed: int = 0
    denied: int = 0
    invalid: int = 0
    not_ready: int = 0


Judge: TypeAlias = Callable[[str, str | None, int, int, str], bool]
"""Says whether a question, given by its fields, is allowed."""


class Decider(Authorizer, Protocol):
    """An authorizer as decision surfaces use it."""

    @property
    def counts(self) -> Mapping[str, DecisionCounts]:
        """The counts by surface."""

    def counts_of(self, surface: str) -> DecisionCounts:
        """Return the counts that one surface has its questions counted in."""

    def newest(self) -> Authority:
        """Return what a request that begins now is judged by, to its end."""

    async def wait_until_applied(self, offset: int) -> None:
        """Return as soon as the log is applied up to ``offset``; for ever, where it never is."""

    def judge(self, authority: Authority, request_name: str) -> Judge:
        """Return what tells whether each of many questions is allowed, without the rule, but fast.

        It has them audited; whoever asks counts them. It raises as ``decide``.
        """

    def decide(
        self,
        authority: Authority,
        question: Question,
        request_name: str,
        counts: DecisionCounts,
        action: Action | None = None,
        known: Decision | None = None,
    ) -> Decision:
        """Return the decision and its rule; count it, and have it audited.

        Args:
            action: what the audit is to know beside the question.
            known: what the same authority has decided of the question before. It is returned,
                where nothing but the authority decides.

        Raises:
            NotReadyError: the ACLs are not loaded, and the principal is no super user.
            InvalidQuestionError: no question can be about this principal.
        """
