"""Build a snapshot in bulk, to load a whole log.

**Invariant:** a frozen builder equals the snapshot that results from applying the same changes one
by one.

Freezing works in small steps. The ACLs and principals are kept in immutable maps instead of dicts,
since resizing a large dict would block the thread for milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from immutables import Map, MapMutation

from authorizerd.acl.bits import host_denial_weight, is_unindexed, weight
from authorizerd.acl.denying_hosts import NO_DENYING_HOSTS, add_host, is_indexed, remove_host
from authorizerd.acl.errors import DuplicateAclError, DuplicateIdError, UnknownIdError
from authorizerd.acl.model import (
    RESOURCE_TYPES,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclAdded,
    Change,
    PatternType,
)
from authorizerd.acl.patterns import NO_PATTERNS, NOTHING, Patterns, is_wildcard, sorted_lengths
from authorizerd.acl.snapshot import (
    NO_HOST_RULES,
    NO_PRINCIPALS,
    NO_RULES,
    AclSnapshot,
    Rules,
    TypeIndex,
)
from authorizerd.acl.steps import Steps, finish

ITEMS_PER_STEP: Final = 64
WEIGHTS_KEPT: Final = 4096
_LITERAL: Final = int(PatternType.LITERAL)  # comparing with an enum member takes longer


@lru_cache(maxsize=WEIGHTS_KEPT)
def _weights(
    resource_type: int, pattern_type: int, operation: int, permission_type: int
) -> tuple[int, int, bool]:
    """Return an ACL's weight, its weight in ``host_denials``, and whether its bits identify it.

    The result depends only on the codes, and a log has few combinations of them.
    """
    acl = Acl(resource_type, "", pattern_type, "", "", operation, permission_type)
    is_plain = resource_type in RESOURCE_TYPES and not is_unindexed(acl)
    return weight(acl), host_denial_weight(acl), is_plain


def _add_at(sums: MapMutation[str, int], name: str, weight: int) -> int:
    before = sums.get(name, 0)
    total = before + weight
    if total:
        sums[name] = total
    else:
        # Delete a zero: the frozen map must equal a map that was built change by change.
        del sums[name]
    return before


class _PatternsBuilder:
    """A mutable ``Patterns``."""

    __slots__ = ("lengths", "literals", "prefixes", "wildcard")

    def __init__(self) -> None:
        self.wildcard = 0
        # Created on first use, since every principal and host has a builder.
        self.literals: MapMutation[str, int] | None = None
        self.prefixes: MapMutation[str, int] | None = None
        self.lengths: dict[int, int] = {}

    def add(self, pattern_type: int, name: str, weight: int) -> int:
        """Add ``weight`` at one pattern. Return the previous sum."""
        # Comparing the name first avoids nearly every call of `is_wildcard`.
        if name == WILDCARD and is_wildcard(pattern_type, name):
            before = self.wildcard
            self.wildcard = before + weight
            return before
        if pattern_type == _LITERAL:
            sums = self.literals
            if sums is None:
                sums = self.literals = NOTHING.mutate()
            return _add_at(sums, name, weight)
        sums = self.prefixes
        if sums is None:
            sums = self.prefixes = NOTHING.mutate()
        before = _add_at(sums, name, weight)
        if not before or not before + weight:
            change = -1 if before else 1
            self.lengths[len(name)] = self.lengths.get(len(name), 0) + change
        return before

    def freeze(self) -> Patterns:
        literals = NOTHING if self.literals is None else self.literals.finish()
        prefixes = NOTHING if self.prefixes is None else self.prefixes.finish()
        if not (self.wildcard or literals or prefixes):
            return NO_PATTERNS
        return Patterns(self.wildcard, literals, prefixes, *sorted_lengths(self.lengths))


class _RulesBuilder:
    """A mutable ``Rules``."""

    __slots__ = ("any_host", "denying_hosts", "host_denials", "hosts")

    def __init__(self) -> None:
        self.any_host: _PatternsBuilder | None = None
        self.hosts: dict[str, _PatternsBuilder] = {}
        self.host_denials: _PatternsBuilder | None = None
        self.denying_hosts = NO_DENYING_HOSTS

    def add(self, acl: Acl, rule_weight: int, denial_weight: int) -> int:
        """Add the weights of ``acl``. Return the previous sum at its pattern."""
        if acl.host == WILDCARD:
            patterns = self.any_host
            if patterns is None:
                patterns = self.any_host = _PatternsBuilder()
        else:
            patterns = self.hosts.get(acl.host)
            if patterns is None:
                patterns = self.hosts[acl.host] = _PatternsBuilder()
            if denial_weight:
                if self.host_denials is None:
                    self.host_denials = _PatternsBuilder()
                self.host_denials.add(acl.pattern_type, acl.resource_name, denial_weight)
                if is_indexed(acl):
                    change = add_host if rule_weight > 0 else remove_host
                    self.denying_hosts = change(self.denying_hosts, acl)
        return patterns.add(acl.pattern_type, acl.resource_name, rule_weight)

    def freeze_in_steps(self) -> Steps[Rules]:
        any_host = NO_PATTERNS if self.any_host is None else self.any_host.freeze()
        hosts = NO_HOST_RULES.mutate()
        while self.hosts:
            host, builder = self.hosts.popitem()
            patterns = builder.freeze()
            if patterns is not NO_PATTERNS:
                hosts[host] = patterns
            if len(self.hosts) % ITEMS_PER_STEP == ITEMS_PER_STEP - 1:
                yield
        frozen_hosts = hosts.finish()
        if any_host is NO_PATTERNS and not frozen_hosts:
            return NO_RULES
        denials = NO_PATTERNS if self.host_denials is None else self.host_denials.freeze()
        return Rules(any_host, frozen_hosts, denials, self.denying_hosts)


class _TypeBuilder:
    """A mutable ``TypeIndex``. ``names`` lists the keys of ``rules``, which has no iterator."""

    __slots__ = ("everyone", "names", "resources", "rules")

    def __init__(self) -> None:
        self.rules: MapMutation[str, _RulesBuilder] = Map[str, _RulesBuilder]().mutate()
        self.names: list[str] = []
        self.everyone = _RulesBuilder()
        self.resources = _PatternsBuilder()

    def add(self, acl: Acl, sign: int, rule_weight: int, denial_weight: int) -> int:
        """Add (``sign`` 1) or subtract (-1) the weights of ``acl``.

        Return the previous sum at its pattern.
        """
        principal = acl.principal
        if principal == WILDCARD_PRINCIPAL:
            rules = self.everyone
        else:
            held = self.rules.get(principal)
            if held is None:
                held = self.rules[principal] = _RulesBuilder()
                self.names.append(principal)
            rules = held
        self.resources.add(acl.pattern_type, acl.resource_name, sign)
        return rules.add(acl, sign * rule_weight, sign * denial_weight) if rule_weight else 0

    def freeze_in_steps(self) -> Steps[TypeIndex]:
        principals = NO_PRINCIPALS.mutate()
        while self.names:
            for name in self.names[-ITEMS_PER_STEP:]:
                # Remove one at a time: freeing a whole map of builders would block the thread.
                rules = yield from self.rules.pop(name).freeze_in_steps()
                if rules is not NO_RULES:
                    principals[name] = rules
            del self.names[-ITEMS_PER_STEP:]
            yield
        everyone = yield from self.everyone.freeze_in_steps()
        return TypeIndex(principals.finish(), everyone, self.resources.freeze())


class SnapshotBuilder:
    """Collect changes in log order, then freeze once. A frozen builder cannot be used again."""

    def __init__(self) -> None:
        self._acls: MapMutation[bytes, Acl] = Map[bytes, Acl]().mutate()
        self._types = [_TypeBuilder() for _ in range(RESOURCE_TYPES.stop)]
        self._unindexed: MapMutation[Acl, bytes] = Map[Acl, bytes]().mutate()

    def apply_changes(self, changes: Iterable[Change]) -> None:
        """Apply ``changes`` in order.

        Raises:
            DuplicateIdError, DuplicateAclError, UnknownIdError: as in
                ``acl.snapshot.apply_changes``. The builder cannot be used afterwards.
        """
        for change in changes:
            if type(change) is AclAdded:
                self._add(change.id, change.acl)
            else:
                self._remove(change.id)

    def _add(self, id: bytes, acl: Acl) -> None:
        acls = self._acls
        # Set without looking first, to save a lookup: the length shows if the id was present.
        count = len(acls)
        acls[id] = acl
        if len(acls) == count:
            raise DuplicateIdError(id)
        resource_type = acl.resource_type
        rule_weight, denial_weight, is_plain = _weights(
            resource_type, acl.pattern_type, acl.operation, acl.permission_type
        )
        if not is_plain:
            if acl in self._unindexed:
                raise DuplicateAclError(id, acl)
            self._unindexed[acl] = id
        if resource_type in RESOURCE_TYPES:
            before = self._types[resource_type].add(acl, 1, rule_weight, denial_weight)
            if is_plain and before & rule_weight:
                raise DuplicateAclError(id, acl)

    def _remove(self, id: bytes) -> None:
        acl = self._acls.pop(id, None)
        if acl is None:
            raise UnknownIdError(id)
        rule_weight, denial_weight, is_plain = _weights(
            acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type
        )
        if not is_plain:
            del self._unindexed[acl]
        if acl.resource_type in RESOURCE_TYPES:
            self._types[acl.resource_type].add(acl, -1, rule_weight, denial_weight)

    def freeze_in_steps(self, offset: int) -> Steps[AclSnapshot]:
        """Return the snapshot. Yield between small steps of work."""
        types = []
        for builder in self._types:
            index = yield from builder.freeze_in_steps()
            types.append(index)
        return AclSnapshot(offset, self._acls.finish(), tuple(types), self._unindexed.finish())

    def freeze(self, offset: int) -> AclSnapshot:
        """Return the snapshot of everything applied, at log offset ``offset``."""
        return finish(self.freeze_in_steps(offset))


def build(added: Iterable[AclAdded], offset: int = 0) -> AclSnapshot:
    """Return the snapshot that contains exactly these ACLs."""
    builder = SnapshotBuilder()
    builder.apply_changes(added)
    return builder.freeze(offset)
