"""The output of ``authorizerd acls``, byte for byte as kafka-acls prints it.

Only the order differs, because kafka-acls iterates over hash tables (``formats.listing``). If
``--principal`` is given several times, the principals are listed in the given order.

Source: Kafka 4.3 AclCommand; ResourcePattern, AccessControlEntry and AclBinding.toString.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from authorizerd.acl.formats.listing import (
    format_acls,
    format_entries,
    format_entry,
    format_pattern,
)
from authorizerd.acl.model import Acl, AclFilter
from authorizerd.cli.acls.plan import Group


def _format_pattern(pattern: Acl | AclFilter) -> str:
    return format_pattern(pattern.resource_type, pattern.resource_name, pattern.pattern_type)


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
    return f"Adding ACLs for resource `{_format_pattern(acls[0])}`: \n {format_entries(acls)}\n\n"


def format_existing(acl: Acl) -> str:
    """Return the note that an ACL exists already."""
    return f"Acl (pattern={_format_pattern(acl)}, entry={format_entry(acl)}) already exists.\n"


def format_question(group: Group) -> str:
    """Return the confirmation question before a group is removed."""
    pattern = _format_pattern(group.pattern)
    if not group.entries:
        return f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)\n"
    return (
        f"Are you sure you want to remove ACLs: \n {format_entries(group.entries)}\n"
        f" from resource filter `{pattern}`? (y/n)\n"
    )
