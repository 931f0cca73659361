"""A plan as lines for people: a diff by resource, counts, what is managed, warnings and checks.

**Invariant:** the lines depend only on the plan, and their order is always the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from authorizerd.acl.explanation.words import count_of, name_pattern, name_type
from authorizerd.acl.model import WILDCARD, Acl, Operation, PermissionType
from authorizerd.acl.plan.changes import AclChanges
from authorizerd.acl.plan.document import Plan
from authorizerd.acl.plan.selector import describe_selector

ENTRIES_SHOWN_MAX: Final = 20
"""The most entries of what is managed that the report shows. The document has all."""


def describe_changes(changes: AclChanges) -> Iterator[str]:
    """Yield the diff: each resource pattern, and below it the ACLs to create and to delete."""
    signed = [("+", acl) for acl in changes.created] + [("-", acl) for acl in changes.deleted]
    ordered = sorted(signed, key=lambda each: (_pattern_of(each[1]), _entry_of(each[1]), each[0]))
    for (resource_type, name, pattern_type), group in groupby(
        ordered, key=lambda each: _pattern_of(each[1])
    ):
        yield f"{name_type(resource_type)} {name_pattern(pattern_type, name)}"
        for sign, acl in group:
            yield f"{sign}   {describe_entry(acl)}"


def _pattern_of(acl: Acl) -> tuple[int, str, int]:
    return acl.resource_type, acl.resource_name, acl.pattern_type


def _entry_of(acl: Acl) -> tuple[str, int, str, int]:
    return acl.principal, acl.operation, acl.host, acl.permission_type


def describe_entry(acl: Acl) -> str:
    """Return permission, principal, operation and host of an ACL, without its resource."""
    permission = PermissionType.read(acl.permission_type).name
    host = "any host" if acl.host == WILDCARD else acl.host
    return f"{permission} {acl.principal} {Operation.read(acl.operation).name} from {host}"


def summarize_changes(plan: Plan) -> str:
    """Return the line with the number of changes of each kind."""
    steps = plan.steps
    if not plan.changes.count:
        return f"nothing to do: {count_of(plan.leads_to.acls, 'ACL')}, as desired"
    created, deleted = len(plan.changes.created), len(plan.changes.deleted)
    return (
        f"{count_of(created, 'ACL')} to create ({len(steps.create_deny)} DENY, "
        f"{len(steps.create_allow)} ALLOW), {deleted} to delete ({len(steps.delete_allow)} ALLOW, "
        f"{len(steps.delete_deny)} DENY): {plan.made_for.acls} before, {plan.leads_to.acls} after"
    )


def describe_managed(plan: Plan) -> Iterator[str]:
    """Yield what the plan manages."""
    entries = describe_selector(plan.selector)
    if not entries:
        deleted = len(plan.changes.deleted)
        yield (
            "this plan manages ALL ACLs: each one that is not desired is to be deleted, "
            f"{deleted} of {plan.made_for.acls}"
        )
        return
    yield "this plan manages only these ACLs:"
    for entry in entries[:ENTRIES_SHOWN_MAX]:
        yield f"  {entry}"
    if len(entries) > ENTRIES_SHOWN_MAX:
        yield f"  and {len(entries) - ENTRIES_SHOWN_MAX} more entries, which the plan lists"
