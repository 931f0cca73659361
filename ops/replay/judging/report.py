"""Parts that several results contain: counts of tuples, and the ACLs that judged them."""

from __future__ import annotations

import msgspec

from authorizerd.acl.known_settings import KnownSettings
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.text import format_time


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """A number of distinct tuples, and of the events that they stand for."""

    events: int = 0
    tuples: int = 0


class JudgedBy(msgspec.Struct, frozen=True, kw_only=True):
    """The set of ACLs that judged the requests, and the authorizer's settings; None if unknown."""

    source: str
    digest: str
    offset: int | None
    stamped_at: str | None
    acls: int
    super_users: tuple[str, ...] | None
    allow_everyone_if_no_acl_found: bool | None

    @classmethod
    def of(cls, acl_set: AclSet) -> JudgedBy:
        """Return the description of ``acl_set``."""
        stamped_ms = acl_set.stamped_ms
        return cls(
            source=acl_set.source,
            digest=acl_set.digest,
            offset=acl_set.offset,
            stamped_at=None if stamped_ms is None else format_time(stamped_ms),
            acls=len(acl_set.acls),
            super_users=acl_set.super_users,
            allow_everyone_if_no_acl_found=acl_set.allow_everyone_if_no_acl_found,
        )

    @property
    def known(self) -> KnownSettings:
        """What is known of the settings."""
        users = None if self.super_users is None else frozenset(self.super_users)
        return KnownSettings(users, self.allow_everyone_if_no_acl_found)

    def decides_as(self, other: JudgedBy) -> bool:
        """Return True if both have the same ACLs and the same settings."""
        return self.digest == other.digest and self.known == other.known
