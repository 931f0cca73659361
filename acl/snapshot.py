"""The ACLs in force at one metadata offset: an immutable value with its index.

The index is keyed by principal first. Only a principal's own rules and those of ``User:*`` can
allow or deny, so the cost of a decision does not grow with the rules of other principals.

**Invariant:** a snapshot never changes. ``apply_changes`` returns a new one, which shares every
unchanged part with the old one. Its cost does not grow with the number of ACLs.

Source: KIP-801; Kafka 4.3 AclCache.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from immutables import Map

from authorizerd.acl.bits import host_denial_weight, is_unindexed, weight
from authorizerd.acl.denying_hosts import (
    NO_DENYING_HOSTS,
    DenyingHosts,
    add_host,
    is_indexed,
    remove_host,
)
from authorizerd.acl.errors import DuplicateAclError, DuplicateIdError, UnknownIdError
from authorizerd.acl.model import (
    RESOURCE_TYPES,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclAdded,
    Change,
)
from authorizerd.acl.patterns import NO_PATTERNS, Patterns, add_weight, get_weight


class Rules(msgspec.Struct, frozen=True, gc=False):
    """The rules of one principal for one resource type.

    ``hosts`` has the rules for single hosts. For questions with an unknown host, ``host_denials``
    counts the DENY rules in ``hosts``, and ``denying_hosts`` finds one for the explanation to name.
    """

    any_host: Patterns
    hosts: Map[str, Patterns]
    host_denials: Patterns
    denying_hosts: DenyingHosts


NO_HOST_RULES: Final[Map[str, Patterns]] = Map()
NO_RULES: Final = Rules(NO_PATTERNS, NO_HOST_RULES, NO_PATTERNS, NO_DENYING_HOSTS)


class TypeIndex(msgspec.Struct, frozen=True, gc=False):
    """The index of one resource type.

    ``principals`` has every principal except ``User:*``, whose rules are ``everyone``.
    ``resources`` counts the ACLs of each pattern over all principals (for
    allow.everyone.if.no.acl.found).
    """

    principals: Map[str, Rules]
    everyone: Rules
    resources: Patterns


NO_PRINCIPALS: Final[Map[str, Rules]] = Map()
EMPTY_TYPE: Final = TypeIndex(NO_PRINCIPALS, NO_RULES, NO_PATTERNS)


class AclSnapshot(msgspec.Struct, frozen=True, gc=False):
    """Every ACL at ``offset`` (-1 before the first record).

    ``types`` is indexed by resource type code, 0 to 7. ``unindexed`` maps ACLs to their ids if the
    bits of the index cannot identify them, because they use codes of later Kafka versions.
    """

    offset: int
    acls: Map[bytes, Acl]
    types: tuple[TypeIndex, ...]
    unindexed: Map[Acl, bytes]


EMPTY_SNAPSHOT: Final = AclSnapshot(
    offset=-1, acls=Map(), types=(EMPTY_TYPE,) * RESOURCE_TYPES.stop, unindexed=Map()
)


def contains(index: TypeIndex, acl: Acl) -> bool:
    """Return True if ``index`` contains ``acl``, which its bits must be able to identify."""
    rules = rules_of(index, acl.principal)
    patterns = rules.any_host if acl.host == WILDCARD else rules.hosts.get(acl.host, NO_PATTERNS)
    return get_weight(patterns, acl.pattern_type, acl.resource_name) & weight(acl) != 0


def rules_of(index: TypeIndex, principal: str) -> Rules:
    """Return the rules that name exactly ``principal``."""
    if principal == WILDCARD_PRINCIPAL:
        return index.everyone
    return index.principals.get(principal, NO_RULES)


CHANGES_PER_STATE: Final = 32
"""A long batch is applied in parts of this size. The state after each part is kept until the end.

Each state shares nearly everything with the next one, so each is freed quickly. Without the states
in between, freeing one that is ten thousand changes older than the next would block the thread.
"""
STATES_FREED_PER_STEP: Final = 2


def at_offset(snapshot: AclSnapshot, offset: int) -> AclSnapshot:
    """Return the same ACLs at another log offset."""
    return AclSnapshot(offset, snapshot.acls, snapshot.types, snapshot.unindexed)


def apply_changes(snapshot: AclSnapshot, changes: Iterable[Change]) -> AclSnapshot:
    """Return ``snapshot`` with ``changes`` applied in order. The offset stays the same.

    To keep its thread responsive, a caller applies a long batch in parts and publishes the last
    state.

    Raises:
        DuplicateIdError, DuplicateAclError: an added id or binding is already present.
        UnknownIdError: a removed id is absent.
    """
    for change in changes:
        if type(change) is AclAdded:
            snapshot = with_acl(snapshot, change.id, change.acl)
        else:
            snapshot = without_acl(snapshot, change.id)
    return snapshot


def with_acl(snapshot: AclSnapshot, id: bytes, acl: Acl) -> AclSnapshot:
    """Return ``snapshot`` with one more ACL.

    Raises:
        DuplicateIdError, DuplicateAclError: the id or the binding is already present.
    """
    if id in snapshot.acls:
        raise DuplicateIdError(id)
    types = snapshot.types
    unindexed = snapshot.unindexed
    # The bits do not identify these ACLs, so only the map can find a duplicate.
    if is_unindexed(acl) or acl.resource_type not in RESOURCE_TYPES:
        if acl in unindexed:
            raise DuplicateAclError(id, acl)
        unindexed = unindexed.set(acl, id)
    elif contains(types[acl.resource_type], acl):
        raise DuplicateAclError(id, acl)
    return AclSnapshot(
        snapshot.offset, snapshot.acls.set(id, acl), _add_acl_weight(types, acl, 1), unindexed
    )


def without_acl(snapshot: AclSnapshot, id: bytes) -> AclSnapshot:
    """Return ``snapshot`` without the ACL with this id.

    Raises:
        UnknownIdError: no ACL has this id.
    """
    acl = snapshot.acls.get(id)
    if acl is None:
        raise UnknownIdError(id)
    unindexed = snapshot.unindexed
    # The map is usually empty: checking that first saves hashing the ACL.
    if unindexed and acl in unindexed:
        unindexed = unindexed.delete(acl)
    return AclSnapshot(
        snapshot.offset,
        snapshot.acls.delete(id),
        _add_acl_weight(snapshot.types, acl, -1),
        unindexed,
    )


def _add_acl_weight(types: tuple[TypeIndex, ...], acl: Acl, sign: int) -> tuple[TypeIndex, ...]:
    """Return ``types`` with the weights of ``acl`` added (``sign`` 1) or subtracted (-1)."""
    code = acl.resource_type
    if code not in RESOURCE_TYPES:
        return types
    index = types[code]
    principals, everyone = index.principals, index.everyone
    rules = rules_of(index, acl.principal)
    changed = _change_rules(rules, acl, sign * weight(acl), sign * host_denial_weight(acl))
    if acl.principal == WILDCARD_PRINCIPAL:
        everyone = changed
    elif changed is not NO_RULES:
        principals = principals.set(acl.principal, changed)
    # If a principal's only ACL has no weight, the principal is not in the map.
    elif rules is not NO_RULES:
        principals = principals.delete(acl.principal)
    resources = add_weight(index.resources, acl.pattern_type, acl.resource_name, sign)
    return (*types[:code], TypeIndex(principals, everyone, resources), *types[code + 1 :])


def _change_rules(rules: Rules, acl: Acl, rule_weight: int, denial_weight: int) -> Rules:
    if not rule_weight:
        return rules
    pattern_type, name = acl.pattern_type, acl.resource_name
    any_host, hosts, host_denials = rules.any_host, rules.hosts, rules.host_denials
    denying_hosts = rules.denying_hosts
    if acl.host == WILDCARD:
        any_host = add_weight(any_host, pattern_type, name, rule_weight)
    else:
        patterns = add_weight(hosts.get(acl.host, NO_PATTERNS), pattern_type, name, rule_weight)
        is_last = patterns is NO_PATTERNS
        hosts = hosts.delete(acl.host) if is_last else hosts.set(acl.host, patterns)
        if denial_weight:
            host_denials = add_weight(host_denials, pattern_type, name, denial_weight)
        if is_indexed(acl):
            change = add_host if rule_weight > 0 else remove_host
            denying_hosts = change(denying_hosts, acl)
    if any_host is NO_PATTERNS and not hosts:
        return NO_RULES
    return Rules(any_host, hosts, host_denials, denying_hosts)
