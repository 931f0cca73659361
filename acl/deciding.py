"""Find the ACL that Kafka's audit log names as deciding.

Of many ACLs that match, only a few are built: the patterns of each principal and host are compared
by the bits of their leaves.

Source: KIP-504; Kafka 4.3 StandardAuthorizerData.authorize.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, compress, islice, product
from typing import Final

from authorizerd.acl.index.bits import (
    DENIES,
    HOST_DENIES,
    OPERATION_CODES,
    allowing_operations,
    denying_operations,
    range_allow_bits,
    range_deny_bits,
)
from authorizerd.acl.index.range_index import NO_RANGES, Network
from authorizerd.acl.matching import (
    APPLICABLE,
    APPLIES,
    denials_of_hosts,
    denies_unindexed,
    find_networks,
    leaves_of_hosts,
    list_sources,
    list_unjudgeable,
)
from authorizerd.acl.model import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    Question,
)
from authorizerd.acl.patterns import EVERY_BIT, Leaf, find_leaves, is_wildcard
from authorizerd.acl.releases import ReleaseRules
from authorizerd.acl.snapshot import NO_RULES, AclSnapshot, Rules, TypeIndex, rules_of

_ALLOW: Final = int(PermissionType.ALLOW)
_DENY: Final = int(PermissionType.DENY)

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

_RANGE_RULES: Final = tuple(
    (
        *((range_deny_bits(rule), rule, _DENY) for rule in sorted(denying_operations(operation))),
        *(
            (range_allow_bits(rule), rule, _ALLOW)
            for rule in sorted(allowing_operations(operation), reverse=True)
        ),
    )
    for operation in OPERATION_CODES
)
"""For each operation code of a question: the bits of a network's leaf that apply, and the operation
and permission of each. The first rule that exists decides, as for ``RULE_OF``."""


def choose_deciding(acls: list[Acl], name: str) -> Acl:
    """Return the ACL that decides, of ``acls``, which all match ``name`` and are not empty."""
    if len(acls) == 1:
        return acls[0]
    # Kafka's scan ends at the first DENY, but continues after an ALLOW, so it names the last one.
    # An unknown permission also denies, so `== DENY` would be wrong.
    denying = [acl for acl in acls if acl.permission_type != PermissionType.ALLOW]
    section = wildcard_section(name, denies=bool(denying))
    if denying:
        return min(denying, key=lambda acl: scan_key(acl, section))
    return max(acls, key=lambda acl: scan_key(acl, section))


def wildcard_section(name: str, *, denies: bool) -> int:
    """Return the section of the wildcard's ACLs, as ``scan_key`` needs it.

    Args:
        denies: whether the first DENY is sought, or the last ALLOW.
    """
    if denies:
        return 1 if name != WILDCARD else 0
    return (name > WILDCARD) - (name < WILDCARD)


def scan_key(acl: Acl, wildcard_section: int) -> tuple[int, int, int, int, bytes, bytes, int]:
    """Return a sort key that orders the ACLs matching one name as Kafka's scan meets them.

    Kafka first scans the section of the name (0), longer patterns before shorter ones. It then
    scans downwards from the literal ``*``. For a name that sorts below ``*``, the second scan meets
    the name's section again, so the last ALLOW is in that section (``wildcard_section`` -1). Within
    one pattern, the order is that of StandardAcl.compareTo, which compares texts by UTF-16 units.

    One case is not reproduced: if a pattern of another name sorts between the two sections, Kafka's
    second scan ends early and may name another ALLOW.
    """
    return (
        *_pattern_key(acl.pattern_type, acl.resource_name, wildcard_section),
        Operation.read(acl.operation),
        acl.principal.encode("utf-16-be", "surrogatepass"),
        acl.host.encode("utf-16-be", "surrogatepass"),
        acl.permission_type,
    )


def _pattern_key(pattern_type: int, name: str, wildcard_section: int) -> tuple[int, int, int]:
    """Return the part of a ``scan_key`` that orders the patterns."""
    section = wildcard_section if is_wildcard(pattern_type, name) else 0
    return section, -len(name), PatternType.read(pattern_type)


def find_deciding(snapshot: AclSnapshot, question: Question) -> Acl | None:
    """Return the ACL that decides the question, or None if no ACL matches.

    Of several rules for an unknown host that differ only in their host, it is the first one. Of
    more than HOSTS_COMPARED rules that differ only in how they write a network, it is any.

    Not all matches are compared: there may be hundreds, one for each prefix and operation.
    """
    acls = _find_candidates(snapshot, question)
    return choose_deciding(acls, question.resource_name) if acls else None


def find_unjudgeable(index: TypeIndex, name: str) -> Acl | None:
    """Return the first ACL whose principal has no colon and whose pattern matches ``name``."""
    acls, section = list_unjudgeable(index, name), wildcard_section(name, denies=True)
    return min(acls, key=lambda acl: scan_key(acl, section), default=None)


def _find_candidates(snapshot: AclSnapshot, question: Question) -> list[Acl]:
    """Return the ACLs of which one decides.

    They are the unindexed ones that deny, and, for each principal, the one that would decide alone
    of those for the host ``*``, for a known host, and for ranges.
    """
    index, releases = snapshot.types[question.resource_type], snapshot.rules
    name, kind, operation = question.resource_name, question.resource_type, question.operation
    denies, mask = DENIES[operation], APPLIES[operation]
    acls: list[Acl] = []
    for principal in (question.principal, WILDCARD_PRINCIPAL):
        rules = rules_of(index, principal)
        if rules is NO_RULES:
            continue
        if question.host is None and rules.hosts:
            leaves = leaves_of_hosts(rules, question, releases)
            if leaves:
                leaf = _choose_leaf(leaves, EVERY_BIT, name)
                acls += islice(denials_of_hosts(rules, leaf, principal, question, releases), 1)
        if rules.ranges is not NO_RANGES:  # saves a call
            acls += _find_in_ranges(rules, principal, question, releases)
        for host, patterns in list_sources(rules, question.host):
            leaves = find_leaves(patterns, name, mask)
            if leaves:
                bits, pattern_type, pattern_name = _choose_leaf(leaves, denies, name)
                rule, permission, _ = RULE_OF[bits]
                acls.append(
                    Acl(kind, pattern_name, pattern_type, principal, host, rule, permission)
                )
    if snapshot.unindexed:
        acls += (acl for acl in snapshot.unindexed if denies_unindexed(acl, question, releases))
    return acls


def _choose_leaf(leaves: Sequence[Leaf], denies: int, name: str) -> Leaf:
    """Return the leaf with the ACL that decides, of leaves that match ``name``.

    Args:
        denies: the bits of a leaf that deny.
    """
    if len(leaves) == 1:
        return leaves[0]
    denying = [leaf for leaf in leaves if leaf[0] & denies]
    section = wildcard_section(name, denies=bool(denying))
    if denying:
        return min(denying, key=lambda leaf: _pattern_key(leaf[1], leaf[2], section))
    return max(leaves, key=lambda leaf: _pattern_key(leaf[1], leaf[2], section))


def _find_in_ranges(
    rules: Rules, principal: str, question: Question, releases: ReleaseRules
) -> Iterator[Acl]:
    """Yield the plain ACL that would decide alone, of those for ranges.

    Hundreds of networks may contain the host, and each may have thousands of texts. So the pattern
    and the operation are chosen first, and few hosts are compared.
    """
    name, operation = question.resource_name, question.operation
    denies = HOST_DENIES[operation]
    found: list[tuple[Network, Leaf]] = []
    for network, mask in find_networks(rules, question, releases):
        leaves = find_leaves(network.patterns, name, mask)
        if leaves:
            found.append((network, _choose_leaf(leaves, denies, name)))
    if not found:
        return
    _, pattern_type, pattern_name = _choose_leaf([leaf for _, leaf in found], denies, name)
    bits, networks = 0, []
    for network, leaf in found:
        if leaf[1:] == (pattern_type, pattern_name):
            bits |= leaf[0]
            networks.append(network)
    for mask, rule, permission in _RANGE_RULES[operation]:
        if bits & mask:
            hosts = [
                network.find_hosts(pattern_type, pattern_name, rule, permission)
                for network in networks
            ]
            texts = chain.from_iterable(islice(each.values(), HOSTS_COMPARED) for each in hosts)
            # Kafka reads no range with a character above U+FFFF, so this is Java's order.
            host = (min if permission == _DENY else max)(texts, default=None)
            if host is not None:  # otherwise only unindexed ACLs have these bits
                kind = question.resource_type
                yield Acl(kind, pattern_name, pattern_type, principal, host, rule, permission)
                return
