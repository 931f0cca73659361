"""The ACLs in force at one metadata offset: an immutable value with its index.

The index is keyed by principal first. Only a principal's own rules and those of ``User:*`` can
allow or deny, so the cost of a decision does not grow with the rules of other principals.

**Invariant:** a snapshot never changes. ``apply_changes`` returns a new one, which shares every
unchanged part with the old one. Its cost does not grow with the number of ACLs.

Source: KIP-801; Kafka 4.3 AclCache.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec
from immutables import Map
from msgspec.structs import replace

from authorizerd.acl.errors import DuplicateAclError, DuplicateIdError, UnknownIdError
from authorizerd.acl.host_ranges import HostRange, find_range
from authorizerd.acl.hosts import HostKind, get_kind
from authorizerd.acl.index.bits import UNJUDGEABLE, Weights, weight, weights_of
from authorizerd.acl.index.denying_hosts import (
    NO_DENYING_HOSTS,
    DenyingHosts,
    add_host,
    remove_host,
)
from authorizerd.acl.index.range_index import NO_RANGES, Ranges, change_range
from authorizerd.acl.index.tables import EMPTY, Table, delete_entry, set_entry
from authorizerd.acl.model import (
    RESOURCE_TYPES,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclAdded,
    Change,
    PermissionType,
)
from authorizerd.acl.patterns import NO_PATTERNS, Patterns, add_weight, get_weight, set_weight
from authorizerd.acl.releases import ANY_RELEASE, ReleaseRules
from authorizerd.acl.state_version import encode_version


class Rules(msgspec.Struct, frozen=True, gc=False):
    """The rules of one principal for one resource type.

    ``hosts`` has the rules for each other host, by its text; ``ranges`` has those for ranges of
    addresses again, by network. For questions with an unknown host, ``host_denials`` counts the
    DENY rules in ``hosts`` that can match a host, and ``denying_hosts`` finds one for the
    explanation to name. ``denials`` counts all DENY rules: if there is none, the first matching
    ALLOW decides.
    """

    any_host: Patterns
    hosts: Table[str, Patterns]
    ranges: Ranges
    host_denials: Patterns
    denying_hosts: DenyingHosts
    denials: int


NO_HOST_RULES: Final[Table[str, Patterns]] = EMPTY
NO_RULES: Final = Rules(NO_PATTERNS, NO_HOST_RULES, NO_RANGES, NO_PATTERNS, NO_DENYING_HOSTS, 0)


Unjudgeable: TypeAlias = Table[str, Table[Acl, None]]
"""ACLs whose principal has no colon, by the name of their pattern.

Kafka fails to judge every resource that such a pattern matches, so nobody is allowed there. The
rules of ``User:*`` have a weight for each of them, ``acl.index.bits.UNJUDGEABLE``.
"""


class TypeIndex(msgspec.Struct, frozen=True, gc=False):
    """The index of one resource type.

    ``principals`` has every principal except ``User:*``, whose rules are ``everyone``.
    ``resources`` counts the ACLs of each pattern over all principals (for
    allow.everyone.if.no.acl.found).
    """

    principals: Table[str, Rules]
    everyone: Rules
    resources: Patterns
    unjudgeable: Unjudgeable = EMPTY


NO_PRINCIPALS: Final[Table[str, Rules]] = EMPTY
EMPTY_TYPE: Final = TypeIndex(NO_PRINCIPALS, NO_RULES, NO_PATTERNS)


class AclSnapshot(msgspec.Struct, frozen=True, gc=False):
    """Every ACL at ``offset`` (-1 before the first record).

    ``types`` is indexed by resource type code. ``unindexed`` maps ACLs to their ids if the bits of
    the index cannot identify them, because they use codes of later Kafka versions. ``rules`` come
    from the Kafka releases that may judge; until these are known, the strictest apply.
    ``combined_ids`` are the ids of all ACLs, combined as by ``acl.state_version.combine_ids``.
    """

    offset: int
    acls: Map[bytes, Acl]
    types: tuple[TypeIndex, ...]
    unindexed: Map[Acl, bytes]
    rules: ReleaseRules = ANY_RELEASE
    combined_ids: int = 0

    @property
    def version(self) -> bytes:
        """A value that identifies the set of ACLs, whatever its log offset."""
        return encode_version(self.combined_ids, len(self.acls))


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


def at_offset(snapshot: AclSnapshot, offset: int) -> AclSnapshot:
    """Return the same ACLs at another log offset."""
    return AclSnapshot(
        offset,
        snapshot.acls,
        snapshot.types,
        snapshot.unindexed,
        snapshot.rules,
        snapshot.combined_ids,
    )


def with_rules(snapshot: AclSnapshot, rules: ReleaseRules) -> AclSnapshot:
    """Return the same ACLs, judged by the rules of other Kafka releases."""
    if snapshot.rules == rules:
        return snapshot
    return replace(snapshot, rules=rules)


def apply_changes(snapshot: AclSnapshot, changes: Iterable[Change]) -> AclSnapshot:
    """Return ``snapshot`` with ``changes`` applied in order. The offset stays the same.

    A caller on the event loop applies a few at a time, and frees the intermediate states in order.

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
    # Set without checking first, to save a lookup: the length shows whether the id was present.
    if len(acls) == len(snapshot.acls):
        raise DuplicateIdError(id)
    weights = weights_of(acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type)
    unindexed = snapshot.unindexed
    if not weights.is_plain:
        # The bits do not identify these ACLs, so only the map can find a duplicate.
        if acl in unindexed:
            raise DuplicateAclError(id, acl)
        unindexed = unindexed.set(acl, id)
    types = _change_types(snapshot.types, acl, weights, 1)
    if types is None:
        raise DuplicateAclError(id, acl)
    combined = snapshot.combined_ids ^ int.from_bytes(id)
    return AclSnapshot(snapshot.offset, acls, types, unindexed, snapshot.rules, combined)


def without_acl(snapshot: AclSnapshot, id: bytes) -> AclSnapshot:
    """Return ``snapshot`` without the ACL with this id.

    Raises:
        UnknownIdError: no ACL has this id.
    """
    acl = snapshot.acls.get(id)
    if acl is None:
        raise UnknownIdError(id)
    weights = weights_of(acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type)
    unindexed = snapshot.unindexed
    if not weights.is_plain:
        unindexed = unindexed.delete(acl)
    types = _change_types(snapshot.types, acl, weights, -1)
    assert types is not None, "only an addition can be a duplicate"
    acls = snapshot.acls.delete(id)
    combined = snapshot.combined_ids ^ int.from_bytes(id)
    return AclSnapshot(snapshot.offset, acls, types, unindexed, snapshot.rules, combined)


def _change_types(
    types: tuple[TypeIndex, ...], acl: Acl, weights: Weights, sign: int
) -> tuple[TypeIndex, ...] | None:
    """Return ``types`` with the weights of ``acl`` added (``sign`` 1) or subtracted (-1).

    Return None if the ACL to add is plain and already present.
    """
    if not weights.is_typed:
        return types
    code = acl.resource_type
    index = types[code]
    principals, everyone, principal = index.principals, index.everyone, acl.principal
    is_everyone = principal == WILDCARD_PRINCIPAL
    rules = everyone if is_everyone else principals.get(principal, NO_RULES)
    changed = _change_rules(rules, acl, weights, sign) if weights.rule else rules
    if changed is None:
        return None
    if is_everyone:
        everyone = changed
    elif changed is not NO_RULES:
        principals = set_entry(principals, principal, changed)
    # If a principal's only ACL has no weight, the principal is not in the table.
    elif rules is not NO_RULES:
        principals = delete_entry(principals, principal)
    resources = add_weight(index.resources, acl.pattern_type, acl.resource_name, sign)
    unjudgeable = index.unjudgeable
    if is_unjudgeable(acl):
        unjudgeable = change_unjudgeable(unjudgeable, acl, sign)
        everyone = _change_everyone(everyone, acl, sign)
    indexes = list(types)
    indexes[code] = TypeIndex(principals, everyone, resources, unjudgeable)
    return tuple(indexes)


def is_unjudgeable(acl: Acl) -> bool:
    """Return True if Kafka cannot judge the resources that the pattern of ``acl`` matches."""
    return ":" not in acl.principal


def is_grant(acl: Acl) -> bool:
    """Return True if ``acl`` can only allow.

    An unknown permission denies, and so does any ACL that Kafka cannot judge.
    """
    return acl.permission_type == PermissionType.ALLOW and not is_unjudgeable(acl)


def change_unjudgeable(unjudgeable: Unjudgeable, acl: Acl, sign: int) -> Unjudgeable:
    """Return ``unjudgeable`` with ``acl`` (``sign`` 1), or without it (-1)."""
    name = acl.resource_name
    acls: Table[Acl, None] = unjudgeable.get(name, EMPTY)
    acls = set_entry(acls, acl, None) if sign > 0 else delete_entry(acls, acl)
    return set_entry(unjudgeable, name, acls) if acls else delete_entry(unjudgeable, name)


def _change_everyone(everyone: Rules, acl: Acl, sign: int) -> Rules:
    """Return the rules of ``User:*`` with one more or one less ACL that Kafka cannot judge."""
    weight = sign * UNJUDGEABLE
    any_host = add_weight(everyone.any_host, acl.pattern_type, acl.resource_name, weight)
    if any_host is NO_PATTERNS and not everyone.hosts:
        return NO_RULES
    return replace(everyone, any_host=any_host, denials=everyone.denials + sign)


def place_host(host: str, weights: Weights) -> tuple[HostRange | None, int]:
    """Return where an ACL's rule counts besides its host's text, if the host is not ``*``.

    Return the range whose network it is added to, or None, and its weight in ``host_denials``. An
    ALLOW for a range that only a broker can judge is added to no network.
    """
    kind = get_kind(host)
    if kind is not HostKind.RANGE:
        return None, 0 if kind is HostKind.NOTHING else weights.host_denial
    addresses = find_range(host)
    assert addresses is not None, "the host is a range"
    counts = addresses.is_certain or weights.denial
    return addresses if counts else None, weights.range_denial


def _change_rules(rules: Rules, acl: Acl, weights: Weights, sign: int) -> Rules | None:
    """Return ``rules`` with one more or one less ACL. See ``_change_types``."""
    pattern_type, name, host = acl.pattern_type, acl.resource_name, acl.host
    patterns = rules.any_host if host == WILDCARD else rules.hosts.get(host, NO_PATTERNS)
    before = get_weight(patterns, pattern_type, name)
    if sign > 0 and weights.is_plain and before & weights.rule:
        return None
    patterns = set_weight(patterns, pattern_type, name, before + sign * weights.rule)
    denials = rules.denials + sign * weights.denial
    if host == WILDCARD:
        if patterns is NO_PATTERNS and not rules.hosts:
            return NO_RULES
        return replace(rules, any_host=patterns, denials=denials)
    is_last = patterns is NO_PATTERNS
    hosts = delete_entry(rules.hosts, host) if is_last else set_entry(rules.hosts, host, patterns)
    if rules.any_host is NO_PATTERNS and not hosts:
        return NO_RULES
    ranges, host_denials, denying_hosts = rules.ranges, rules.host_denials, rules.denying_hosts
    addresses, denial = place_host(host, weights)
    if addresses is not None:
        ranges = change_range(ranges, addresses, acl, weights.in_range, sign)
    if denial:
        host_denials = add_weight(host_denials, pattern_type, name, sign * denial)
        if weights.is_plain:
            denying_hosts = (add_host if sign > 0 else remove_host)(denying_hosts, acl)
    return Rules(rules.any_host, hosts, ranges, host_denials, denying_hosts, denials)
