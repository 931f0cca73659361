"""The output of ``authorizerd acls``, byte for byte as kafka-acls prints it.

Only the order of lines is our own, because kafka-acls has none: Kafka keeps patterns and ACLs in
hash tables whose keys hash enumerations by identity, so two runs of one command print different
orders. Here patterns are sorted by their type's code, name and pattern type, ACLs by principal,
host, and the codes of operation and permission. Only the headings of several ``--principal`` have
an order in Kafka, that of a HashSet of strings, and it is reproduced.

Source: Kafka 4.3 AclCommand; ResourcePattern, AccessControlEntry and AclBinding.toString;
KafkaPrincipal.hashCode; OpenJDK 17 HashMap, String.hashCode.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from authorizerd.acl.model import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.cli.acls.plan import Entry, Group

_HASH_BITS = 0xFFFFFFFF
_TABLE_SIZE = 16


def pattern_text(pattern: Acl | AclFilter) -> str:
    return _pattern_text(pattern.resource_type, pattern.resource_name, pattern.pattern_type)


def _pattern_text(resource_type: int, name: str | None, pattern_type: int) -> str:
    return (
        f"ResourcePattern(resourceType={ResourceType.read(resource_type).name}, name={name}, "
        f"patternType={PatternType.read(pattern_type).name})"
    )


def entry_text(entry: Acl | Entry) -> str:
    return (
        f"(principal={entry.principal}, host={entry.host}, "
        f"operation={Operation.read(entry.operation).name}, "
        f"permissionType={PermissionType.read(entry.permission_type).name})"
    )


def _lines(entries: Iterable[Acl | Entry]) -> str:
    return "\n".join(f"\t{entry_text(entry)}" for entry in entries)


def listed(acls: Iterable[Acl]) -> str:
    """Return ACLs pattern by pattern. All codes from the future are shown as UNKNOWN."""
    entries_by_pattern: dict[tuple[int, str, int], set[Entry]] = defaultdict(set)
    for acl in acls:
        pattern = (
            ResourceType.read(acl.resource_type),
            acl.resource_name,
            PatternType.read(acl.pattern_type),
        )
        entry = Entry(
            acl.principal,
            acl.host,
            Operation.read(acl.operation),
            PermissionType.read(acl.permission_type),
        )
        entries_by_pattern[pattern].add(entry)
    return "".join(
        f"Current ACLs for resource `{_pattern_text(*pattern)}`:\n{_lines(sorted(entries))}\n\n"
        for pattern, entries in sorted(entries_by_pattern.items())
    )


def listed_by_principal(acls: Iterable[Acl], principals: Sequence[str]) -> str:
    """Return each principal's ACLs under a heading."""
    acls_by_principal: dict[str, list[Acl]] = {
        principal: [] for principal in _in_set_order(principals)
    }
    for acl in acls:
        if acl.principal in acls_by_principal:
            acls_by_principal[acl.principal].append(acl)
    return "".join(
        f"ACLs for principal `{principal}`\n{listed(theirs)}"
        for principal, theirs in acls_by_principal.items()
    )


def adding(acls: Sequence[Acl]) -> str:
    """Return the announcement of ACLs, all of one pattern, that are about to be created."""
    return f"Adding ACLs for resource `{pattern_text(acls[0])}`: \n {_lines(acls)}\n\n"


def existing(acl: Acl) -> str:
    """Return the note that an ACL exists already."""
    return f"Acl (pattern={pattern_text(acl)}, entry={entry_text(acl)}) already exists.\n"


def question(group: Group) -> str:
    """Return the confirmation question before a group is removed."""
    pattern = pattern_text(group.pattern)
    if not group.entries:
        return f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)\n"
    return (
        f"Are you sure you want to remove ACLs: \n {_lines(group.entries)}\n"
        f" from resource filter `{pattern}`? (y/n)\n"
    )


def _in_set_order(principals: Iterable[str]) -> list[str]:
    """Return the distinct principals in the iteration order of a Java HashSet.

    A HashSet grows until it is at most three quarters full. (The order differs if more than eight
    entries share a bucket, which Java turns into a tree.)
    """
    distinct = list(dict.fromkeys(principals))
    size = _TABLE_SIZE
    while len(distinct) > size // 4 * 3:
        size *= 2
    return sorted(distinct, key=lambda principal: _spread_hash(principal) % size)


def _spread_hash(principal: str) -> int:
    principal_type, _, name = principal.partition(":")
    hashed = (31 * _string_hash(principal_type) + _string_hash(name)) & _HASH_BITS
    return hashed ^ hashed >> 16


def _string_hash(text: str) -> int:
    hashed = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & _HASH_BITS
    return hashed
