"""A set of ACLs as a value, with its source, its digest and the authorizer's settings.

**Invariant:** sets with equal ACLs have equal digests, whatever their sources and their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Self

import msgspec

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.known_settings import KnownSettings
from authorizerd.acl.model import Acl
from authorizerd.acl.releases import Release


class DatedAcl(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An ACL and the time when the log added it, in milliseconds since 1970; None if unknown."""

    acl: Acl
    added_ms: int | None = None


class AclSet(msgspec.Struct, frozen=True, kw_only=True):
    """The ACLs of ``source``, and the authorizer's settings that apply with them.

    ``offset`` is the metadata offset of this state, ``stamped_ms`` the timestamp of its
    last batch, in milliseconds since 1970. Both are None for a source without offsets. A setting is
    None if it is unknown. ``releases`` are the Kafka releases that may judge.
    """

    source: str
    acls: tuple[DatedAcl, ...]
    digest: str
    offset: int | None = None
    stamped_ms: int | None = None
    super_users: tuple[str, ...] | None = None
    allow_everyone_if_no_acl_found: bool | None = None
    releases: tuple[Release, ...] = tuple(Release)

    @property
    def settings(self) -> AuthorizerSettings:
        """The settings to judge requests by; an unknown one has the value that allows the least."""
        users = None if self.super_users is None else frozenset(self.super_users)
        return KnownSettings(users, self.allow_everyone_if_no_acl_found).least

    def with_acls(self, acls: Iterable[Acl], source: str) -> Self:
        """Return a set of ``acls`` with the same settings and no offset."""
        dated = tuple(DatedAcl(acl) for acl in acls)
        return msgspec.structs.replace(
            self,
            source=source,
            acls=dated,
            digest=digest_of(item.acl for item in dated),
            offset=None,
            stamped_ms=None,
        )


def digest_of(acls: Iterable[Acl]) -> str:
    """Return ``sha256:`` and the hash of the ACLs' canonical lines, sorted, without duplicates."""
    hashed = hashlib.sha256()
    for line in sorted({msgspec.json.encode(acl) for acl in acls}):
        hashed.update(line)
        hashed.update(b"\n")
    return f"sha256:{hashed.hexdigest()}"
