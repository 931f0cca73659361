"""Select the decisions that the audit log contains, by principal, resource and sampling rate.

**Invariant:** denials are never sampled, and filters apply to them only with ``filters_denied``. A
pattern is an exact name, a prefix followed by ``*``, or ``*`` for every name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from authorizerd.acl.model import WILDCARD, ResourceType

_CIRCLE: Final = 1 << 64
_STEP: Final = 0x9E3779B97F4A7C15  # the circle divided by the golden ratio


class NamePatterns(msgspec.Struct, frozen=True, gc=False):
    """Exact names and prefixes. The empty prefix matches every name."""

    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def match(self, name: str) -> bool:
        """Return True if one of the patterns matches ``name``."""
        return name in self.names or name.startswith(self.prefixes)


NO_NAMES: Final = NamePatterns()
ALL_NAMES: Final = NamePatterns(prefixes=("",))


def name_patterns(patterns: Iterable[str]) -> NamePatterns:
    """Return one matcher for all of ``patterns``."""
    names, prefixes = set(), []
    for pattern in patterns:
        if pattern.endswith(WILDCARD):
            prefixes.append(pattern.removesuffix(WILDCARD))
        else:
            names.add(pattern)
    return NamePatterns(frozenset(names), tuple(sorted(prefixes)))


class ResourcePatterns(msgspec.Struct, frozen=True, gc=False):
    """Patterns of resource names, by resource type code."""

    by_type: Mapping[int, NamePatterns] = {}

    def match(self, resource_type: int, name: str) -> bool:
        """Return True if a pattern of this type matches ``name``."""
        return self.by_type.get(resource_type, NO_NAMES).match(name)


NO_RESOURCES: Final = ResourcePatterns()
ALL_RESOURCES: Final = ResourcePatterns(dict.fromkeys(ResourceType, ALL_NAMES))


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Select the decisions that may be logged. Denials pass unless ``filters_denied`` is set."""

    principals_included: NamePatterns = ALL_NAMES
    principals_excluded: NamePatterns = NO_NAMES
    resources_included: ResourcePatterns = ALL_RESOURCES
    resources_excluded: ResourcePatterns = NO_RESOURCES
    filters_denied: bool = False

    def admits(self, allowed: bool, principal: str, resource_type: int, resource_name: str) -> bool:
        """Return True if the decision may be logged. An exclusion wins over an inclusion."""
        if not (allowed or self.filters_denied):
            return True
        return (
            self.principals_included.match(principal)
            and self.resources_included.match(resource_type, resource_name)
            and not self.principals_excluded.match(principal)
            and not self.resources_excluded.match(resource_type, resource_name)
        )


NO_FILTER: Final = AuditFilter()


class AuditRules(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Select which of the decisions admitted by the audit level are logged.

    ``allowed_rate`` is the share of allowed decisions to log, above 0 and at most 1. If
    ``is_required`` is set, the daemon makes no decision while the audit log cannot be written.
    """

    filter: AuditFilter = NO_FILTER
    allowed_rate: float = 1.0
    is_required: bool = False


class Sampler:
    """Select a fixed share of a sequence of calls.

    Each call advances a position on a circle by a fixed step, the circle divided by the golden
    ratio. The call is selected if the position is then on an arc of the wanted share. In any run of
    calls, the number selected is at most a few off. This also holds for every n-th call, so
    periodic traffic cannot evade the sampling.

    Random numbers could, by chance, select far too few or too many calls.
    """

    __slots__ = ("_arc", "_position")

    def __init__(self, rate: float) -> None:
        self._arc: Final = round(rate * _CIRCLE)
        self._position = 0

    def select_next(self) -> bool:
        """Return True if the next item of the sequence is selected."""
        self._position = (self._position + _STEP) % _CIRCLE
        return self._position < self._arc
