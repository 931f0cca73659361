"""The ACLs after a planned change: those of a file are added, those of another are removed.

**Invariant:** each ACL to remove is present, or the plan is refused: it was made for other ACLs, or
contains a typo, and a test of it would prove nothing. To add a present ACL changes nothing, as in
Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl, AclAdded, AclRemoved, Change
from authorizerd.acl.snapshot import AclSnapshot, apply_changes
from authorizerd.daemon.errors import StartError


def apply_plan(
    snapshot: AclSnapshot, *, removed: Iterable[Acl] = (), added: Iterable[Acl] = ()
) -> AclSnapshot:
    """Return ``snapshot`` without the removed ACLs, and then with the added ones.

    Raises:
        StartError: an ACL to remove is not present.
    """
    ids = {acl: acl_id for acl_id, acl in snapshot.acls.items()}
    changes: list[Change] = []
    for acl in dict.fromkeys(removed):
        acl_id = ids.pop(acl, None)
        if acl_id is None:
            raise StartError(f"--without: expected ACLs that are present, found {acl}")
        changes.append(AclRemoved(acl_id))
    changes += [AclAdded(derive_id(acl), acl) for acl in dict.fromkeys(added) if acl not in ids]
    return apply_changes(snapshot, changes)
