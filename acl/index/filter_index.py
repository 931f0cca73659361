"""Match one ACL against many filters at once.

A request may have a hundred thousand filters. Comparing each filter with every ACL would take time
in proportion to the product of both. Instead, the ACL's own fields are looked up among the filters,
once for each combination of fields that filters specify.

Source: KIP-140, KIP-290; the rules are those of ``acl.filters.accepts``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import compress
from typing import Any, Final, TypeAlias

from msgspec.structs import astuple

from authorizerd.acl.model import WILDCARD, Acl, AclFilter, PatternType

_ANY: Final = 1
_NO_NAMES: Final[list[str]] = []

_Shape: TypeAlias = tuple[bool, ...]
"""Which fields a filter specifies, in the field order of ``Acl`` and ``AclFilter``."""
_Key: TypeAlias = tuple[Any, ...]
"""A shape's number, followed by the values of the specified fields."""


class FilterIndex:
    """Filters by the fields that they specify. Equivalent filters share one number."""

    __slots__ = ("_exact", "_matching", "_names", "_numbers", "count")

    def __init__(self) -> None:
        self.count = 0
        self._exact: dict[_Shape, int] = {}
        self._matching: dict[_Shape, int] = {}
        """The shapes of filters with pattern type MATCH and a name. These leave out the name."""
        self._numbers: dict[_Key, int] = {}
        self._names: dict[_Key, list[str]] = {}

    @property
    def lookups(self) -> int:
        """The number of lookups that one ACL takes."""
        return len(self._exact) + len(self._matching)

    def add(self, filter: AclFilter) -> int:
        """Add a filter without unknown codes. Return its number, counted from 0."""
        fields = astuple(filter)
        name, pattern_type = filter.resource_name, filter.pattern_type
        by_match = pattern_type == PatternType.MATCH and name is not None
        shape = (
            filter.resource_type != _ANY,
            name is not None and not by_match,
            pattern_type not in (PatternType.ANY, PatternType.MATCH),
            filter.principal is not None,
            filter.host is not None,
            filter.operation != _ANY,
            filter.permission_type != _ANY,
        )
        shapes = self._matching if by_match else self._exact
        # A new shape's number must be unique across both maps, since they share `_numbers`.
        number = shapes.setdefault(shape, self.lookups)
        key = (number, *compress(fields, shape))
        if name is None or not by_match:
            return self._number(key)
        named = (*key, name)
        count = self.count
        found = self._number(named)
        # Do not list a repeated filter's name again: `look_up` must yield each number once.
        if found == count:
            insort(self._names.setdefault(key, []), name)
        return found

    def _number(self, key: _Key) -> int:
        number = self._numbers.setdefault(key, self.count)
        if number == self.count:
            self.count += 1
        return number

    def look_up(self, acl: Acl) -> Iterator[int]:
        """Yield the number of each filter that matches ``acl``, each once."""
        fields = astuple(acl)
        for shape, position in self._exact.items():
            key = (position, *compress(fields, shape))
            number = self._numbers.get(key)
            if number is not None:
                yield number
        for shape, position in self._matching.items():
            key = (position, *compress(fields, shape))
            for name in self._names_that_meet(acl, key):
                named = (*key, name)
                yield self._numbers[named]

    def _names_that_meet(self, acl: Acl, key: _Key) -> Iterator[str]:
        """Yield the names of MATCH filters that the pattern of ``acl`` matches."""
        names = self._names.get(key, _NO_NAMES)
        pattern_name = acl.resource_name
        is_literal = acl.pattern_type == PatternType.LITERAL
        if is_literal and pattern_name == WILDCARD:
            yield from names
            return
        # The names are sorted, so those that begin with the pattern's name follow each other.
        for position in range(bisect_left(names, pattern_name), len(names)):
            name = names[position]
            if not (name == pattern_name if is_literal else name.startswith(pattern_name)):
                return
            yield name
