"""Expand the ACLs of groups: each gives one ACL to each member, with all else unchanged.

**Invariant:** the expanded ACLs decide as Kafka would if it knew groups: an ACL of a group matches
a request exactly if the ACL of the request's principal does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import astuple, replace

from authorizerd.acl.model import Acl
from authorizerd.acl.text.letter_case import ascii_lower
from authorizerd.acl.validation import find_creation_fault
from authorizerd.management.groups.errors import GroupsError
from authorizerd.management.groups.membership import GROUP, Membership, find_group

ACLS_MAX: Final = 250_000
"""The maximum number of ACLs that all groups together may give."""


class Expansion(msgspec.Struct, frozen=True):
    """What groups give.

    Attributes:
        given: the ACLs, with the names of the groups that give each.
        entries: the groups' own ACLs without their principals, with the names of their groups.
        members: the number of principals in all groups.
    """

    given: Mapping[Acl, tuple[str, ...]]
    entries: Mapping[Acl, tuple[str, ...]]
    members: int = 0

    def find_reason(self, acl: Acl) -> tuple[str, ...]:
        """Return the groups that give an ACL, or that give it to other members."""
        return self.given.get(acl) or self.find_makers(acl)

    def find_makers(self, acl: Acl) -> tuple[str, ...]:
        """Return the groups that give an ACL, or its like, to any member."""
        return self.entries.get(replace(acl, principal=""), ())


def find_groups(acls: Iterable[Acl]) -> list[str]:
    """Return the names of all groups that ACLs name, sorted."""
    return sorted({group for acl in acls if (group := find_group(acl.principal)) is not None})


def expand(acls: Collection[Acl], membership: Membership) -> Expansion:
    """Return what the groups' ACLs among ``acls`` give; other ACLs are ignored."""
    _check_spelling(acls)
    own = [
        (group, acl)
        for acl in sorted(set(acls), key=astuple)
        if (group := find_group(acl.principal)) is not None
    ]
    _check_count(own, membership)
    given: dict[Acl, list[str]] = {}
    entries: dict[Acl, list[str]] = {}
    for group, acl in own:
        entries.setdefault(replace(acl, principal=""), []).append(group)
        for member in sorted(membership.groups[group]):
            made = replace(acl, principal=member)
            fault = find_creation_fault(made)
            if fault is not None:
                raise GroupsError(f"group {group}", f"Kafka would refuse to create {made}: {fault}")
            given.setdefault(made, []).append(group)
    members = {member for group, _ in own for member in membership.groups[group]}
    return Expansion(_freeze(given), _freeze(entries), len(members))


def _freeze(groups: Mapping[Acl, list[str]]) -> dict[Acl, tuple[str, ...]]:
    return {acl: tuple(names) for acl, names in groups.items()}


def _check_spelling(acls: Iterable[Acl]) -> None:
    """Raise GroupsError for a principal such as ``group:a``: its DENY would apply to nobody."""
    for acl in acls:
        kind, _, name = acl.principal.partition(":")
        if ascii_lower(kind.strip()) == "group" and find_group(acl.principal) is None:
            raise GroupsError("desired ACLs", f"expected {GROUP}{name}, found {acl.principal!r}")


def _check_count(own: Iterable[tuple[str, Acl]], membership: Membership) -> None:
    """Raise GroupsError before a product is made that is too large."""
    entries: dict[str, int] = {}
    for group, _ in own:
        entries[group] = entries.get(group, 0) + 1
    counts = {group: number * len(membership.groups[group]) for group, number in entries.items()}
    total = sum(counts.values())
    if total <= ACLS_MAX:
        return
    largest = max(counts, key=lambda group: counts[group])
    raise GroupsError(
        f"group {largest}",
        f"{entries[largest]:,} ACLs for {len(membership.groups[largest]):,} members make "
        f"{counts[largest]:,} ACLs, and all groups make {total:,}: expected at most {ACLS_MAX:,}. "
        "Give the group fewer ACLs: one prefix in place of many names, ALL in place of many "
        "operations, * in place of many hosts; or let its members share a principal",
    )
