"""Which decisions the audit shows: by who asks, by what is asked about, and some of the allowed.

Law: a denial is never sampled away, and the filters pass over one only where they are said to. A
pattern is an exact name, the beginning of names with a ``*`` behind it, or ``*`` for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from authorizerd.acl.model import WILDCARD, ResourceType

_CIRCLE: Final = 1 << 64
_STEP: Final = 0x9E3779B97F4A7C15  # the circle divided by the golden ratio


class NamePatterns(msgspec.Struct, frozen=True, gc=False):
    """Names, and beginnings of names; the empty beginning is that of all."""

    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def match(self, name: str) -> bool:
        return name in self.names or name.startswith(self.prefixes)


NO_NAMES: Final = NamePatterns()
ALL_NAMES: Final = NamePatterns(prefixes=("",))


def name_patterns(patterns: Iterable[str]) -> NamePatterns:
    """Return what matches as any of ``patterns`` does."""
    names, prefixes = set(), []
    for pattern in patterns:
        if pattern.endswith(WILDCARD):
            prefixes.append(pattern.removesuffix(WILDCARD))
        else:
            names.add(pattern)
    return NamePatterns(frozenset(names), tuple(sorted(prefixes)))


class ResourcePatterns(msgspec.Struct, frozen=True, gc=False):
    """Patterns of resource names by the code of their type."""

    by_type: Mapping[int, NamePatterns] = {}

    def match(self, resource_type: int, name: str) -> bool:
        return self.by_type.get(resource_type, NO_NAMES).match(name)


NO_RESOURCES: Final = ResourcePatterns()
ALL_RESOURCES: Final = ResourcePatterns(dict.fromkeys(ResourceType, ALL_NAMES))


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which decisions may be shown; ``filters_denied``: whether that is asked of denials too."""

    principals_included: NamePatterns = ALL_NAMES
    principals_excluded: NamePatterns = NO_NAMES
    resources_included: ResourcePatterns = ALL_RESOURCES
    resources_excluded: ResourcePatterns = NO_RESOURCES
    filters_denied: bool = False

    def lets_through(
        self, allowed: bool, principal: str, resource_type: int, resource_name: str
    ) -> bool:
        """Say whether a decision may be shown; what is excluded beats what is included."""
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
    """What the audit shows of the decisions that its level admits.

    ``allowed_rate``: which share is shown of the allowed that the filter lets through, above 0 and
    at most 1. ``is_required``: whether nothing is decided while the audit cannot be kept.
    """

    filter: AuditFilter = NO_FILTER
    allowed_rate: float = 1.0
    is_required: bool = False


class Sampler:
    """Takes a share of what comes, by its number alone.

    The numbers go round a circle in steps of the golden ratio, and those that come to lie in an arc
    of the share's size are taken. So of any run that share is taken, give or take a few, and of
    every second or every n-th as well: traffic that repeats itself does not hide from it.
    """

    __slots__ = ("_arc", "_position")

    def __init__(self, rate: float) -> None:
        self._arc: Final = round(rate * _CIRCLE)
        self._position = 0

    def takes_next(self) -> bool:
        self._position = (self._position + _STEP) % _CIRCLE
        return self._position < self._arc
