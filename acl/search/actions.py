"""What may they do: the operations that a principal may do on one resource."""

from __future__ import annotations

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, everyone_error
from authorizerd.acl.index.bits import ALLOWS, DENIES
from authorizerd.acl.model import WILDCARD_PRINCIPAL, Operation, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.search.hosts import EVERYWHERE, HostAccess
from authorizerd.acl.search.joined_rules import NOTHING_APPLIES, find_access, join_bits
from authorizerd.acl.search.matching_patterns import (
    find_host_bits,
    find_matching_patterns,
    look_up_at,
)
from authorizerd.acl.snapshot import AclSnapshot, rules_of


class ActionAccess(msgspec.Struct, frozen=True, gc=False):
    """An operation, and the hosts from which it is allowed."""

    operation: int
    hosts: HostAccess


def find_actions(
    snapshot: AclSnapshot,
    settings: AuthorizerSettings,
    principal: str,
    resource_type: int,
    resource_name: str,
) -> tuple[ActionAccess, ...]:
    """Return the operations that the principal may do on the resource.

    These are operations that the resource type supports, and that are allowed from some host, in
    the order of their codes.

    Raises:
        InvalidQuestionError: the principal is ``User:*``, which means everyone.
        SearchLimitError: the rules that apply name too many hosts.
    """
    operations = SUPPORTED.get(ResourceType.read(resource_type), ())
    if principal in settings.super_users:
        return tuple(ActionAccess(int(operation), EVERYWHERE) for operation in operations)
    if principal == WILDCARD_PRINCIPAL:
        raise everyone_error()
    index = snapshot.types[resource_type]
    matching = find_matching_patterns(index.resources, resource_name)
    mask = _join_masks(operations)
    sources = []
    for rules in (index.everyone, rules_of(index, principal)):
        hosts = find_host_bits(rules.hosts, matching, mask, snapshot.rules)
        sources.append((look_up_at(rules.any_host, matching), hosts))
    accesses: list[ActionAccess] = []
    for operation in operations:
        joined = NOTHING_APPLIES
        if settings.allow_everyone_if_no_acl_found and not matching.has_acl:
            joined = joined.join(allows=True, denies=False)
        for any_host, hosts in sources:
            joined = join_bits(joined, operation, any_host, hosts)
        access = find_access(joined, snapshot.rules)
        if not access.is_nowhere:
            accesses.append(ActionAccess(int(operation), access))
    return tuple(accesses)


def _join_masks(operations: tuple[Operation, ...]) -> int:
    mask = 0
    for operation in operations:
        mask |= ALLOWS[operation] | DENIES[operation]
    return mask
