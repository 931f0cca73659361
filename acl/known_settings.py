"""The known settings of the authorizer. Brokers hide them, so each may be unknown.

**Invariant:** an unknown setting is never assumed to be its default. What ``least`` allows is
allowed for any unknown values. If ``least`` denies, the denial is uncertain: ``doubt_denial`` says
why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.model import Question
from authorizerd.acl.patterns import look_up
from authorizerd.acl.snapshot import AclSnapshot

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


class KnownSettings(msgspec.Struct, frozen=True):
    """The settings that affect decisions; None is an unknown value."""

    super_users: frozenset[str] | None
    allow_everyone_if_no_acl_found: bool | None

    @property
    def least(self) -> AuthorizerSettings:
        """The settings that allow the least: what they allow is certain."""
        return AuthorizerSettings(
            self.super_users or frozenset(), self.allow_everyone_if_no_acl_found is True
        )

    @property
    def most(self) -> AuthorizerSettings:
        """The settings that allow the most, except unknown super users, who could be anybody."""
        return AuthorizerSettings(
            self.super_users or frozenset(), self.allow_everyone_if_no_acl_found is not False
        )

    @property
    def unknown(self) -> tuple[str, ...]:
        """The keys whose values are unknown."""
        values = {
            SUPER_USERS: self.super_users,
            ALLOW_EVERYONE: self.allow_everyone_if_no_acl_found,
        }
        return tuple(key for key, value in values.items() if value is None)

    def is_super_user(self, principal: str) -> bool | None:
        """Return whether the principal is a super user, or None if that is unknown."""
        return None if self.super_users is None else principal in self.super_users

    def may_open(self, snapshot: AclSnapshot, resource_type: int, name: str) -> bool:
        """Return True if it is unknown whether everyone may do everything to a resource."""
        if self.allow_everyone_if_no_acl_found is not None:
            return False
        return not look_up(snapshot.types[resource_type].resources, name)


class Doubt(NamedTuple):
    """The unknown settings that would turn a denial into an allowance.

    Attributes:
        keys: the settings.
        conditions: a clause for each of them.
    """

    keys: tuple[str, ...]
    conditions: tuple[str, ...]

    def __str__(self) -> str:
        """Return the end of a sentence: `` unless …, which is unknown``, or an empty text."""
        if not self.conditions:
            return ""
        return f" unless {' or '.join(self.conditions)}, which is unknown"


NO_DOUBT: Final = Doubt((), ())


def doubt_denial(
    snapshot: AclSnapshot,
    known: KnownSettings,
    principal: str | None,
    resource_type: int,
    resource_name: str,
) -> Doubt:
    """Return why a denial by ``known.least`` is not certain.

    Args:
        principal: None for a principal that neither an ACL nor a setting names.
    """
    doubts: dict[str, str] = {}
    if principal is not None and known.super_users is None:
        doubts[SUPER_USERS] = f"{principal} is a super user"
    if known.may_open(snapshot, resource_type, resource_name):
        doubts[ALLOW_EVERYONE] = f"{ALLOW_EVERYONE} is true"
    return Doubt(tuple(doubts), tuple(doubts.values()))


def doubt_answer(snapshot: AclSnapshot, known: KnownSettings, question: Question) -> Doubt:
    """Return why a denial of ``question`` is not certain; see ``doubt_denial``."""
    return doubt_denial(
        snapshot, known, question.principal, question.resource_type, question.resource_name
    )


def describe_unknown(known: KnownSettings) -> Iterator[str]:
    """Yield a sentence for each unknown setting: what the answer leaves out."""
    if known.super_users is None:
        yield f"{SUPER_USERS} is unknown, so super users are judged by the ACLs alone"
    if known.allow_everyone_if_no_acl_found is None:
        yield f"{ALLOW_EVERYONE} is unknown, and taken to be false"
