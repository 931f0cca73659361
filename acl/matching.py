"""Find the ACLs that match a question, and the ACL that Kafka names as deciding.

The index has only bits: a matching ACL is rebuilt from the position of its bit. The few
ACLs that bits cannot identify are searched one by one.

Source: KIP-504; Kafka 4.3 StandardAuthorizerData.authorize.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, compress, islice, product
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
    Operation,
    PatternType,
    PermissionType,
    Question,
)
from authorizerd.acl.patterns import Leaf, Patterns, find_leaves, is_wildcard, matches
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


HOSTS_COMPARED: Final = 32
"""Of ACLs that differ only in their host, which all name one network, the maximum that a decision
compares. If there are more, it names one of them, which need not be Kafka's."""


def _list_rules() -> Iterator[tuple[int, tuple[int, int, bool]]]:
    for applicable in APPLICABLE:
        for chosen in product((False, True), repeat=len(applicable)):
            rules = list(compress(applicable, chosen))
            denied = [rule for _, rule, permission in rules if permission == _DENY]
            bits = sum(bit for bit, _, _ in rules)
            if denied:
                yield bits, (min(denied), _DENY, False)
            elif rules:
                yield bits, (max(rule for _, rule, _ in rules), _ALLOW, True)


RULE_OF: Final = dict(_list_rules())
"""For the bits of one leaf that apply to a question: the rule that decides.

A rule is its operation, its permission, and whether it allows. Of several rules with one pattern,
principal and host, Kafka's scan meets the one with the lowest operation code first: it names the
first DENY, or else the last ALLOW. Codes that the bits do not identify are not in this table.
"""


def choose_deciding(acls: list[Acl], name: str) -> Acl:
    """Return the ACL that decides, of ``acls``, which all match ``name`` and are not empty."""
    if len(acls) == 1:
        return acls[0]
    # Kafka's scan ends at the first DENY, but continues after an ALLOW, so it names the last one.
    # An unknown permission also denies, so `== DENY` would be wrong.
    denying = [acl for acl in acls if acl.permission_type != PermissionType.ALLOW]
    if denying:
        wildcard_section = 1 if name != WILDCARD else 0
        return min(denying, key=lambda acl: scan_key(acl, wildcard_section))
    wildcard_section = (name > WILDCARD) - (name < WILDCARD)
    return max(acls, key=lambda acl: scan_key(acl, wildcard_section))


def scan_key(acl: Acl, wildcard_section: int) -> tuple[int, int, int, int, bytes, bytes, int]:
    """Return a sort key that orders the ACLs matching one name as Kafka's scan meets them.

    Kafka first scans the section of the name (0), longer patterns before shorter ones. It then
    scans downwards from the literal ``*``. For a name that sorts below ``*``, the second scan meets
    the name's section again, so the last ALLOW is in that section (``wildcard_section`` -1). Within
    one pattern, the order is that of StandardAcl.compareTo, which compares texts by UTF-16 units.

    One case is not reproduced: if a pattern of another name sorts between the two sections, Kafka's
    second scan ends early and may name another ALLOW.
    """
    is_in_wildcard_section = is_wildcard(acl.pattern_type, acl.resource_name)
    return (
        wildcard_section if is_in_wildcard_section else 0,
        -len(acl.resource_name),
        PatternType.read(acl.pattern_type),
        Operation.read(acl.operation),
        acl.principal.encode("utf-16-be", "surrogatepass"),
        acl.host.encode("utf-16-be", "surrogatepass"),
        acl.permission_type,
    )


def matching_acls(snapshot: AclSnapshot, question: Question) -> list[Acl]:
    """Return every ACL that allows or denies the question, in no particular order.

    Only those of ``acl.snapshot.is_grant`` allow it.

    For an unknown host, the result grows with the number of denied hosts.
    """
    acls = _find_matching(snapshot, question, None, None)
    index = snapshot.types[question.resource_type]
    if not index.unjudgeable:
        return acls
    return list(dict.fromkeys([*acls, *list_unjudgeable(index, question.resource_name)]))


def find_deciding(snapshot: AclSnapshot, question: Question) -> Acl | None:
    """Return the ACL that decides the question, or None if no ACL matches.

    Of several rules for an unknown host that differ only in their host, it is the first one. Of
    more than HOSTS_COMPARED rules that differ only in how they write a network, it is any.

    Not all matches are compared: there may be hundreds, one for each prefix and operation.
    """
    name = question.resource_name
    # Only for names after `*` are the leaves in scan order. Unindexed ACLs have no leaves.
    if name > WILDCARD and not snapshot.unindexed:
        acls = _find_candidates(snapshot, question)
    else:
        acls = _find_matching(snapshot, question, 1, HOSTS_COMPARED)
    return choose_deciding(acls, name) if acls else None


def find_unjudgeable(index: TypeIndex, name: str) -> Acl | None:
    """Return the first ACL whose principal has no colon and whose pattern matches ``name``."""
    acls = list_unjudgeable(index, name)
    return min(acls, key=lambda acl: scan_key(acl, 1 if name != WILDCARD else 0), default=None)


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


def _find_candidates(snapshot: AclSnapshot, question: Question) -> list[Acl]:
    """For each principal and host with a matching ACL, return the ACL that would decide alone."""
    index = snapshot.types[question.resource_type]
    name, denies = question.resource_name, DENIES[question.operation]
    mask = APPLIES[question.operation]
    acls: list[Acl] = []
    for principal in (question.principal, WILDCARD_PRINCIPAL):
        rules = rules_of(index, principal)
        if question.host is None and rules.hosts:
            acls += islice(_denials_of_hosts(rules, principal, question, snapshot.rules, 1), 1)
        for network, network_mask in find_networks(rules, question, snapshot.rules):
            leaves = find_leaves(network.patterns, name, network_mask)
            if leaves:
                host_denies = HOST_DENIES[question.operation]
                denying = (leaf for leaf in leaves if leaf[0] & host_denies)
                leaf = next(denying, leaves[-1])
                acls += _acls_in_network(
                    network, leaf, principal, question, snapshot.rules, HOSTS_COMPARED
                )
        for host, patterns in list_sources(rules, question.host):
            leaves = find_leaves(patterns, name, mask)
            if leaves:
                denying = (leaf for leaf in leaves if leaf[0] & denies)
                bits, pattern_type, pattern_name = next(denying, leaves[-1])
                rule, permission, _ = RULE_OF[bits]
                kind = question.resource_type
                acls.append(
                    Acl(kind, pattern_name, pattern_type, principal, host, rule, permission)
                )
    return acls


def _find_matching(
    snapshot: AclSnapshot, question: Question, hosts_max: int | None, ranges_max: int | None
) -> list[Acl]:
    """Return the ACLs that allow or deny the question.

    The index yields the plain ACLs. The unindexed ones are searched one by one.

    Args:
        hosts_max: for an unknown host, the maximum number of denied hosts to return per pattern and
            operation; None returns all.
        ranges_max: the same for a known host, and for each network that contains it.
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
                acls += _acls_in_network(network, leaf, principal, question, releases, ranges_max)
        if question.host is None and rules.hosts:
            acls += _denials_of_hosts(rules, principal, question, releases, hosts_max)
    if snapshot.unindexed:
        acls += (acl for acl in snapshot.unindexed if denies_unindexed(acl, question, releases))
    return acls


def _acls_in_network(
    network: Network, leaf: Leaf, principal: str, question: Question, releases: ReleaseRules,
    hosts_max: int | None,
) -> Iterator[Acl]:  # fmt: skip
    """Yield the plain ACLs at one leaf of a network, at most ``hosts_max`` for each operation."""
    kind, (_, pattern_type, pattern_name) = question.resource_type, leaf
    pattern = pattern_type, pattern_name
    for rule, permission, hosts in find_range_hosts(network, pattern, question.operation, releases):
        for host in islice(hosts.values(), hosts_max):
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


def _denials_of_hosts(
    rules: Rules,
    principal: str,
    question: Question,
    releases: ReleaseRules,
    hosts_max: int | None,
) -> Iterator[Acl]:
    """Yield plain ACLs that deny for one host, at most ``hosts_max`` per leaf and operation.

    They are in the order of Kafka's scan, as ``find_leaves``.
    """
    kind, operation = question.resource_type, question.operation
    for _, pattern_type, pattern_name in find_leaves(
        rules.host_denials, question.resource_name, host_denials(operation, releases)
    ):
        for rule in denying_operations(operation):
            denied = denied_hosts_at(rules, (pattern_type, pattern_name, rule), releases)
            hosts = chain.from_iterable(each.values() for each in denied)
            for host in islice(hosts, hosts_max):
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
