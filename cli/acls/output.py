"""The output of ``authorizerd acls``, byte for byte as kafka-acls prints it.

Only the order differs, because kafka-acls iterates over hash tables. Here patterns are sorted by
resource type code, name and pattern type; ACLs by principal, host, operation code and permission
code. If ``--principal`` is given several times, the principals are listed in the given order.

Source: Kafka 4.3 AclCommand; ResourcePattern, AccessControlEntry and AclBinding.toString.
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


def format_pattern(pattern: Acl | AclFilter) -> str:
    """Return a resource pattern as Java prints it."""
    return _format_pattern(pattern.resource_type, pattern.resource_name, pattern.pattern_type)


def _format_pattern(resource_type: int, name: str | None, pattern_type: int) -> str:
    return (
        f"ResourcePattern(resourceType={ResourceType.read(resource_type).name}, name={name}, "
        f"patternType={PatternType.read(pattern_type).name})"
    )


def format_entry(entry: Acl | Entry) -> str:
    """Return an ACL without its resource pattern, as Java prints it."""
    return (
        f"(principal={entry.principal}, host={entry.host}, "
        f"operation={Operation.read(entry.operation).name}, "
        f"permissionType={PermissionType.read(entry.permission_type).name})"
    )


def _format_entries(entries: Iterable[Acl | Entry]) -> str:
    return "\n".join(f"\t{format_entry(entry)}" for entry in entries)


def format_acls(acls: Iterable[Acl]) -> str:
    """Return the ACLs grouped by pattern. Unknown codes are shown as UNKNOWN."""
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
        f"Current ACLs for resource `{_format_pattern(*pattern)}`:\n"
        f"{_format_entries(sorted(entries))}\n\n"
        for pattern, entries in sorted(entries_by_pattern.items())
    )


def format_by_principal(acls: Iterable[Acl], principals: Sequence[str]) -> str:
    """Return each principal's ACLs under a heading."""
    acls_by_principal: dict[str, list[Acl]] = {principal: [] for principal in principals}
    for acl in acls:
        if acl.principal in acls_by_principal:
            acls_by_principal[acl.principal].append(acl)
    return "".join(
        f"ACLs for principal `{principal}`\n{format_acls(theirs)}"
        for principal, theirs in acls_by_principal.items()
    )


def format_addition(acls: Sequence[Acl]) -> str:
    """Return the announcement of the ACLs that will be created; all have the same pattern."""
    return f"Adding ACLs for resource `{format_pattern(acls[0])}`: \n {_format_entries(acls)}\n\n"


def format_existing(acl: Acl) -> str:
    """Return the note that an ACL exists already."""
    return f"Acl (pattern={format_pattern(acl)}, entry={format_entry(acl)}) already exists.\n"


def format_question(group: Group) -> str:
    """Return the confirmation question before a group is removed."""
    pattern = format_pattern(group.pattern)
    if not group.entries:
        return f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)\n"
    return (
        f"Are you sure you want to remove ACLs: \n {_format_entries(group.entries)}\n"
        f" from resource filter `{pattern}`? (y/n)\n"
    )
