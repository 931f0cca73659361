"""Build a snapshot in bulk, to load a whole log.

**Invariant:** a frozen builder equals the snapshot that results from applying the same changes one
by one.

Freezing works in small steps. The ACLs and principals are kept in immutable maps instead of dicts,
since resizing a large dict would block the thread for milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Final

from immutables import Map, MapMutation

from authorizerd.acl.bits import Weights, weights_of
from authorizerd.acl.denying_hosts import NO_DENYING_HOSTS, add_host, remove_host
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
from authorizerd.acl.patterns import (
    NO_END_COUNTS,
    NO_PATTERNS,
    NOTHING,
    End,
    Patterns,
    count_ends,
    is_wildcard,
    list_ends,
    make_end,
)
from authorizerd.acl.snapshot import NO_RULES, AclSnapshot, Rules, TypeIndex
from authorizerd.acl.steps import Steps, finish
from authorizerd.acl.tables import SMALL_MAX, Growing, Table, freeze, grow

ITEMS_PER_STEP: Final = 64
_LITERAL: Final = int(PatternType.LITERAL)  # comparing with an enum member takes longer


class _PatternsBuilder:
    """A mutable ``Patterns``. If there are many prefixes, ``ends`` counts them as they come."""

    __slots__ = ("ends", "literals", "prefixes", "wildcard")

    def __init__(self) -> None:
        self.wildcard = 0
        # Created on first use, since every principal and host has a builder.
        self.literals: Growing[str, int] | None = None
        self.prefixes: Growing[str, int] | None = None
        self.ends: dict[int, Growing[str, int]] | None = None

    def add(self, pattern_type: int, name: str, weight: int) -> int:
        """Add ``weight`` at one pattern. Return the previous sum."""
        # Comparing the name first avoids nearly every call of `is_wildcard`.
        if name == WILDCARD and is_wildcard(pattern_type, name):
            before = self.wildcard
            self.wildcard = before + weight
            return before
        if pattern_type != _LITERAL:
            return self._add_prefix(name, weight)
        sums = self.literals
        if sums is None:
            sums = self.literals = {}
        before = sums.get(name, 0)
        total = before + weight
        if total:
            sums[name] = total
            if not before:
                self.literals = grow(sums)
        else:
            # Delete a zero: the frozen table must equal one that was built change by change.
            del sums[name]
        return before

    def _add_prefix(self, name: str, weight: int) -> int:
        sums = self.prefixes
        if sums is None:
            sums = self.prefixes = {}
        before = sums.get(name, 0)
        total = before + weight
        if total:
            sums[name] = total
        else:
            del sums[name]
        if before and total:
            return before
        if self.ends is not None:
            self._count_end(name, 1 if total else -1)
        elif len(sums) > SMALL_MAX:
            self.ends = {length: grow(dict(some)) for length, some in count_ends(sums).items()}
            self.prefixes = grow(sums)
        return before

    def _count_end(self, prefix: str, change: int) -> None:
        assert self.ends is not None
        characters = self.ends.get(len(prefix))
        if characters is None:
            characters = self.ends[len(prefix)] = {}
        count = characters.get(prefix[-1:], 0) + change
        if count:
            characters[prefix[-1:]] = count
            self.ends[len(prefix)] = grow(characters)
        else:
            del characters[prefix[-1:]]

    def freeze_in_steps(self) -> Steps[Patterns]:
        literals = NOTHING if self.literals is None else freeze(self.literals)
        prefixes = NOTHING if self.prefixes is None else freeze(self.prefixes)
        if not (self.wildcard or literals or prefixes):
            return NO_PATTERNS
        if len(prefixes) <= SMALL_MAX:
            few = list_ends(count_ends(prefixes))
            return Patterns(self.wildcard, literals, prefixes, few, NO_END_COUNTS)
        ends: list[End] = []
        counts: Growing[int, Table[str, int]] = {}
        assert self.ends is not None
        while self.ends:
            length, characters = self.ends.popitem()
            if characters:
                frozen = counts[length] = freeze(characters)
                counts = grow(counts)
                ends.append(make_end(length, frozen))
            if len(self.ends) % ITEMS_PER_STEP == ITEMS_PER_STEP - 1:
                yield
        ends.sort(reverse=True, key=itemgetter(0))
        return Patterns(self.wildcard, literals, prefixes, tuple(ends), freeze(counts))


class _RulesBuilder:
    """A mutable ``Rules``."""

    __slots__ = ("any_host", "denials", "denying_hosts", "host_denials", "hosts")

    def __init__(self) -> None:
        self.any_host: _PatternsBuilder | None = None
        self.hosts: dict[str, _PatternsBuilder] = {}
        self.host_denials: _PatternsBuilder | None = None
        self.denying_hosts = NO_DENYING_HOSTS
        self.denials = 0

    def add(self, acl: Acl, weights: Weights, sign: int) -> int:
        """Add (``sign`` 1) or subtract (-1) the weights of ``acl``.

        Return the previous sum at its pattern.
        """
        self.denials += sign * weights.denial
        if acl.host == WILDCARD:
            patterns = self.any_host
            if patterns is None:
                patterns = self.any_host = _PatternsBuilder()
        else:
            patterns = self.hosts.get(acl.host)
            if patterns is None:
                patterns = self.hosts[acl.host] = _PatternsBuilder()
            if weights.denial:
                self._add_host_denial(acl, weights, sign)
        return patterns.add(acl.pattern_type, acl.resource_name, sign * weights.rule)

    def _add_host_denial(self, acl: Acl, weights: Weights, sign: int) -> None:
        if self.host_denials is None:
            self.host_denials = _PatternsBuilder()
        self.host_denials.add(acl.pattern_type, acl.resource_name, sign * weights.host_denial)
        if weights.is_plain:
            change = add_host if sign > 0 else remove_host
            self.denying_hosts = change(self.denying_hosts, acl)

    def freeze_in_steps(self) -> Steps[Rules]:
        any_host, denials = NO_PATTERNS, NO_PATTERNS
        if self.any_host is not None:
            any_host = yield from self.any_host.freeze_in_steps()
        hosts: Growing[str, Patterns] = {}
        while self.hosts:
            host, builder = self.hosts.popitem()
            patterns = yield from builder.freeze_in_steps()
            if patterns is not NO_PATTERNS:
                hosts[host] = patterns
                hosts = grow(hosts)
            if len(self.hosts) % ITEMS_PER_STEP == ITEMS_PER_STEP - 1:
                yield
        frozen_hosts = freeze(hosts)
        if any_host is NO_PATTERNS and not frozen_hosts:
            return NO_RULES
        if self.host_denials is not None:
            denials = yield from self.host_denials.freeze_in_steps()
        return Rules(any_host, frozen_hosts, denials, self.denying_hosts, self.denials)


class _TypeBuilder:
    """A mutable ``TypeIndex``. ``names`` lists the keys of ``rules``, which has no iterator."""

    __slots__ = ("everyone", "names", "resources", "rules")

    def __init__(self) -> None:
        self.rules: MapMutation[str, _RulesBuilder] = Map[str, _RulesBuilder]().mutate()
        self.names: list[str] = []
        self.everyone = _RulesBuilder()
        self.resources = _PatternsBuilder()

    def add(self, acl: Acl, weights: Weights, sign: int) -> int:
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
        return rules.add(acl, weights, sign) if weights.rule else 0

    def freeze_in_steps(self) -> Steps[TypeIndex]:
        principals: Growing[str, Rules] = {}
        while self.names:
            for name in self.names[-ITEMS_PER_STEP:]:
                # Remove one at a time: freeing a whole map of builders would block the thread.
                rules = yield from self.rules.pop(name).freeze_in_steps()
                if rules is not NO_RULES:
                    principals[name] = rules
                    principals = grow(principals)
            del self.names[-ITEMS_PER_STEP:]
            yield
        everyone = yield from self.everyone.freeze_in_steps()
        resources = yield from self.resources.freeze_in_steps()
        return TypeIndex(freeze(principals), everyone, resources)


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
        weights = weights_of(resource_type, acl.pattern_type, acl.operation, acl.permission_type)
        if not weights.is_plain:
            if acl in self._unindexed:
                raise DuplicateAclError(id, acl)
            self._unindexed[acl] = id
        if weights.is_typed:
            before = self._types[resource_type].add(acl, weights, 1)
            if weights.is_plain and before & weights.rule:
                raise DuplicateAclError(id, acl)

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
