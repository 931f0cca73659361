"""Find the ACLs that match a question.

The index has only bits: a matching ACL is rebuilt from the position of its bit. The few
ACLs that bits cannot identify are searched one by one.

Source: KIP-504; Kafka 4.3 StandardAuthorizerData.authorize.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from authorizerd.acl.hosts import applies_to
from authorizerd.acl.index.bits import (
    ALLOWS,
    DENIES,
    HOST_DENIES,
    OPERATION_CODES,
    PLAIN_BITS,
    RANGE_ALLOWS,
    RANGE_DENIES,
    UNJUDGEABLE_BITS,
    allow_bit,
    allowing_operations,
    deny_bit,
    denying_operations,
    is_unindexed,
)
from authorizerd.acl.index.host_index import Hosts
from authorizerd.acl.index.range_index import Network
from authorizerd.acl.model import (
    RESOURCE_TYPES,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    PermissionType,
    Question,
)
from authorizerd.acl.patterns import Leaf, Patterns, find_leaves, matches
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.snapshot import NO_RULES, AclSnapshot, Rules, TypeIndex, rules_of

_ALLOW: Final = int(PermissionType.ALLOW)
_DENY: Final = int(PermissionType.DENY)

APPLIES: Final = tuple(
    (allow | deny) & PLAIN_BITS for allow, deny in zip(ALLOWS, DENIES, strict=True)
)
"""For each operation code of a question: the bits of plain ACLs that allow or deny it."""

APPLICABLE: Final = tuple(
    (
        *((allow_bit(rule), rule, _ALLOW) for rule in allowing_operations(operation)),
        *((deny_bit(rule), rule, _DENY) for rule in denying_operations(operation)),
    )
    for operation in OPERATION_CODES
)
"""For each operation code of a question: the bits that apply, and the operation and permission of
each."""


def matching_acls(snapshot: AclSnapshot, question: Question) -> list[Acl]:
    """Return every ACL that allows or denies the question, in no particular order.

    Only those of ``acl.snapshot.is_grant`` allow it.

    For an unknown host, the result grows with the number of denied hosts.
    """
    acls = _find_matching(snapshot, question)
    index = snapshot.types[question.resource_type]
    if not index.unjudgeable:
        return acls
    return list(dict.fromkeys([*acls, *list_unjudgeable(index, question.resource_name)]))


def list_unjudgeable(index: TypeIndex, name: str) -> list[Acl]:
    """Return the ACLs whose principal has no colon and whose pattern matches ``name``.

    They are in no particular order.
    """
    leaves = find_leaves(index.everyone.any_host, name, UNJUDGEABLE_BITS)
    return [
        acl
        for pattern_name in {pattern_name for _, _, pattern_name in leaves}
        for acl in index.unjudgeable[pattern_name]
        if matches(acl.pattern_type, pattern_name, name)
    ]


def list_sources(rules: Rules, host: str | None) -> list[tuple[str, Patterns]]:
    """Return the hosts of ACLs that match a host, except ranges, with the patterns of each."""
    sources = [(WILDCARD, rules.any_host)]
    if host is not None and host in rules.hosts:
        sources.append((host, rules.hosts[host]))
    return sources


def find_networks(
    rules: Rules, question: Question, releases: ReleaseRules
) -> Iterator[tuple[Network, int]]:
    """Yield the networks that contain the question's host, and the bits of them that apply."""
    if question.host is not None and releases.range_denies:
        mask = HOST_DENIES[question.operation]
        if releases.range_allows:
            mask |= RANGE_ALLOWS[question.operation]
        for network in rules.ranges.find_networks(question.host):
            yield network, mask


def find_range_hosts(
    network: Network, pattern: tuple[int, str], operation: int, releases: ReleaseRules
) -> Iterator[tuple[int, int, Hosts]]:
    """Yield the operation, permission and hosts of the plain ACLs at a pattern of a network."""
    for _, rule, permission in APPLICABLE[operation]:
        if permission == _DENY or releases.range_allows:
            hosts = network.find_hosts(*pattern, rule, permission)
            if hosts:
                yield rule, permission, hosts


def _find_matching(snapshot: AclSnapshot, question: Question) -> list[Acl]:
    """Return the ACLs that allow or deny the question.

    The index yields the plain ACLs. The unindexed ones are searched one by one.
    """
    index, releases = snapshot.types[question.resource_type], snapshot.rules
    acls: list[Acl] = []
    for principal in (question.principal, WILDCARD_PRINCIPAL):
        rules = rules_of(index, principal)
        if rules is NO_RULES:
            continue
        for host, patterns in list_sources(rules, question.host):
            acls += _matching_at(patterns, principal, host, question)
        for network, mask in find_networks(rules, question, releases):
            for leaf in find_leaves(network.patterns, question.resource_name, mask):
                acls += _acls_in_network(network, leaf, principal, question, releases)
        if question.host is None:
            for leaf in leaves_of_hosts(rules, question, releases):
                acls += denials_of_hosts(rules, leaf, principal, question, releases)
    if snapshot.unindexed:
        acls += (acl for acl in snapshot.unindexed if denies_unindexed(acl, question, releases))
    return acls


def _acls_in_network(
    network: Network, leaf: Leaf, principal: str, question: Question, releases: ReleaseRules
) -> Iterator[Acl]:
    """Yield the plain ACLs at one leaf of a network."""
    kind, (_, pattern_type, pattern_name) = question.resource_type, leaf
    pattern = pattern_type, pattern_name
    for rule, permission, hosts in find_range_hosts(network, pattern, question.operation, releases):
        for host in hosts.values():
            yield Acl(kind, pattern_name, pattern_type, principal, host, rule, permission)


def _matching_at(patterns: Patterns, principal: str, host: str, question: Question) -> list[Acl]:
    """Return the plain ACLs of one principal and host that allow or deny the question."""
    operation = question.operation
    mask = APPLIES[operation]
    return [
        Acl(question.resource_type, pattern_name, pattern_type, principal, host, rule, permission)
        for bits, pattern_type, pattern_name in find_leaves(patterns, question.resource_name, mask)
        for bit, rule, permission in APPLICABLE[operation]
        if bits & bit
    ]


def leaves_of_hosts(rules: Rules, question: Question, releases: ReleaseRules) -> list[Leaf]:
    """Return the leaves of ``Rules.host_denials`` by which an unknown host is denied."""
    mask = host_denials(question.operation, releases)
    return find_leaves(rules.host_denials, question.resource_name, mask)


def denials_of_hosts(
    rules: Rules, leaf: Leaf, principal: str, question: Question, releases: ReleaseRules
) -> Iterator[Acl]:
    """Yield the plain ACLs at one leaf that deny for one host; lower operations first."""
    kind, (_, pattern_type, pattern_name) = question.resource_type, leaf
    for rule in denying_operations(question.operation):
        for hosts in denied_hosts_at(rules, (pattern_type, pattern_name, rule), releases):
            for host in hosts.values():
                yield Acl(kind, pattern_name, pattern_type, principal, host, rule, _DENY)


def host_denials(operation: int, releases: ReleaseRules) -> int:
    """Return the bits of ``Rules.host_denials`` by which an unknown host is denied."""
    mask = HOST_DENIES[operation]
    return mask | RANGE_DENIES[operation] if releases.range_denies else mask


def denied_hosts_at(
    rules: Rules, place: tuple[int, str, int], releases: ReleaseRules
) -> Iterator[Hosts]:
    """Yield the hosts that plain ACLs deny at a pattern's type and name, by one operation."""
    for is_range in (False, True) if releases.range_denies else (False,):
        hosts = rules.denying_hosts.get((*place, is_range))
        if hosts is not None:
            yield hosts


def denies_unindexed(acl: Acl, question: Question, releases: ReleaseRules) -> bool:
    """Return True if ``acl`` denies the question and the bits of the index cannot identify it."""
    # The first two tests are the quickest, and most unindexed ACLs fail one of them.
    return (
        acl.resource_type == question.resource_type
        and acl.principal in (question.principal, WILDCARD_PRINCIPAL)
        and acl.resource_type in RESOURCE_TYPES
        and is_unindexed(acl)
        and acl.permission_type != PermissionType.ALLOW
        and acl.operation in denying_operations(question.operation)
        and applies_to(acl.host, question.host, releases, allows=False)
        and matches(acl.pattern_type, acl.resource_name, question.resource_name)
    )
