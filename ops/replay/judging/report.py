"""Parts shared by several results: counts of tuples, and the ACLs that judged them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from authorizerd.acl.host_ranges import find_range
from authorizerd.acl.known_settings import KnownSettings, describe_unknown
from authorizerd.acl.model import Acl
from authorizerd.acl.releases import Release
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.text import format_time


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """A number of distinct tuples, and the number of events that they stand for."""

    events: int = 0
    tuples: int = 0


class JudgedBy(msgspec.Struct, frozen=True, kw_only=True):
    """The set of ACLs that judged the requests, and the authorizer's settings; None if unknown.

    ``kafka_releases`` are the releases that may judge; unset if no ACL's host is a range, because
    then all releases agree.
    """

    source: str
    digest: str
    offset: int | None
    stamped_at: str | None
    acls: int
    super_users: tuple[str, ...] | None
    allow_everyone_if_no_acl_found: bool | None
    kafka_releases: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

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
            kafka_releases=name_releases((item.acl for item in acl_set.acls), acl_set.releases),
        )

    @property
    def known(self) -> KnownSettings:
        """The known settings."""
        users = None if self.super_users is None else frozenset(self.super_users)
        return KnownSettings(users, self.allow_everyone_if_no_acl_found)

    def decides_as(self, other: JudgedBy) -> bool:
        """Return True if both have the same ACLs and the same settings."""
        return (
            self.digest == other.digest
            and self.known == other.known
            and self.kafka_releases == other.kafka_releases
        )

    def describe_unknown(self) -> Iterator[str]:
        """Yield a sentence for each unknown setting, and for unknown releases that may differ."""
        yield from describe_unknown(self.known)
        releases = self.kafka_releases
        if releases is not msgspec.UNSET and len(releases) > 1:
            yield (
                "the Kafka release is unknown, and some ACLs have address ranges as hosts, which "
                "only 4.4 matches: pass --kafka-release"
            )


def name_releases(
    acls: Iterable[Acl], releases: Iterable[Release]
) -> tuple[str, ...] | msgspec.UnsetType:
    """Return the releases that may judge, or nothing if they judge these ACLs alike."""
    if not any(find_range(acl.host) is not None for acl in acls):
        return msgspec.UNSET
    return tuple(map(str, releases))
