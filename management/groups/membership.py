"""The members of groups, without the groups in between.

**Invariant:** no member is left out or guessed. A member that is not exactly a principal, an
unknown group, a circle and an unexpectedly empty group are errors, so nothing is planned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from authorizerd.acl.notes import NOTE_PRINCIPAL
from authorizerd.acl.text.letter_case import ascii_lower
from authorizerd.acl.text.typos import find_similar
from authorizerd.management.groups.errors import GroupsError

GROUP: Final = "Group:"
"""How the principal of an ACL begins if it names a group."""

_LEVELS_MAX: Final = 32
_TYPES: Final = {"group": "Group", "user": "User"}
"""Types whose spelling matters: Kafka knows only this one."""


class Membership(msgspec.Struct, frozen=True):
    """The principals of each group, by its name without ``Group:``."""

    groups: Mapping[str, frozenset[str]]


def find_group(principal: str) -> str | None:
    """Return the name of the group that a principal names, or None."""
    return principal.removeprefix(GROUP) if principal.startswith(GROUP) else None


def find_member_fault(member: str) -> str | None:
    """Return why a text can be no member of a group, or None."""
    kind, colon, name = member.partition(":")
    if not (colon and kind and name):
        return f"expected Type:name, for example User:alice, found {member!r}"
    usual = _TYPES.get(ascii_lower(kind), kind)
    if usual != kind:
        return f"expected {usual}:{name}, found {member!r}: Kafka compares letter case"
    if name == "*":
        return f"expected one principal, found {member}: a group cannot contain everyone"
    if member == NOTE_PRINCIPAL:
        return f"expected a principal of clients, found {member}, which only notes have"
    if member != member.strip() or name != name.strip() or not member.isprintable():
        return f"expected a name without blanks around it and control characters, found {member!r}"
    return None


def resolve_groups(
    direct: Mapping[str, Iterable[str]], names: Collection[str], may_be_empty: Collection[str] = ()
) -> Membership:
    """Return the principals of the groups ``names``, with those of the groups in them.

    Args:
        direct: the direct members of each group: principals, and groups as ``Group:name``.
        may_be_empty: the groups that may have no members.
    """
    found: dict[str, frozenset[str]] = {}

    def resolve(name: str, path: tuple[str, ...]) -> frozenset[str]:
        if name in path:
            circle = " > ".join((*path[path.index(name) :], name))
            raise GroupsError(f"group {name}", f"the groups contain each other: {circle}")
        if name in found:
            return found[name]
        if len(path) == _LEVELS_MAX:
            raise GroupsError(f"group {path[0]}", f"nested more than {_LEVELS_MAX} levels deep")
        if name not in direct:
            raise _new_unknown(name, path, direct)
        members: set[str] = set()
        for member in direct[name]:
            fault = find_member_fault(member)
            if fault is not None:
                raise GroupsError(f"group {name}", fault)
            group = find_group(member)
            members |= {member} if group is None else resolve(group, (*path, name))
        if not members and name not in may_be_empty:
            raise GroupsError(
                f"group {name}",
                "it has no members: if this is intended, add its name to may_be_empty, or remove "
                "its ACLs from the desired files",
                "empty",
            )
        found[name] = frozenset(members)
        return found[name]

    return Membership({name: resolve(name, ()) for name in sorted(names)})


def _new_unknown(name: str, path: tuple[str, ...], known: Iterable[str]) -> GroupsError:
    place = f"group {path[-1]}" if path else "desired ACLs"
    similar = find_similar(name, known)
    meant = f" (did you mean {similar}?)" if similar is not None else ""
    return GroupsError(
        place, f"no group has the name {name!r}{meant}: names are compared exactly; add the group"
    )
