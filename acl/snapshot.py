"""The ACLs in force at one metadata offset, as one immutable value with its index.

The index is keyed by principal first: only a principal's own rules and those of ``User:*`` can
allow or deny, so what a decision costs does not depend on how many others share a topic.

Law: ``apply`` never changes a snapshot, shares what did not change with the one before, and does
no work that grows with the number of ACLs.

Source: KIP-801; Kafka 4.3 AclCache.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from immutables import Map

from authorizerd.acl.bits import host_denial_weight, is_odd, weight
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
    ChangeBatch,
)
from authorizerd.acl.patterns import NO_PATTERNS, Patterns, add_weight, get_weight


class Rules(msgspec.Struct, frozen=True, gc=False):
    """The rules of one principal for one resource type.

    ``hosts`` holds the rules for single hosts. For a question whose host is unknown,
    ``host_denials`` counts the denials among them, and ``denying_hosts`` finds the rule to name.
    """

    any_host: Patterns
    hosts: Map[str, Patterns]
    host_denials: Patterns
    denying_hosts: DenyingHosts


NO_HOSTS: Final[Map[str, Patterns]] = Map()
NO_RULES: Final = Rules(NO_PATTERNS, NO_HOSTS, NO_PATTERNS, NO_DENYING_HOSTS)


class TypeIndex(msgspec.Struct, frozen=True, gc=False):
    """The index of one resource type.

    ``principals`` lacks ``User:*``, whose rules are ``everyone``; ``resources`` counts the ACLs of
    each pattern, whoever they speak of (for allow.everyone.if.no.acl.found).
    """

    principals: Map[str, Rules]
    everyone: Rules
    resources: Patterns


NO_PRINCIPALS: Final[Map[str, Rules]] = Map()
EMPTY_TYPE: Final = TypeIndex(NO_PRINCIPALS, NO_RULES, NO_PATTERNS)


class AclSnapshot(msgspec.Struct, frozen=True, gc=False):
    """Every ACL at ``offset`` (-1 before the first record).

    ``types`` is indexed by resource type code, 0 to 7. ``odd`` lists the ACLs that no bit of the
    index stands for alone (codes from the future) with their ids.
    """

    offset: int
    acls: Map[bytes, Acl]
    types: tuple[TypeIndex, ...]
    odd: Map[Acl, bytes]


EMPTY_SNAPSHOT: Final = AclSnapshot(
    offset=-1, acls=Map(), types=(EMPTY_TYPE,) * RESOURCE_TYPES.stop, odd=Map()
)


def contains(index: TypeIndex, acl: Acl) -> bool:
    """Say whether a plain ``acl`` (not odd) is in the index of its type."""
    rules = rules_of(index, acl.principal)
    patterns = rules.any_host if acl.host == WILDCARD else rules.hosts.get(acl.host, NO_PATTERNS)
    return get_weight(patterns, acl.pattern_type, acl.resource_name) & weight(acl) != 0


def rules_of(index: TypeIndex, principal: str) -> Rules:
    """Return the rules that name exactly ``principal``."""
    if principal == WILDCARD_PRINCIPAL:
        return index.everyone
    return index.principals.get(principal, NO_RULES)


CHANGES_PER_STATE: Final = 64
STATES_FREED_PER_STEP: Final = 2
"""Many changes are made in parts, and the states in between are kept until all are made. Each
shares nearly all with its neighbours, so freeing them one after the other is short work. Freeing
the first or the last at once, with ten thousand changes between them, would hold the thread."""


def apply(snapshot: AclSnapshot, batch: ChangeBatch) -> AclSnapshot:
    """Return the snapshot that follows ``snapshot`` once ``batch`` is committed.

    Raises:
        DuplicateIdError, DuplicateAclError: an added id or binding is already present.
        UnknownIdError: a removed id is absent.
    """
    assert batch.last_offset > snapshot.offset, "batches are applied in log order"
    return at_offset(apply_changes(snapshot, batch.changes), batch.last_offset)


def at_offset(snapshot: AclSnapshot, offset: int) -> AclSnapshot:
    return AclSnapshot(offset, snapshot.acls, snapshot.types, snapshot.odd)


def apply_changes(snapshot: AclSnapshot, changes: Iterable[Change]) -> AclSnapshot:
    """Return ``snapshot`` with ``changes`` made in order, its offset left as it was.

    A caller that must not hold its thread long applies a batch in pieces, and shows only the last.
    """
    for change in changes:
        if type(change) is AclAdded:
            snapshot = with_acl(snapshot, change.id, change.acl)
        else:
            snapshot = without_acl(snapshot, change.id)
    return snapshot


def with_acl(snapshot: AclSnapshot, id: bytes, acl: Acl) -> AclSnapshot:
    if id in snapshot.acls:
        raise DuplicateIdError(id)
    types = snapshot.types
    odd = snapshot.odd
    if is_odd(acl) or acl.resource_type not in RESOURCE_TYPES:
        if acl in odd:
            raise DuplicateAclError(id, acl)
        odd = odd.set(acl, id)
    elif contains(types[acl.resource_type], acl):
        raise DuplicateAclError(id, acl)
    return AclSnapshot(snapshot.offset, snapshot.acls.set(id, acl), _weighed(types, acl, 1), odd)


def without_acl(snapshot: AclSnapshot, id: bytes) -> AclSnapshot:
    acl = snapshot.acls.get(id)
    if acl is None:
        raise UnknownIdError(id)
    odd = snapshot.odd
    if odd and acl in odd:
        odd = odd.delete(acl)
    return AclSnapshot(
        snapshot.offset, snapshot.acls.delete(id), _weighed(snapshot.types, acl, -1), odd
    )


def _weighed(types: tuple[TypeIndex, ...], acl: Acl, sign: int) -> tuple[TypeIndex, ...]:
    """Return ``types`` with the weights of ``acl`` added (``sign`` 1) or taken away (-1)."""
    code = acl.resource_type
    if code not in RESOURCE_TYPES:
        return types
    index = types[code]
    principals, everyone = index.principals, index.everyone
    rules = rules_of(index, acl.principal)
    changed = _changed(rules, acl, sign * weight(acl), sign * host_denial_weight(acl))
    if acl.principal == WILDCARD_PRINCIPAL:
        everyone = changed
    elif changed is not NO_RULES:
        principals = principals.set(acl.principal, changed)
    elif rules is not NO_RULES:
        principals = principals.delete(acl.principal)
    resources = add_weight(index.resources, acl.pattern_type, acl.resource_name, sign)
    return (*types[:code], TypeIndex(principals, everyone, resources), *types[code + 1 :])


def _changed(rules: Rules, acl: Acl, rule_weight: int, denial_weight: int) -> Rules:
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
