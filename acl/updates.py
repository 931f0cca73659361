"""Creations and deletions as plans: what they change, and what each item is answered.

Law: a plan is made against one state and changes nothing by itself. A duplicate is a success that
writes nothing; each filter of a deletion sees the state before the request.

Plans are made in steps (generators that yield between small pieces of work and return the plan),
since one request may hold 10,000 items, and a filter is laid over every ACL.

Source: KIP-140; Kafka 4.3 AclControlManager.createAcls and deleteAcls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from acl.errors import AclError, InvalidAclError, PolicyViolationError
from acl.filters import find_acls
from acl.model import Acl, AclAdded, AclFilter, AclRemoved
from acl.snapshot import AclSnapshot, holds, with_acl, without_acl
from acl.steps import Steps
from acl.validation import validate_filter, validate_new_acl

RECORDS_PER_REQUEST_MAX: Final = 10_000
BYTES_PER_REQUEST_MAX: Final = 8 * 1024 * 1024 - 1024
"""One request is one batch: 8 MiB at most, its header included."""

_RECORD_BYTES_BESIDE_TEXTS: Final = 64
_CREATIONS_PER_STEP: Final = 16

TOO_MANY_CREATED: Final = "Unable to perform excessively large batch operation."
TOO_MANY_REMOVED: Final = (
    f"Cannot remove more than {RECORDS_PER_REQUEST_MAX} acls in a single delete operation."
)


@dataclass(frozen=True, slots=True)
class CreationPlan:
    """``errors`` has one entry an item, None for a success; ``tail`` is the state afterwards."""

    tail: AclSnapshot
    changes: tuple[AclAdded, ...]
    errors: tuple[AclError | None, ...]


@dataclass(frozen=True, slots=True)
class Deleted:
    """What one filter is answered: the ACLs that it meant, or why it could not be used.

    ``failures``: those of ``acls`` that were not deleted, and why; here there are none.
    """

    acls: tuple[Acl, ...] = ()
    error: AclError | None = None
    failures: Mapping[Acl, Exception] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """``results`` has one entry a filter; ``tail`` is the state afterwards."""

    tail: AclSnapshot
    changes: tuple[AclRemoved, ...]
    results: tuple[Deleted, ...]


def plan_creations(
    before: AclSnapshot, acls: Sequence[Acl], new_id: Callable[[], bytes]
) -> Steps[CreationPlan]:
    """Plan one request of creations.

    Args:
        new_id: gives a 16-byte id that no ACL has; a duplicate takes none.
    """
    tail = before
    changes: list[AclAdded] = []
    errors: list[AclError | None] = []
    size = 0
    for number, acl in enumerate(acls, 1):
        error = _creation_error(acl)
        if error is None and not holds(tail.types[acl.resource_type], acl):
            change = AclAdded(new_id(), acl)
            tail = with_acl(tail, change.id, acl)
            changes.append(change)
            size += _record_bytes_max(acl)
            if len(changes) > RECORDS_PER_REQUEST_MAX or size > BYTES_PER_REQUEST_MAX:
                refused = PolicyViolationError(TOO_MANY_CREATED)
                return CreationPlan(before, (), (refused,) * len(acls))
        errors.append(error)
        if number % _CREATIONS_PER_STEP == 0:
            yield
    return CreationPlan(tail, tuple(changes), tuple(errors))


def _record_bytes_max(acl: Acl) -> int:
    texts = (acl.resource_name, acl.principal, acl.host)
    return _RECORD_BYTES_BESIDE_TEXTS + sum(len(text.encode()) for text in texts)


def _creation_error(acl: Acl) -> AclError | None:
    try:
        validate_new_acl(acl)
    except InvalidAclError as error:
        return error
    return None


def plan_deletions(before: AclSnapshot, filters: Sequence[AclFilter]) -> Steps[DeletionPlan]:
    """Plan one request of deletions."""
    removed: dict[bytes, None] = {}
    results: list[Deleted] = []
    for each in filters:
        try:
            validate_filter(each)
        except InvalidAclError as error:
            results.append(Deleted(error=error))
            continue
        found = yield from find_acls(before, each)
        removed.update(dict.fromkeys(acl_id for acl_id, _ in found))
        if len(removed) > RECORDS_PER_REQUEST_MAX:
            refused = Deleted(error=InvalidAclError(TOO_MANY_REMOVED))
            return DeletionPlan(before, (), (refused,) * len(filters))
        results.append(Deleted(tuple(acl for _, acl in found)))
    tail = before
    for number, acl_id in enumerate(removed, 1):
        tail = without_acl(tail, acl_id)
        if number % _CREATIONS_PER_STEP == 0:
            yield
    return DeletionPlan(tail, tuple(map(AclRemoved, removed)), tuple(results))
