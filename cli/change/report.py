"""A plan as lines for people, and its check by policy tests before and after it.

The modules for tests are imported only if there are tests, so that other plans start quickly.

**Invariant:** the lines depend only on the plan, and their order is always the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import to_builtins

from authorizerd.acl.explanation.model import AclChange
from authorizerd.acl.explanation.words import count_of, name_pattern, name_type
from authorizerd.acl.grants.reading import describe_note
from authorizerd.acl.model import WILDCARD, Acl, Operation, PermissionType
from authorizerd.acl.notes import is_note
from authorizerd.acl.snapshot import AclSnapshot
from authorizerd.acl.text.named_acl import name_acl, parse_acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acl_source import AclSource
from authorizerd.management.groups.claims import is_made_note
from authorizerd.management.plan.changes import AclChanges
from authorizerd.management.plan.document import Plan, PlanCheck
from authorizerd.management.plan.names import has_known_codes
from authorizerd.management.plan.selector import describe_selector

if TYPE_CHECKING:
    from authorizerd.cli.policy.results import Result

ENTRIES_SHOWN_MAX: Final = 20
"""The maximum number of managed entries in the report. The document has all."""


class Checked(NamedTuple):
    """The result of a check, and the lines about it for people."""

    result: PlanCheck
    lines: tuple[str, ...]


def describe_changes(
    changes: AclChanges, reasons: Mapping[Acl, tuple[str, ...]] | None = None
) -> Iterator[str]:
    """Yield the diff: each resource pattern, and below it the ACLs to create and to delete.

    What the notes of grants say comes at the end.

    Args:
        reasons: the groups that are the reason, for each ACL that groups give or no longer give.
    """
    why = reasons or {}
    shown = changes.without_notes
    signed = [("+", acl) for acl in shown.created] + [("-", acl) for acl in shown.deleted]
    ordered = sorted(signed, key=lambda each: (_pattern_of(each[1]), _entry_of(each[1]), each[0]))
    for (resource_type, name, pattern_type), group in groupby(
        ordered, key=lambda each: _pattern_of(each[1])
    ):
        yield f"{name_type(resource_type)} {name_pattern(pattern_type, name)}"
        for sign, acl in group:
            groups = f" ({', '.join(why[acl]) or 'a group'})" if acl in why else ""
            yield f"{sign}   {describe_entry(acl)}{escape_unprintable(groups)}"
    every = [("+", acl) for acl in changes.created] + [("-", acl) for acl in changes.deleted]
    notes = [
        f"{sign}   {describe_note(acl)}"
        for sign, acl in every
        if is_note(acl) and not is_made_note(acl)
    ]
    if notes:
        yield _NOTES
        yield from sorted(notes)


_NOTES: Final = "notes, which decide nothing; without its note, a grant's ACL has no end"


def _pattern_of(acl: Acl) -> tuple[int, str, int]:
    return acl.resource_type, acl.resource_name, acl.pattern_type


def _entry_of(acl: Acl) -> tuple[str, int, str, int]:
    return acl.principal, acl.operation, acl.host, acl.permission_type


def describe_entry(acl: Acl) -> str:
    """Return permission, principal, operation and host of an ACL, without its resource."""
    permission = PermissionType.read(acl.permission_type).name
    host = "any host" if acl.host == WILDCARD else acl.host
    return f"{permission} {acl.principal} {Operation.read(acl.operation).name} from {host}"


def describe_reasons(plan: Plan) -> Iterator[str]:
    for each in plan.reasons[:ENTRIES_SHOWN_MAX]:
        acl = parse_acl(each.acl)
        on = f"{name_type(acl.resource_type)} {name_pattern(acl.pattern_type, acl.resource_name)}"
        yield f"reason: {describe_entry(acl)} on {on}: {each.reason}"
    if len(plan.reasons) > ENTRIES_SHOWN_MAX:
        yield f"and {len(plan.reasons) - ENTRIES_SHOWN_MAX} more reasons, which the plan lists"


def summarize_changes(plan: Plan) -> str:
    steps = plan.changes
    if not steps.count:
        return f"nothing to do: {count_of(plan.leads_to.acls, 'ACL')}, as desired"
    shown = steps.without_notes
    created, deleted = len(shown.created), len(shown.deleted)
    notes = [len(steps.created) - created, len(steps.deleted) - deleted]
    and_notes = f", and notes: {notes[0]} to create, {notes[1]} to delete" if any(notes) else ""
    return (
        f"{count_of(created, 'ACL')} to create ({len(shown.create_deny)} DENY, "
        f"{len(shown.create_allow)} ALLOW), {deleted} to delete ({len(shown.delete_allow)} ALLOW, "
        f"{len(shown.delete_deny)} DENY){and_notes}: {plan.made_for.acls} before, "
        f"{plan.leads_to.acls} after"
    )


def describe_managed(plan: Plan) -> Iterator[str]:
    entries = describe_selector(plan.selector)
    if not entries:
        deleted = len(plan.changes.deleted)
        yield (
            f"this plan manages ALL ACLs: it deletes every ACL that is not desired, {deleted} of "
            f"{plan.made_for.acls}"
        )
        return
    yield "this plan manages only these ACLs:"
    for entry in entries[:ENTRIES_SHOWN_MAX]:
        yield f"  {entry}"
    if len(entries) > ENTRIES_SHOWN_MAX:
        yield f"  and {len(entries) - ENTRIES_SHOWN_MAX} more entries, which the plan lists"


def check_tests(files: Sequence[Path], source: AclSource, after: AclSnapshot) -> Checked | None:
    """Run the policy tests of these files. The plan breaks them if any test fails after it.

    Return None without files.
    """
    if not files:
        return None
    from authorizerd.cli.policy.document import read_policy_files
    from authorizerd.cli.policy.results import describe_undecided, run_tests

    tests = read_policy_files(files)
    results_before, results_after = (
        list(run_tests(tests, snapshot, source.settings, clock=time.monotonic))
        for snapshot in (source.snapshot, after)
    )
    failed = [each for each in results_after if not each.passed]
    broken = sum(
        earlier.passed and not later.passed
        for earlier, later in zip(results_before, results_after, strict=True)
    )
    summary = (
        f"{count_of(len(tests), 'policy test')} after this plan: {len(tests) - len(failed)} "
        f"passed, {len(failed)} failed"
    )
    if failed:
        summary += f", {broken} of them because of it{describe_undecided(results_after)}"
    result = PlanCheck(
        name="tests",
        breaks=bool(failed),
        summary=summary,
        counts={
            "tests": len(tests),
            "failed_before": sum(not each.passed for each in results_before),
            "failed_after": len(failed),
        },
        broken=tuple(map(_describe_broken, failed)),
        notes=tuple(_find_notes(results_before, results_after)),
    )
    return Checked(result, tuple(_describe(results_before, results_after, result)))


def _describe_broken(result: Result) -> str:
    test = result.test
    found = (
        [f"found {'; '.join(reason.text for reason in result.reasons)}"] if result.reasons else []
    )
    found += [f"unknown {key}" for key in result.unknown]
    return escape_unprintable(f"{test.source}:{test.line}: {test.title}: {', '.join(found)}")


def _find_notes(before: list[Result], after: list[Result]) -> Iterator[str]:
    """Yield the notes that passed tests have both before and after the plan.

    A note that appears only after the plan is normal: the plan may remove a principal's last ACL.
    """
    for earlier, later in zip(before, after, strict=True):
        test = later.test
        for note in later.notes:
            if later.passed and note in earlier.notes:
                yield escape_unprintable(f"{test.source}:{test.line}: {test.title}: {note}")


def _describe(before: list[Result], after: list[Result], result: PlanCheck) -> Iterator[str]:
    from authorizerd.cli.policy.results import describe_result

    for earlier, later in zip(before, after, strict=True):
        if later.passed:
            continue
        yield from describe_result(later, _propose)
        if not earlier.passed:
            yield "      it also fails without this plan"
    yield from (f"note: {note}" for note in result.notes)


def _propose(change: AclChange) -> str:
    """Return the line that proposes a change of the files: the plan would undo any other change."""
    acl = change.acl
    verb = "add to" if change.adds else "remove from"
    named = json.dumps(to_builtins(name_acl(acl))) if has_known_codes(acl) else str(acl)
    return f"change:   {verb} the desired ACLs: {named}"
