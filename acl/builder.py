"""The bulk road to a snapshot: the same state as ``acl.snapshot.apply``, for loading a whole log.

Law: what a builder freezes equals what applying the same changes one by one gives. It works in
small steps, and keeps no large dict (growing one would hold the caller's thread for milliseconds).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

from immutables import Map, MapMutation

from acl.bits import host_denial_weight, is_odd, weight
from acl.errors import DuplicateAclError, DuplicateIdError, UnknownIdError
from acl.model import (
    RESOURCE_TYPES,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    AclAdded,
    Change,
    PatternType,
)
from acl.patterns import NO_PATTERNS, NOTHING, Patterns, is_wildcard, sorted_lengths
from acl.snapshot import NO_HOSTS, NO_PRINCIPALS, NO_RULES, AclSnapshot, Rules, TypeIndex

ITEMS_PER_STEP: Final = 64


class _PatternsBuilder:
    __slots__ = ("lengths", "literals", "prefixes", "wildcard")

    def __init__(self) -> None:
        self.wildcard = 0
        self.literals: MapMutation[str, int] | None = None
        self.prefixes: MapMutation[str, int] | None = None
        self.lengths: dict[int, int] = {}

    def add(self, pattern_type: int, name: str, weight: int) -> int:
        """Add ``weight`` at one pattern; return the sum that stood there before."""
        if is_wildcard(pattern_type, name):
            before = self.wildcard
            self.wildcard = before + weight
            return before
        if pattern_type == PatternType.LITERAL:
            sums = self.literals
            if sums is None:
                sums = self.literals = NOTHING.mutate()
        else:
            sums = self.prefixes
            if sums is None:
                sums = self.prefixes = NOTHING.mutate()
        before = sums.get(name, 0)
        total = before + weight
        if total:
            sums[name] = total
        else:
            del sums[name]
        if sums is self.prefixes and not (before and total):
            self.lengths[len(name)] = self.lengths.get(len(name), 0) + (1 if total else -1)
        return before

    def freeze(self) -> Patterns:
        literals = NOTHING if self.literals is None else self.literals.finish()
        prefixes = NOTHING if self.prefixes is None else self.prefixes.finish()
        if not (self.wildcard or literals or prefixes):
            return NO_PATTERNS
        return Patterns(self.wildcard, literals, prefixes, *sorted_lengths(self.lengths))


class _RulesBuilder:
    __slots__ = ("any_host", "host_denials", "hosts")

    def __init__(self) -> None:
        self.any_host: _PatternsBuilder | None = None
        self.hosts: dict[str, _PatternsBuilder] = {}
        self.host_denials: _PatternsBuilder | None = None

    def add(self, acl: Acl, sign: int) -> int:
        """Add the weights of ``acl``; return the sum that stood at its leaf before."""
        rule_weight = weight(acl)
        if not rule_weight:
            return 0
        if acl.host == WILDCARD:
            patterns = self.any_host
            if patterns is None:
                patterns = self.any_host = _PatternsBuilder()
        else:
            patterns = self.hosts.get(acl.host)
            if patterns is None:
                patterns = self.hosts[acl.host] = _PatternsBuilder()
            denial_weight = host_denial_weight(acl)
            if denial_weight:
                if self.host_denials is None:
                    self.host_denials = _PatternsBuilder()
                self.host_denials.add(acl.pattern_type, acl.resource_name, sign * denial_weight)
        return patterns.add(acl.pattern_type, acl.resource_name, sign * rule_weight)

    def freeze_in_steps(self) -> Generator[None, None, Rules]:
        any_host = NO_PATTERNS if self.any_host is None else self.any_host.freeze()
        hosts = NO_HOSTS.mutate()
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
        return Rules(any_host, frozen_hosts, denials)


class _TypeBuilder:
    """The index of one resource type; ``rules`` turns from builders to frozen rules in place."""

    __slots__ = ("everyone", "names", "resources", "rules")

    def __init__(self) -> None:
        self.rules: MapMutation[str, _RulesBuilder | Rules] = Map[
            str, _RulesBuilder | Rules
        ]().mutate()
        self.names: list[str] = []
        self.everyone = _RulesBuilder()
        self.resources = _PatternsBuilder()

    def add(self, acl: Acl, sign: int) -> int:
        principal = acl.principal
        if principal == WILDCARD_PRINCIPAL:
            rules = self.everyone
        else:
            held = self.rules.get(principal)
            if held is None:
                held = self.rules[principal] = _RulesBuilder()
                self.names.append(principal)
            assert isinstance(held, _RulesBuilder)
            rules = held
        self.resources.add(acl.pattern_type, acl.resource_name, sign)
        return rules.add(acl, sign)

    def freeze_in_steps(self) -> Generator[None, None, TypeIndex]:
        principals = NO_PRINCIPALS.mutate()
        while self.names:
            for name in self.names[-ITEMS_PER_STEP:]:
                # Taken out one by one: a map of builders freed at once would hold the thread.
                builder = self.rules.pop(name)
                assert isinstance(builder, _RulesBuilder)
                rules = yield from builder.freeze_in_steps()
                if rules is not NO_RULES:
                    principals[name] = rules
            del self.names[-ITEMS_PER_STEP:]
            yield
        everyone = yield from self.everyone.freeze_in_steps()
        return TypeIndex(principals.finish(), everyone, self.resources.freeze())


class SnapshotBuilder:
    """Takes changes in log order, then freezes once; of no use afterwards."""

    def __init__(self) -> None:
        self._acls: MapMutation[bytes, Acl] = Map[bytes, Acl]().mutate()
        self._types = [_TypeBuilder() for _ in range(RESOURCE_TYPES.stop)]
        self._odd: MapMutation[Acl, bytes] = Map[Acl, bytes]().mutate()

    def apply_changes(self, changes: Iterable[Change]) -> None:
        """Make ``changes`` in order.

        Raises:
            DuplicateIdError, DuplicateAclError, UnknownIdError: as ``acl.snapshot.apply``; the
                builder is of no use afterwards.
        """
        for change in changes:
            if type(change) is AclAdded:
                self._add(change.id, change.acl)
            else:
                self._remove(change.id)

    def _add(self, id: bytes, acl: Acl) -> None:
        acls = self._acls
        if id in acls:
            raise DuplicateIdError(id)
        acls[id] = acl
        known_type = acl.resource_type in RESOURCE_TYPES
        odd = is_odd(acl) or not known_type
        if odd:
            if acl in self._odd:
                raise DuplicateAclError(id, acl)
            self._odd[acl] = id
        if known_type:
            before = self._types[acl.resource_type].add(acl, 1)
            if not odd and before & weight(acl):
                raise DuplicateAclError(id, acl)

    def _remove(self, id: bytes) -> None:
        acl = self._acls.pop(id, None)
        if acl is None:
            raise UnknownIdError(id)
        if acl in self._odd:
            del self._odd[acl]
        if acl.resource_type in RESOURCE_TYPES:
            self._types[acl.resource_type].add(acl, -1)

    def freeze_in_steps(self, offset: int) -> Generator[None, None, AclSnapshot]:
        """Yield between small steps of work; the generator's value is the snapshot."""
        types = []
        for builder in self._types:
            index = yield from builder.freeze_in_steps()
            types.append(index)
        return AclSnapshot(offset, self._acls.finish(), tuple(types), self._odd.finish())

    def freeze(self, offset: int) -> AclSnapshot:
        """Return the snapshot of everything applied, at log offset ``offset``."""
        steps = self.freeze_in_steps(offset)
        while True:
            try:
                next(steps)
            except StopIteration as finished:
                snapshot: AclSnapshot = finished.value
                return snapshot


def build(added: Iterable[AclAdded], offset: int = 0) -> AclSnapshot:
    """Return the snapshot that holds just these ACLs."""
    builder = SnapshotBuilder()
    builder.apply_changes(added)
    return builder.freeze(offset)
