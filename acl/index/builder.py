"""Build a snapshot in bulk, to load a whole log.

**Invariant:** a frozen builder equals the snapshot that results from applying the same changes one
by one.

Freezing works in chunks, and dicts with very many keys are in parts, so that a process that loads
millions of ACLs still answers super users and shows that it is alive.
"""

from __future__ import annotations

from collections.abc import Iterable

from immutables import Map, MapMutation
from msgspec.structs import force_setattr

from authorizerd.acl.errors import DuplicateAclError, DuplicateIdError, UnknownIdError
from authorizerd.acl.index.bits import UNJUDGEABLE, Weights, weights_of
from authorizerd.acl.index.host_index import NO_HOST_INDEX, change_hosts, place_denial
from authorizerd.acl.index.patterns_builder import PatternsBuilder, ResourcesBuilder
from authorizerd.acl.index.range_index import NO_RANGES, change_range
from authorizerd.acl.index.tables import (
    EMPTY,
    PARTS,
    Growing,
    Parts,
    Table,
    freeze,
    grow,
    new_parts,
    pop_all,
)
from authorizerd.acl.model import (
    RESOURCE_TYPES,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclAdded,
    Change,
)
from authorizerd.acl.patterns import NO_PATTERNS, Patterns
from authorizerd.acl.snapshot import (
    NO_RULES,
    AclSnapshot,
    Rules,
    TypeIndex,
    Unjudgeable,
    change_count,
    change_unjudgeable,
    is_unjudgeable,
    place_host,
)
from authorizerd.acl.steps import Steps, finish


class _RulesBuilder:
    """A mutable ``Rules``."""

    __slots__ = (
        "any_host",
        "denials",
        "denying_hosts",
        "host_denials",
        "hosts",
        "is_unjudgeable",
        "principal",
        "ranges",
    )

    def __init__(self, principal: str) -> None:
        self.principal = principal
        self.is_unjudgeable = False
        self.any_host = PatternsBuilder()
        self.hosts: dict[str, PatternsBuilder] = {}
        self.host_denials: PatternsBuilder | None = None
        self.denying_hosts = NO_HOST_INDEX
        self.ranges = NO_RANGES
        self.denials = 0

    def find_patterns(self, acl: Acl, weights: Weights, sign: int) -> PatternsBuilder:
        """Return the patterns in which the weight of ``acl`` counts.

        Its other weights are added here (``sign`` 1), or subtracted (-1).
        """
        self.denials += sign * weights.denial
        if acl.host == WILDCARD:
            return self.any_host
        self._add_to_hosts(acl, weights, sign)
        patterns = self.hosts.get(acl.host)
        if patterns is None:
            patterns = self.hosts[acl.host] = PatternsBuilder()
        return patterns

    def _add_to_hosts(self, acl: Acl, weights: Weights, sign: int) -> None:
        """Index an ACL's host, like ``acl.snapshot.apply_changes``."""
        addresses, denial = place_host(acl.host, weights)
        if addresses is not None:
            self.ranges = change_range(self.ranges, addresses, acl, weights, sign)
        if not denial:
            return
        if self.host_denials is None:
            self.host_denials = PatternsBuilder()
        self.host_denials.add(acl.pattern_type, acl.resource_name, sign * denial)
        if weights.is_plain:
            place = place_denial(acl)
            self.denying_hosts = change_hosts(self.denying_hosts, place, acl.host, sign)

    def add_unjudgeable(self, acl: Acl, sign: int) -> None:
        """Add (``sign`` 1) or subtract (-1) an ACL that Kafka cannot judge."""
        self.any_host.add(acl.pattern_type, acl.resource_name, sign * UNJUDGEABLE)
        self.denials += sign

    def freeze_in_steps(self) -> Steps[Rules]:
        any_host, denials = self.any_host.freeze(), NO_PATTERNS
        hosts: Growing[str, Patterns] = {}
        while self.hosts:
            host, builder = self.hosts.popitem()
            patterns = builder.freeze()
            if patterns is not NO_PATTERNS:
                hosts[host] = patterns
                hosts = grow(hosts)
            yield
        frozen_hosts = freeze(hosts)
        if any_host is NO_PATTERNS and not frozen_hosts:
            return NO_RULES
        if self.host_denials is not None:
            denials = self.host_denials.freeze()
        return Rules(any_host, frozen_hosts, self.ranges, denials, self.denying_hosts, self.denials)


class _TypeBuilder:
    """A mutable ``TypeIndex``."""

    __slots__ = ("everyone", "hosts", "resources", "rules", "unjudgeable")

    def __init__(self) -> None:
        self.everyone = _RulesBuilder(WILDCARD_PRINCIPAL)
        self.rules: Parts[str, _RulesBuilder] = new_parts()
        self.rules[hash(WILDCARD_PRINCIPAL) % PARTS][WILDCARD_PRINCIPAL] = self.everyone
        self.hosts: Parts[str, str] = new_parts()
        self.hosts[hash(WILDCARD) % PARTS][WILDCARD] = WILDCARD
        self.resources = ResourcesBuilder()
        self.unjudgeable: Unjudgeable = EMPTY

    def add(self, acl: Acl, weights: Weights, sign: int) -> int:
        """Add (``sign`` 1) or subtract (-1) the weights of ``acl``.

        Return the previous sum at its pattern.
        """
        principal = acl.principal
        known = self.rules[hash(principal) % PARTS]
        rules = known.get(principal)
        if rules is None:
            rules = known[principal] = _RulesBuilder(principal)
            rules.is_unjudgeable = is_unjudgeable(acl)
        elif rules.principal is not principal:
            force_setattr(acl, "principal", rules.principal)
        name = self.resources.add(acl.pattern_type, acl.resource_name, sign)
        if name is not acl.resource_name:
            # Creating a new ACL would take twice the time. The change is invisible: the texts are
            # equal.
            force_setattr(acl, "resource_name", name)
        host = acl.host
        if host is not WILDCARD:
            shared_host = self.hosts[hash(host) % PARTS].setdefault(host, host)
            if host is not shared_host:
                force_setattr(acl, "host", shared_host)
        if rules.is_unjudgeable:
            self.unjudgeable = change_unjudgeable(self.unjudgeable, acl, sign)
            self.everyone.add_unjudgeable(acl, sign)
        weight = sign * weights.rule
        if not weight:
            return 0
        if weights.denial or host != WILDCARD:
            patterns = rules.find_patterns(acl, weights, sign)
        else:  # nearly always: no other weights
            patterns = rules.any_host
        return patterns.add(acl.pattern_type, name, weight)

    def freeze_in_steps(self) -> Steps[TypeIndex]:
        principals: Growing[str, Rules] = {}
        lengths: Table[int, int] = EMPTY
        for principal, builder in pop_all(self.rules):
            if builder is self.everyone:
                continue
            rules = yield from builder.freeze_in_steps()
            if rules is not NO_RULES:
                principals[principal] = rules
                principals = grow(principals)
                lengths = change_count(lengths, len(rules.ranges.counts), 1)
            yield
        resources = yield from self.resources.freeze_in_steps()
        everyone = yield from self.everyone.freeze_in_steps()
        lengths = change_count(lengths, len(everyone.ranges.counts), 1)
        return TypeIndex(freeze(principals), everyone, resources, self.unjudgeable, lengths)


class SnapshotBuilder:
    """Collect changes in log order, then freeze once. A frozen builder cannot be used again.

    The ACLs of a snapshot share one copy of each resource name, principal and host. Otherwise each
    ACL would keep its own copies, which would take a quarter of the memory or more.
    """

    def __init__(self) -> None:
        self._acls: MapMutation[bytes, Acl] = Map[bytes, Acl]().mutate()
        self._types = [_TypeBuilder() for _ in range(RESOURCE_TYPES.stop)]
        self._unindexed: MapMutation[Acl, bytes] = Map[Acl, bytes]().mutate()
        self._combined_ids = 0

    def apply_changes(self, changes: Iterable[Change]) -> None:
        """Apply ``changes`` in order.

        Raises:
            DuplicateIdError, DuplicateAclError, UnknownIdError: as in
                ``acl.snapshot.apply_changes``. The builder cannot be used afterwards.
        """
        # This loop takes most of a load, so common ACLs take few calls.
        acls, types = self._acls, self._types
        count, combined = len(acls), self._combined_ids
        for change in changes:
            key = change.id
            combined ^= int.from_bytes(key)
            if type(change) is not AclAdded:
                self._remove(key)
                count -= 1
                continue
            # Set without checking first, to save a lookup: the length shows whether the id was
            # present.
            acls[key] = acl = change.acl
            count += 1
            if len(acls) != count:
                raise DuplicateIdError(key)
            code = acl.resource_type
            weights = weights_of(code, acl.pattern_type, acl.operation, acl.permission_type)
            if weights.is_plain:
                if types[code].add(acl, weights, 1) & weights.rule:
                    raise DuplicateAclError(key, acl)
            else:
                self._add_unindexed(key, acl, weights)
        self._combined_ids = combined

    def _add_unindexed(self, id: bytes, acl: Acl, weights: Weights) -> None:
        """Add an ACL that the bits of the index cannot identify."""
        if acl in self._unindexed:
            raise DuplicateAclError(id, acl)
        self._unindexed[acl] = id
        if weights.is_typed:
            self._types[acl.resource_type].add(acl, weights, 1)

    def _remove(self, id: bytes) -> None:
        acl = self._acls.pop(id, None)
        if acl is None:
            raise UnknownIdError(id)
        weights = weights_of(
            acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type
        )
        if not weights.is_plain:
            del self._unindexed[acl]
        if weights.is_typed:
            self._types[acl.resource_type].add(acl, weights, -1)

    def freeze_in_steps(self, offset: int) -> Steps[AclSnapshot]:
        """Return the snapshot, in chunks."""
        types = []
        for builder in self._types:
            index = yield from builder.freeze_in_steps()
            types.append(index)
        return AclSnapshot(
            offset,
            self._acls.finish(),
            tuple(types),
            self._unindexed.finish(),
            combined_ids=self._combined_ids,
        )

    def freeze(self, offset: int) -> AclSnapshot:
        """Return the snapshot of everything applied, at log offset ``offset``."""
        return finish(self.freeze_in_steps(offset))


def build(added: Iterable[AclAdded], offset: int = 0) -> AclSnapshot:
    """Return the snapshot that contains exactly these ACLs."""
    builder = SnapshotBuilder()
    builder.apply_changes(added)
    return builder.freeze(offset)
