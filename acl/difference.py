"""Plan the changes that turn the ACLs in force into wanted ones, for a source that lists all ACLs.

**Invariant:** applying the changes to the snapshot gives exactly the wanted ACLs and ids. Removals
come first, so a binding may be removed under one id and added under another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from authorizerd.acl.model import Acl, AclAdded, AclRemoved, Change
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.steps import Steps, in_chunks


class AclsById(Protocol):
    """ACLs by their ids, each binding once. A mapping qualifies."""

    def get(self, acl_id: bytes, /) -> Acl | None:
        """Return the ACL with this id, or None."""

    def items(self) -> Iterable[tuple[bytes, Acl]]:
        """Return each id with its ACL."""


def plan_differences(snapshot: AclSnapshot, wanted: AclsById) -> Steps[list[Change]]:
    """Return, in steps, the changes from ``snapshot`` to ``wanted``; none if they are equal.

    An id whose binding differs is removed and added again.

    Args:
        wanted: the ACLs by their 16-byte ids. They must not change meanwhile.
    """
    changes: list[Change] = []
    for held in in_chunks(snapshot.acls.items()):
        changes += [AclRemoved(acl_id) for acl_id, acl in held if wanted.get(acl_id) != acl]
        yield
    acls = snapshot.acls
    for added in in_chunks(wanted.items()):
        changes += [AclAdded(acl_id, acl) for acl_id, acl in added if acls.get(acl_id) != acl]
        yield
    return changes
