"""Names that represent a pattern: one for each part that other patterns distinguish."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

from authorizerd.acl.model import CLUSTER_NAME, WILDCARD, Acl, PatternType, ResourceType
from authorizerd.acl.patterns import is_wildcard, matches

_CHARACTERS: Final = "xabcdefghijklmnopqrstuvwyz0123456789-_."
_OTHER_CHARACTERS: Final = range(0x4E00, 0x9FFF)


def list_names(acl: Acl, others: Iterable[Acl]) -> list[str]:
    """Return one name for each class into which other ACLs' patterns divide ``acl``'s names.

    Names that no other pattern matches come first.
    """
    if acl.resource_type == ResourceType.CLUSTER:
        names = [CLUSTER_NAME]
        return [name for name in names if matches(acl.pattern_type, acl.resource_name, name)]
    if acl.pattern_type == PatternType.LITERAL and acl.resource_name != WILDCARD:
        return [acl.resource_name]
    literals: set[str] = set()
    prefixes: set[str] = {""}
    for other in (acl, *others):
        name = other.resource_name
        if other.pattern_type == PatternType.LITERAL or is_wildcard(other.pattern_type, name):
            literals.add(name)
            if name == WILDCARD:
                prefixes.add(WILDCARD)  # the wildcard misses longer names that begin with it
        else:
            prefixes.add(name)
    starts = _find_starts(literals | prefixes)
    fresh = [each for each in (_extend(prefix, starts) for prefix in sorted(prefixes)) if each]
    own = "" if is_wildcard(acl.pattern_type, acl.resource_name) else acl.resource_name
    named = sorted(literals | prefixes)
    first = _extend(own, starts) if own in prefixes else ""
    candidates = dict.fromkeys(chain([first], fresh, named))
    return [
        name for name in candidates if name and matches(acl.pattern_type, acl.resource_name, name)
    ]


def _find_starts(names: Iterable[str]) -> dict[str, set[str]]:
    """Return, for each name, the characters that follow it in other names."""
    ordered = sorted(names)
    starts: dict[str, set[str]] = {name: set() for name in ordered}
    open_names: list[str] = []
    for name in ordered:
        while open_names and not name.startswith(open_names[-1]):
            open_names.pop()
        for shorter in open_names:
            starts[shorter].add(name[len(shorter)])
        open_names.append(name)
    return starts


def _extend(prefix: str, starts: dict[str, set[str]]) -> str:
    """Return a name that begins with ``prefix`` but not with any longer name; empty if there is
    none."""
    used = starts[prefix]
    for character in chain(_CHARACTERS, map(chr, _OTHER_CHARACTERS)):
        if character not in used:
            return prefix + character
    return ""
