"""The ACLs in force at one metadata offset: an immutable value with its index.

The index is keyed by principal first. Only a principal's own rules and those of ``User:*`` can
allow or deny, so the cost of a decision does not grow with the rules of other principals.

**Invariant:** a snapshot never changes. ``apply_changes`` returns a new one, which shares every
unchanged part with the old one. Its cost does not grow with the number of ACLs.

Source: KIP-801; Kafka 4.3 AclCache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, TypeAlias

import msgspec
from immutables import Map
from msgspec.structs import replace

from authorizerd.acl.errors import DuplicateAclError, DuplicateIdError, UnknownIdError
from authorizerd.acl.host_ranges import HostRange, find_range
from authorizerd.acl.hosts import HostKind, get_kind
from authorizerd.acl.index.bits import PLAIN_BITS, UNJUDGEABLE, Weights, weights_of
from authorizerd.acl.index.host_index import NO_HOST_INDEX, HostIndex, change_hosts, place_denial
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
from authorizerd.acl.patterns import NO_PATTERNS, Patterns, add_weight, add_weights, get_weight
from authorizerd.acl.releases import ANY_RELEASE, ReleaseRules
from authorizerd.acl.state_version import encode_version
from authorizerd.image.errors import ChangeError


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
    denying_hosts: HostIndex
    denials: int


NO_HOST_RULES: Final[Table[str, Patterns]] = EMPTY
NO_RULES: Final = Rules(NO_PATTERNS, NO_HOST_RULES, NO_RANGES, NO_PATTERNS, NO_HOST_INDEX, 0)


Unjudgeable: TypeAlias = Table[str, Table[Acl, None]]
"""ACLs whose principal has no colon, by the name of their pattern.

Kafka fails to judge every resource that such a pattern matches, so nobody is allowed there. The
rules of ``User:*`` have a weight for each of them, ``acl.index.bits.UNJUDGEABLE``.
"""


class TypeIndex(msgspec.Struct, frozen=True, gc=False):
    """The index of one resource type.

    ``principals`` has every principal except ``User:*``, whose rules are ``everyone``.
    ``resources`` counts the ACLs of each pattern over all principals (for
    allow.everyone.if.no.acl.found). ``range_lengths`` counts the principals with ranges, also
    ``User:*``, by the number of prefix lengths that their ranges have.
    """

    principals: Table[str, Rules]
    everyone: Rules
    resources: Patterns
    unjudgeable: Unjudgeable = EMPTY
    range_lengths: Table[int, int] = EMPTY

    @property
    def networks_max(self) -> int:
        """The maximum number of networks that a question looks up for one principal."""
        return max(self.range_lengths, default=0)


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
    code, pattern_type = acl.resource_type, acl.pattern_type
    weights = weights_of(code, pattern_type, acl.operation, acl.permission_type)
    return get_weight(patterns, pattern_type, acl.resource_name) & weights.rule != 0


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

    Changes of ACLs that share principal, host and kind of pattern are applied together. Each change
    of a persistent map copies a path of it, and changes that are applied together share the copies.
    A caller on the event loop applies a few at a time, and frees the intermediate states in order.

    Raises:
        DuplicateIdError, DuplicateAclError: an added id or binding is already present.
        UnknownIdError: a removed id is absent.
    """
    for kind, alike in groupby(changes, type):
        group, sign = [*alike], 1 if kind is AclAdded else -1
        try:
            snapshot = _change_acls(snapshot, group, sign)
        except ChangeError:
            # A later change may have failed first. One by one, the first wrong change fails.
            for change in group:
                snapshot = _change_acls(snapshot, (change,), sign)
            raise
    return snapshot


def _change_acls(snapshot: AclSnapshot, changes: Iterable[Change], sign: int) -> AclSnapshot:
    """Return ``snapshot`` with more ACLs (``sign`` 1), or fewer (-1).

    Raises:
        ChangeError: one or more changes do not fit. Only for a single one, it says how.
    """
    acls, unindexed, combined = snapshot.acls.mutate(), snapshot.unindexed, snapshot.combined_ids
    count = len(acls)
    groups: dict[tuple[int, int, str, str], list[_Weighted]] = {}
    for change in changes:
        key = change.id
        combined ^= int.from_bytes(key)
        if type(change) is AclAdded:
            acls[key] = acl = change.acl
            count += 1
            # Set without checking first, to save a lookup: the length shows whether the id was
            # present.
            if len(acls) != count:
                raise DuplicateIdError(key)
        else:
            found = acls.pop(key, None)
            if found is None:
                raise UnknownIdError(key)
            acl = found
        code, pattern_type = acl.resource_type, acl.pattern_type
        weights = weights_of(code, pattern_type, acl.operation, acl.permission_type)
        if not weights.is_plain:
            # The bits do not identify these ACLs, so only the map can find a duplicate.
            if sign < 0:
                unindexed = unindexed.delete(acl)
            elif acl in unindexed:
                raise DuplicateAclError(key, acl)
            else:
                unindexed = unindexed.set(acl, key)
        if weights.is_typed:
            group = (code, pattern_type, acl.principal, acl.host)
            groups.setdefault(group, []).append((key, acl, weights))
    types = [*snapshot.types]
    for (code, _, _, _), weighted in groups.items():
        types[code] = _change_type(types[code], weighted, sign)
    return AclSnapshot(
        snapshot.offset, acls.finish(), tuple(types), unindexed, snapshot.rules, combined
    )


_Weighted: TypeAlias = tuple[bytes, Acl, Weights]
"""The id, the ACL and its weights. All ACLs of a group have the same resource type, pattern type,
principal and host."""


def _change_type(index: TypeIndex, group: Sequence[_Weighted], sign: int) -> TypeIndex:
    """Return ``index`` with the weights of a group added (``sign`` 1) or subtracted (-1).

    Raises:
        DuplicateAclError: an ACL to add is plain and already present. It names the first of the
            group.
    """
    principals, everyone, (key, first, _) = index.principals, index.everyone, group[0]
    principal = first.principal
    is_everyone = principal == WILDCARD_PRINCIPAL
    rules = everyone if is_everyone else principals.get(principal, NO_RULES)
    changed = _change_rules(rules, group, sign)
    if changed is None:
        raise DuplicateAclError(key, first)
    if is_everyone:
        everyone = changed
    elif changed is not NO_RULES:
        principals = set_entry(principals, principal, changed)
    # If a principal's only ACL has no weight, the principal is not in the table.
    elif rules is not NO_RULES:
        principals = delete_entry(principals, principal)
    lengths = index.range_lengths
    before, after = len(rules.ranges.counts), len(changed.ranges.counts)
    if before != after:
        lengths = change_count(change_count(lengths, before, -1), after, 1)
    added = [(acl.resource_name, sign) for _, acl, _ in group]
    resources = add_weights(index.resources, first.pattern_type, added)
    assert resources is not None, "no bits are unique"
    unjudgeable = index.unjudgeable
    if is_unjudgeable(first):
        for _, acl, _ in group:
            unjudgeable = change_unjudgeable(unjudgeable, acl, sign)
            everyone = _change_everyone(everyone, acl, sign)
    return TypeIndex(principals, everyone, resources, unjudgeable, lengths)


def change_count(counts: Table[int, int], key: int, change: int) -> Table[int, int]:
    """Return ``counts`` with ``change`` added at ``key``. Zeros are not kept, nor the key 0."""
    count = counts.get(key, 0) + change
    if key == 0:
        return counts
    return set_entry(counts, key, count) if count else delete_entry(counts, key)


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
    addresses = find_range(host)
    if addresses is None or addresses.is_empty:
        return None, 0 if get_kind(host) is HostKind.NOTHING else weights.host_denial
    counts = addresses.is_certain or weights.denial
    return addresses if counts else None, weights.range_denial


def _change_rules(rules: Rules, group: Sequence[_Weighted], sign: int) -> Rules | None:
    """Return ``rules`` with the ACLs of a group added (``sign`` 1) or removed (-1).

    Return None if a plain ACL to add is already present.
    """
    group = [each for each in group if each[2].rule]
    if not group:
        return rules
    pattern_type, host = group[0][1].pattern_type, group[0][1].host
    added = [(acl.resource_name, sign * weights.rule) for _, acl, weights in group]
    before = rules.any_host if host == WILDCARD else rules.hosts.get(host, NO_PATTERNS)
    patterns = add_weights(before, pattern_type, added, PLAIN_BITS if sign > 0 else 0)
    if patterns is None:
        return None
    denials = rules.denials + sign * sum([weights.denial for _, _, weights in group])
    if host == WILDCARD:
        if patterns is NO_PATTERNS and not rules.hosts:
            return NO_RULES
        return replace(rules, any_host=patterns, denials=denials)
    is_last = patterns is NO_PATTERNS
    hosts = delete_entry(rules.hosts, host) if is_last else set_entry(rules.hosts, host, patterns)
    if rules.any_host is NO_PATTERNS and not hosts:
        return NO_RULES
    ranges, host_denials, denying_hosts = rules.ranges, rules.host_denials, rules.denying_hosts
    for _, acl, weights in group:
        addresses, denial = place_host(host, weights)
        if addresses is not None:
            ranges = change_range(ranges, addresses, acl, weights, sign)
        if denial:
            change = sign * denial
            host_denials = add_weight(host_denials, pattern_type, acl.resource_name, change)
            if weights.is_plain:
                denying_hosts = change_hosts(denying_hosts, place_denial(acl), host, sign)
    return Rules(rules.any_host, hosts, ranges, host_denials, denying_hosts, denials)
