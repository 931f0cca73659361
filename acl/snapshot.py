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

from authorizerd.acl.bits import Weights, weights_of
from authorizerd.acl.denying_hosts import (
    NO_DENYING_HOSTS,
    DenyingHosts,
    add_host,
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
from authorizerd.acl.tables import EMPTY, Table, delete_entry, set_entry


class Rules(msgspec.Struct, frozen=True, gc=False):
    """The rules of one principal for one resource type.

    ``hosts`` has the rules for single hosts. For questions with an unknown host, ``host_denials``
    counts the DENY rules in ``hosts``, and ``denying_hosts`` finds one for the explanation to name.
    ``denials`` counts all DENY rules: if there is none, the first matching ALLOW decides.
    """

    any_host: Patterns
    hosts: Table[str, Patterns]
    host_denials: Patterns
    denying_hosts: DenyingHosts
    denials: int


NO_HOST_RULES: Final[Table[str, Patterns]] = EMPTY
NO_RULES: Final = Rules(NO_PATTERNS, NO_HOST_RULES, NO_PATTERNS, NO_DENYING_HOSTS, 0)


class TypeIndex(msgspec.Struct, frozen=True, gc=False):
    """The index of one resource type.

    ``principals`` has every principal except ``User:*``, whose rules are ``everyone``.
    ``resources`` counts the ACLs of each pattern over all principals (for
    allow.everyone.if.no.acl.found).
    """

    principals: Table[str, Rules]
    everyone: Rules
    resources: Patterns


NO_PRINCIPALS: Final[Table[str, Rules]] = EMPTY
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
    weights = _weights_of(acl)
    return get_weight(patterns, acl.pattern_type, acl.resource_name) & weights.rule != 0


def _weights_of(acl: Acl) -> Weights:
    return weights_of(acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type)


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
    acls = snapshot.acls.set(id, acl)
    # Set without looking first, to save a lookup: the length shows if the id was present.
    if len(acls) == len(snapshot.acls):
        raise DuplicateIdError(id)
    types = snapshot.types
    unindexed = snapshot.unindexed
    weights = _weights_of(acl)
    if weights.is_plain:
        if contains(types[acl.resource_type], acl):
            raise DuplicateAclError(id, acl)
    else:
        # The bits do not identify these ACLs, so only the map can find a duplicate.
        if acl in unindexed:
            raise DuplicateAclError(id, acl)
        unindexed = unindexed.set(acl, id)
    return AclSnapshot(snapshot.offset, acls, _add_acl(types, acl, weights, 1), unindexed)


def without_acl(snapshot: AclSnapshot, id: bytes) -> AclSnapshot:
    """Return ``snapshot`` without the ACL with this id.

    Raises:
        UnknownIdError: no ACL has this id.
    """
    acl = snapshot.acls.get(id)
    if acl is None:
        raise UnknownIdError(id)
    unindexed = snapshot.unindexed
    weights = _weights_of(acl)
    if not weights.is_plain:
        unindexed = unindexed.delete(acl)
    types = _add_acl(snapshot.types, acl, weights, -1)
    return AclSnapshot(snapshot.offset, snapshot.acls.delete(id), types, unindexed)


def _add_acl(
    types: tuple[TypeIndex, ...], acl: Acl, weights: Weights, sign: int
) -> tuple[TypeIndex, ...]:
    """Return ``types`` with the weights of ``acl`` added (``sign`` 1) or subtracted (-1)."""
    code = acl.resource_type
    if code not in RESOURCE_TYPES:
        return types
    index = types[code]
    principals, everyone, principal = index.principals, index.everyone, acl.principal
    is_everyone = principal == WILDCARD_PRINCIPAL
    rules = everyone if is_everyone else principals.get(principal, NO_RULES)
    changed = _change_rules(rules, acl, weights, sign) if weights.rule else rules
    if is_everyone:
        everyone = changed
    elif changed is not NO_RULES:
        principals = set_entry(principals, principal, changed)
    # If a principal's only ACL has no weight, the principal is not in the table.
    elif rules is not NO_RULES:
        principals = delete_entry(principals, principal)
    resources = add_weight(index.resources, acl.pattern_type, acl.resource_name, sign)
    return (*types[:code], TypeIndex(principals, everyone, resources), *types[code + 1 :])


def _change_rules(rules: Rules, acl: Acl, weights: Weights, sign: int) -> Rules:
    pattern_type, name = acl.pattern_type, acl.resource_name
    any_host, hosts, host_denials = rules.any_host, rules.hosts, rules.host_denials
    denying_hosts = rules.denying_hosts
    rule_weight = sign * weights.rule
    if acl.host == WILDCARD:
        any_host = add_weight(any_host, pattern_type, name, rule_weight)
    else:
        patterns = add_weight(hosts.get(acl.host, NO_PATTERNS), pattern_type, name, rule_weight)
        is_last = patterns is NO_PATTERNS
        hosts = delete_entry(hosts, acl.host) if is_last else set_entry(hosts, acl.host, patterns)
        if weights.denial:
            host_denials = add_weight(host_denials, pattern_type, name, sign * weights.host_denial)
            if weights.is_plain:
                change = add_host if sign > 0 else remove_host
                denying_hosts = change(denying_hosts, acl)
    if any_host is NO_PATTERNS and not hosts:
        return NO_RULES
    denials = rules.denials + sign * weights.denial
    return Rules(any_host, hosts, host_denials, denying_hosts, denials)
