"""Suggest grants to remove, and narrower replacements for wide grants.

**Invariant:** a suggestion removes grants, never denials. The ACLs that replace a wide grant permit
only what it permitted, so a suggested set allows nothing that the old one denied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, Self

import msgspec

from authorizerd.acl.kafka_acls import why_inexpressible
from authorizerd.acl.model import RESOURCE_TYPES, WILDCARD, Acl, PatternType, PermissionType
from authorizerd.acl.patterns import Patterns, is_wildcard, look_up, prefix_lengths
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.judging.index import AclIndex
from authorizerd.replay.judging.report import Count


class AclUsage(NamedTuple):
    """The use of one ACL: ``alone`` means that no other ACL gave the same decision.

    ``last_ms`` is milliseconds since 1970. ``names`` are the first names, in order, that a wide ACL
    was used for; ``names_count`` counts all of them, ``name_min`` and ``name_max`` are the first
    and the last. They are empty, 0 and None for an ACL that is not wide.
    """

    alone: Count
    with_others: Count
    last_ms: int
    names_count: int
    name_min: str | None
    name_max: str | None
    names: tuple[str, ...]

    @property
    def events(self) -> int:
        return self.alone.events + self.with_others.events


class Narrowing(NamedTuple):
    """A wide grant, and narrower ones for the ``names_count`` names that it was used for."""

    wide: Acl
    names_count: int
    narrower: tuple[Acl, ...]


class LeftOut(NamedTuple):
    """A grant that is kept for ``reason``, although its use suggests a change."""

    acl: Acl
    reason: str


class Suggestions(NamedTuple):
    """Changes to a set of ACLs."""

    removals: tuple[Acl, ...] = ()
    narrowings: tuple[Narrowing, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def taken(self) -> Iterator[Acl]:
        """Yield the ACLs that the suggestions remove or replace."""
        yield from self.removals
        for narrowing in self.narrowings:
            yield narrowing.wide

    def resulting(self, acls: Iterable[Acl]) -> tuple[Acl, ...]:
        """Return the changed set: the ACLs that stay, in their order, then the new ones."""
        taken = set(self.taken())
        staying = (acl for acl in acls if acl not in taken)
        new = (acl for narrowing in self.narrowings for acl in narrowing.narrower)
        # A new ACL may equal one that stays.
        return tuple(dict.fromkeys((*staying, *new)))

    def without(self, reasons: Mapping[Acl, str]) -> Self:
        """Return the suggestions without those for the ACLs in ``reasons``, which are kept."""
        left_out = tuple(LeftOut(acl, reasons[acl]) for acl in self.taken() if acl in reasons)
        return type(self)(
            tuple(acl for acl in self.removals if acl not in reasons),
            tuple(item for item in self.narrowings if item.wide not in reasons),
            self.left_out + left_out,
        )


def is_wide(acl: Acl) -> bool:
    """Return True if ``acl`` is an ALLOW for more than one name."""
    return acl.permission_type == PermissionType.ALLOW and (
        acl.pattern_type == PatternType.PREFIXED or is_wildcard(acl.pattern_type, acl.resource_name)
    )


def suggest(
    judged: Collection[Acl], usage: Mapping[Acl, AclUsage], *, names_max: int
) -> Suggestions:
    """Return the suggestions for ``judged``, the ACLs in force for the whole window."""
    removals: list[Acl] = []
    narrowings: list[Narrowing] = []
    reasons: dict[Acl, str] = {}
    for acl in judged:
        if acl.permission_type != PermissionType.ALLOW:
            continue
        used = usage.get(acl)
        narrower = () if used is None else narrower_acls(acl, used, names_max=names_max)
        if used is None:
            removals.append(acl)
        elif narrower:
            narrowings.append(Narrowing(acl, used.names_count, narrower))
        else:
            continue
        reason = next(filter(None, map(why_inexpressible, (acl, *narrower))), None)
        if reason is not None:
            reasons[acl] = reason
    return Suggestions(tuple(removals), tuple(narrowings)).without(reasons)


def narrower_acls(wide: Acl, used: AclUsage, *, names_max: int) -> tuple[Acl, ...]:
    """Return narrower ACLs that match every name that ``wide`` was used for.

    There is one ACL for each name. If there are too many names, there is one ACL for their common
    prefix, or none if that prefix is not narrower.
    """
    if not is_wide(wide):
        return ()
    if used.names_count <= names_max:
        # A literal "*" is the wildcard, and Kafka rejects ACLs for the empty name.
        if WILDCARD in used.names or "" in used.names:
            return ()
        return tuple(_with_pattern(wide, PatternType.LITERAL, name) for name in used.names)
    assert used.name_min is not None and used.name_max is not None  # noqa: PT018
    prefix = _common_prefix(used.name_min, used.name_max)
    if is_wildcard(wide.pattern_type, wide.resource_name):
        # The wildcard does not match names such as "*a", which a prefix "*" would.
        is_narrower = prefix != "" and not prefix.startswith(WILDCARD)
    else:
        is_narrower = len(prefix) > len(wide.resource_name)
    return (_with_pattern(wide, PatternType.PREFIXED, prefix),) if is_narrower else ()


def _common_prefix(first: str, last: str) -> str:
    """Return the common prefix of two names, and so of all names that sort between them."""
    length = 0
    for one, other in zip(first, last, strict=False):
        if one != other:
            break
        length += 1
    return first[:length]


def _with_pattern(acl: Acl, pattern_type: PatternType, name: str) -> Acl:
    return msgspec.structs.replace(acl, pattern_type=int(pattern_type), resource_name=name)


def keep_resources_closed(acl_set: AclSet, suggestions: Suggestions) -> Suggestions:
    """Return the suggestions that leave every resource with an ACL.

    With allow.everyone.if.no.acl.found, a resource without ACLs is open to everyone. The record may
    contain no request for it, so comparing answers would not find this.
    """
    if not acl_set.allow_everyone_if_no_acl_found:
        return suggestions
    resulting = suggestions.resulting(item.acl for item in acl_set.acls)
    types = AclIndex(resulting, acl_set.settings).snapshot.types
    return suggestions.without(
        {
            acl: "it is the last ACL of resources that allow.everyone.if.no.acl.found would open"
            for acl in suggestions.taken()
            if acl.resource_type in RESOURCE_TYPES
            and not _covers(types[acl.resource_type].resources, acl)
        }
    )


def _covers(resources: Patterns, acl: Acl) -> bool:
    """Return True if every name that ``acl`` matches also matches a pattern of ``resources``."""
    name = acl.resource_name
    if is_wildcard(acl.pattern_type, name):
        return bool(resources.wildcard or resources.prefixes.get("", 0))
    if acl.pattern_type == PatternType.LITERAL:
        return bool(look_up(resources, name))
    # The wildcard does not match names such as "*a", which a prefix "*" matches.
    if resources.wildcard and name and not name.startswith(WILDCARD):
        return True
    return any(resources.prefixes.get(name[:length], 0) for length in prefix_lengths(resources))
