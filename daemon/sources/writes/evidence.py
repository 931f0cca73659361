"""Find out from the log how a change with an unknown outcome ended.

**Invariant:** a creation succeeds if its binding is visible, even if another writer made it. The
removal of an ACL is never attributed to a request, since another writer may have removed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.filters import scan_acls
from authorizerd.acl.index.filter_index import FilterIndex
from authorizerd.acl.listing import binding_of
from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.snapshot import AclSnapshot, contains
from authorizerd.acl.steps import Steps
from authorizerd.acl.validation import validate_filter, validate_new_acl


class Removals(NamedTuple):
    """The number of ACLs that a filter matched before, and how many of them are gone."""

    matched: int = 0
    gone: int = 0


_NO_REMOVALS: Final = Removals()


def find_created(snapshot: AclSnapshot, acls: Sequence[Acl]) -> Steps[list[bool]]:
    """Return, in steps, for each ACL whether its binding is visible."""
    visible = []
    for acl in acls:
        visible.append(_is_visible(snapshot, acl) is True)
        yield
    return visible


def _is_visible(snapshot: AclSnapshot, acl: Acl) -> bool | None:
    """Return whether a binding is visible, or None if it is invalid."""
    try:
        validate_new_acl(acl)
    except InvalidAclError:
        return None
    return contains(snapshot.types[acl.resource_type], acl)


def are_visible(
    snapshot: AclSnapshot, created: Sequence[Acl], deleted: Sequence[AclFilter]
) -> Steps[bool]:
    """Return, in steps, whether all these changes are visible.

    It is False if that cannot be known: a filter may match several bindings, or invalid ones.
    """
    for acl in created:
        if not _is_visible(snapshot, acl):
            return False
        yield
    for each in deleted:
        binding = binding_of(each)
        if binding is None or _is_visible(snapshot, binding) is not False:
            return False
        yield
    return True


def find_removed(
    before: AclSnapshot, after: AclSnapshot, filters: Sequence[AclFilter]
) -> Steps[list[Removals]]:
    """Return, in steps, the fate of the ACLs that each filter matched before."""
    index = FilterIndex()
    numbers: list[int | None] = []
    for each in filters:
        numbers.append(index.add(each) if _is_valid(each) else None)
        yield
    matched, gone = [0] * index.count, [0] * index.count
    yield from _count(before, after, index, matched, gone)
    return [
        _NO_REMOVALS if number is None else Removals(matched[number], gone[number])
        for number in numbers
    ]


def _count(
    before: AclSnapshot,
    after: AclSnapshot,
    index: FilterIndex,
    matched: list[int],
    gone: list[int],
) -> Steps[None]:
    if not index.count:
        return
    for chunk in scan_acls(before, AclFilter()):
        for acl_id, acl in chunk:
            for number in index.look_up(acl):
                matched[number] += 1
                gone[number] += acl_id not in after.acls
                yield  # one ACL may match very many filters
        yield


def _is_valid(filter: AclFilter) -> bool:
    try:
        validate_filter(filter)
    except InvalidAclError:
        return False
    return True
