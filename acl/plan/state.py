"""Tell whether two sets of ACLs are the same, wherever they were read from.

**Invariant:** the digest depends on the bindings only. So it is the same for a log, a daemon and a
broker, although a listing has no ids and a log grows without changes of ACLs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl
from authorizerd.acl.plan.changes import AclChanges
from authorizerd.acl.state_version import ID_BYTES, combine_ids

COUNT_BYTES: Final = 8
DIGEST_DIGITS: Final = 2 * (ID_BYTES + COUNT_BYTES)


def digest_acls(acls: Iterable[Acl]) -> str:
    """Return the digest of a set of ACLs, each once and in any order, in hexadecimal digits."""
    return combine_ids(map(derive_id, acls)).hex()


def change_digest(digest: str, changes: AclChanges) -> str:
    """Return the digest after the changes.

    Args:
        digest: that of a set with all deleted ACLs and none of the created ones.
    """
    before = bytes.fromhex(digest)
    changed = int.from_bytes(before[:ID_BYTES])
    for acl in (*changes.created, *changes.deleted):
        changed ^= int.from_bytes(derive_id(acl))
    count = int.from_bytes(before[ID_BYTES:]) + len(changes.created) - len(changes.deleted)
    return (changed.to_bytes(ID_BYTES) + max(count, 0).to_bytes(COUNT_BYTES)).hex()
