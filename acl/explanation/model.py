"""The parts of an explanation.

**Invariant:** every part is bounded, and states how much was left out.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from authorizerd.acl.decision import Decision, DefaultRule
from authorizerd.acl.model import Acl, Question


class MatchingAclMeaning(msgspec.Struct, frozen=True, kw_only=True):
    """One ACL that matches the question.

    Attributes:
        allows: whether it allows or denies.
        is_implied: whether its operation is a different one that implies the one asked: READ
            implies DESCRIBE, and ALL implies every operation.
        decides: whether it is the rule of the decision.
        end: when it ends, by whom and why, if it is granted for a limited time.
    """

    acl: Acl
    allows: bool
    is_implied: bool
    decides: bool
    end: str = ""


class PatternCount(msgspec.Struct, frozen=True):
    """A resource pattern, and the number of ACLs that have it, of all principals."""

    pattern_type: int
    name: str
    acl_count: int


class DefaultAccess(msgspec.Struct, frozen=True, kw_only=True):
    """What allow.everyone.if.no.acl.found means for one resource.

    Attributes:
        is_set: whether the setting is true; None if it is unknown.
        acl_count: the number of ACLs whose pattern matches the resource, whatever their principal,
            host and operation. The setting applies only if it is 0.
        patterns: the first of their patterns, in the order of Kafka's scan.
    """

    is_set: bool | None
    acl_count: int
    patterns: tuple[PatternCount, ...]

    @property
    def applies(self) -> bool:
        """Whether everyone is allowed, since the setting is true and no ACL matches."""
        return self.is_set is True and self.acl_count == 0


class AclChange(msgspec.Struct, frozen=True):
    """An ACL to add, or else to remove."""

    adds: bool
    acl: Acl


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The shortest sequence of changes that reverses the answer.

    For an unknown host, the answer is reversed for every host except those that the
    ``stays_denied`` ACLs deny by themselves. An ACL that is added names exactly the principal,
    operation and resource that were asked about. The only exception is the resource ``*``: a
    literal ``*`` would match every name, so the prefix ``*`` is added.

    Attributes:
        listed: the first changes. Empty if no such sequence exists.
        left_out: the number of removals that are not listed.
        reason: why no sequence exists, or None.
        effects: sentences about what else changes, and what does not.
        stays_denied: for an unknown host: the number of DENYs of single hosts that stay.
    """

    listed: tuple[AclChange, ...] = ()
    left_out: int = 0
    reason: str | None = None
    effects: tuple[str, ...] = ()
    stays_denied: int = 0

    @property
    def smallest(self) -> AclChange | None:
        """The change, if a single one suffices."""
        is_single = len(self.listed) == 1 and not self.left_out
        return self.listed[0] if is_single else None


class NearMissKind(StrEnum):
    """The kinds of near misses."""

    RELEASE = "release"
    SINGLE_DENIAL = "single_denial"
    UNKNOWN_HOST = "unknown_host"
    PRINCIPAL = "principal"
    RESOURCE_NAME = "resource_name"
    PATTERN = "pattern"
    HOST = "host"
    OPERATION = "operation"


class NearMiss(msgspec.Struct, frozen=True, kw_only=True):
    """A similar question, or a similar ACL, with which the answer would be allow.

    Attributes:
        text: one sentence.
        acl: the ACL that almost allows, or that alone denies.
        instead: a similar question, which is allowed.
        rewritten: a version of ``acl`` that would allow the question.
    """

    kind: NearMissKind
    text: str
    acl: Acl | None = None
    instead: Question | None = None
    rewritten: Acl | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The reasons for a decision.

    Attributes:
        offset: the log offset of the ACLs.
        acl_count: the number of all ACLs.
        acls: ACLs that match the question, in the order of Kafka's scan. For an unknown host, ACLs
            that differ only in their host are in no particular order.
        acls_left_out: the number of matching ACLs that are not listed.
        near_misses: near misses of a denial, the closest first.
        unsearched: sentences that say what was not searched for near misses.
        releases: the Kafka releases by whose rules the question was decided.
    """

    question: Question
    decision: Decision
    offset: int
    acl_count: int
    acls: tuple[MatchingAclMeaning, ...]
    acls_left_out: int
    default: DefaultAccess
    changes: Changes
    near_misses: tuple[NearMiss, ...] = ()
    unsearched: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()

    @property
    def is_super_user(self) -> bool:
        """Whether the principal is a super user, to whom ACLs do not apply."""
        return self.decision.rule is DefaultRule.SUPER_USER

    @property
    def depends_on_host(self) -> bool:
        """Whether the host is unknown, and the question is denied only from some hosts."""
        return any(miss.kind is NearMissKind.UNKNOWN_HOST for miss in self.near_misses)
