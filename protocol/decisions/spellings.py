"""Names that requests may spell in several ways: in any letter case, with Kafka's word boundaries.

``describe_configs`` may also be written ``DESCRIBE_CONFIGS``, ``DescribeConfigs`` (as Kafka's
commands do), ``describeConfigs`` or ``describe-configs``. Nothing else is guessed: the daemon must
not accept a name that the caller's own checks do not recognize.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

from authorizerd.acl.text.letter_case import ascii_lower, ascii_upper
from authorizerd.acl.text.typos import shorten
from authorizerd.protocol.json_faults import quote

T = TypeVar("T")
_Spell: TypeAlias = Callable[[str], Iterator[str]]

_BOUNDARY: Final = re.compile("[_-]+")
_SIMILAR_CHARACTERS_MAX: Final = 32
"""No known name resembles a longer one."""


class Spellings(Generic[T]):
    """The values of names, by each spelling.

    An exact name takes precedence over other names' spellings. A spelling of two names with
    different values is unknown.

    Attributes:
        usual: the spellings that are found without a change of case, which takes longer than a
            lookup. The caller tries these first.
    """

    def __init__(self, values: Mapping[str, T]) -> None:
        self.known: Final = tuple(values)
        self.usual: Final = _spell(values, _usual_spellings)
        self._lower: Final = _spell(
            {ascii_lower(name): value for name, value in values.items()}, _lower_spellings
        )
        self._similar: Final = {
            shorter: name for name in reversed(self.known) for shorter in shorten(name)
        }

    def find(self, name: str) -> T | None:
        """Return the value of a name in any case, or None if it is unknown."""
        # Unicode case mappings would turn other texts into known names.
        found = self.usual.get(name)
        return self._lower.get(ascii_lower(name)) if found is None else found

    def describe_unknown(self, what: str, name: str) -> str:
        """Return an error text with the name, a similar name, and all known names."""
        similar = self._find_similar(name)
        meant = "" if similar is None else f" (did you mean {similar}?)"
        return f"{what} {quote(name)}{meant}: expected one of {', '.join(self.known)}"

    def _find_similar(self, name: str) -> str | None:
        """Return a known name that differs by one typo, or None."""
        if len(name) > _SIMILAR_CHARACTERS_MAX:
            return None
        shorter = shorten(name)
        return next((self._similar[each] for each in shorter if each in self._similar), None)


def _spell(values: Mapping[str, T], spellings: _Spell) -> dict[str, T]:
    spelled: dict[str, T] = {}
    ambiguous = set()
    for name, value in values.items():
        for spelling in spellings(name):
            if spelled.setdefault(spelling, value) != value:
                ambiguous.add(spelling)
    for spelling in ambiguous:
        del spelled[spelling]
    spelled.update(values)
    return spelled


def _usual_spellings(name: str) -> Iterator[str]:
    yield from _lower_spellings(name)
    words = _words(name)
    yield ascii_upper("_".join(words))
    capitalized = [ascii_upper(word[:1]) + word[1:] for word in words]
    yield "".join(capitalized)
    yield "".join([*words[:1], *capitalized[1:]])


def _lower_spellings(name: str) -> Iterator[str]:
    words = _words(name)
    for boundary in ("_", "-", ""):
        yield boundary.join(words)


def _words(name: str) -> list[str]:
    return _BOUNDARY.split(ascii_lower(name))
