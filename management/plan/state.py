"""Tell whether two sets of ACLs are the same, and how far a plan has been carried out, by a digest.

**Invariant:** the digest depends on the bindings only. So it is the same for a log, a daemon and a
broker, although a listing has no ids and a log grows without changes of ACLs. A state is recognized
only if it results from the plan's first changes, in order, and nothing else. So an interrupted plan
continues from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl
from authorizerd.acl.state_version import ID_BYTES, combine_ids
from authorizerd.management.plan.changes import STEPS, AclChanges, AclRequest

COUNT_BYTES: Final = 8
DIGEST_DIGITS: Final = 2 * (ID_BYTES + COUNT_BYTES)


def digest_acls(acls: Iterable[Acl]) -> str:
    return combine_ids(map(derive_id, acls)).hex()


def change_digest(digest: str, changes: AclChanges) -> str:
    """Return the digest after the changes.

    Args:
        digest: of a set with every ACL to delete and none to create.
    """
    changed, count = _decode(digest)
    for acl in (*changes.created, *changes.deleted):
        changed ^= int.from_bytes(derive_id(acl))
    return _encode(changed, max(count + len(changes.created) - len(changes.deleted), 0))


def make_states(digest: str, changes: AclChanges) -> dict[str, int]:
    """Map the digest of each state of a plan to the number of changes made by then."""
    combined, count = _decode(digest)
    states = {digest: 0}
    signed = [(acl, 1) for acl in changes.created] + [(acl, -1) for acl in changes.deleted]
    for made, (acl, sign) in enumerate(signed, 1):
        combined ^= int.from_bytes(derive_id(acl))
        count += sign
        states[_encode(combined, count)] = made
    return states


def skip_changes(changes: AclChanges, made: int) -> AclChanges:
    left = {}
    for step in STEPS:
        acls = changes.acls_of(step)
        left[step] = acls[made:]
        made = max(made - len(acls), 0)
    return AclChanges(**left)


def find_added(digest: str, acls: Mapping[bytes, Acl], found: str) -> list[Acl]:
    """Return the ACLs that were added since a state that is known only by its digest.

    Digests are combined ids. So the difference of two digests reveals the ids of one or two added
    ACLs. If more has changed, nothing is returned.

    Args:
        digest: that of the earlier state.
        acls: the later state, by derived ids.
        found: the digest of the later state.
    """
    (combined, count), (later, later_count) = _decode(digest), _decode(found)
    added = combined ^ later
    if later_count == count + 1:
        acl = acls.get(_id_of(added))
        return [] if acl is None else [acl]
    if later_count == count + 2:
        for acl_id, acl in acls.items():
            other = acls.get(_id_of(added ^ int.from_bytes(acl_id)))
            if other is not None:
                return [acl, other]
    return []


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The changes between two listings, before and after one request.

    Attributes:
        unseen: the request's ACLs that the later listing does not show as created or deleted.
        created, deleted: the changes that are not the request's.
    """

    unseen: tuple[Acl, ...]
    created: tuple[Acl, ...]
    deleted: tuple[Acl, ...]

    @property
    def is_raced(self) -> bool:
        """Whether someone else has changed an ACL."""
        return bool(self.created or self.deleted)


NO_CHANGE: Final = Comparison(unseen=(), created=(), deleted=())


def compare(
    before: Mapping[bytes, Acl], request: AclRequest, after: Mapping[bytes, Acl]
) -> Comparison:
    """Separate a request's changes from those of others, in listings by derived ids."""
    own = {derive_id(acl): acl for acl in request.acls}
    unseen = (acl for acl_id, acl in own.items() if (acl_id in after) is not request.is_creation)
    # Someone may have undone a change of the request: count that as unseen, not also as theirs.
    created = (acl for acl_id, acl in after.items() if not (acl_id in before or acl_id in own))
    deleted = (acl for acl_id, acl in before.items() if not (acl_id in after or acl_id in own))
    return Comparison(unseen=tuple(unseen), created=tuple(created), deleted=tuple(deleted))


def apply_request(acls: Mapping[bytes, Acl], request: AclRequest) -> dict[bytes, Acl]:
    after = dict(acls)
    for acl in request.acls:
        if request.is_creation:
            after[derive_id(acl)] = acl
        else:
            after.pop(derive_id(acl), None)
    return after


def digest_ids(ids: Iterable[bytes]) -> str:
    return combine_ids(ids).hex()


def _decode(digest: str) -> tuple[int, int]:
    """Return the combined ids of a digest, and the number of ACLs."""
    data = bytes.fromhex(digest)
    return int.from_bytes(data[:ID_BYTES]), int.from_bytes(data[ID_BYTES:])


def _encode(combined: int, count: int) -> str:
    return (combined.to_bytes(ID_BYTES) + count.to_bytes(COUNT_BYTES)).hex()


def _id_of(combined: int) -> bytes:
    return combined.to_bytes(ID_BYTES)
