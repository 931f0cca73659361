"""``authorizerd acls remove --principal PRINCIPAL``: remove all ACLs that the flags select.

It immediately applies a plan without desired ACLs: ALLOW rules are removed first, and nothing is
    removed if the ACLs have changed since they were shown.

Exit codes: those of ``acls apply``. If the user answers no, the exit code is 0.
"""

from __future__ import annotations

import sys

from authorizerd.acl.explanation.words import count_of
from authorizerd.cli.acl_source import SourceRequest, open_source
from authorizerd.cli.change.applying import ApplyRequest, execute_plan
from authorizerd.cli.change.planning import change_snapshot, propose
from authorizerd.cli.change.report import describe_changes
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import print_lines, warn
from authorizerd.cli.selection_flags import Selection
from authorizerd.management.groups.changes import GovernedChanges
from authorizerd.management.plan.changes import check_size, make_changes
from authorizerd.management.plan.selector import Selector


def remove_acls(
    request: ApplyRequest, source_request: SourceRequest, selection: Selection, *, force: bool
) -> int:
    entries = selection.read_entries()
    if not entries:
        source_request.refuse("expected flags that select ACLs, such as --principal User:alice")
    source = open_source(source_request)
    selector = Selector(entries)
    changes = make_changes(source.snapshot.acls.values(), (), selector)
    after = change_snapshot(source.snapshot, changes)
    plan = propose(source, after, GovernedChanges(changes=changes), selector)
    check_size(changes, batches=request.batches)
    if not request.json:
        print_lines(describe_changes(changes))
    for text in plan.warnings:
        warn(f"warning: {text}")
    if not changes.count:
        warn("no ACLs were removed: none matches the flags")
    elif not (force or request.dry_run or _agrees(changes.count)):
        warn("nothing was changed")
        return 0
    return execute_plan(plan, request)


def _agrees(count: int) -> bool:
    sys.stdout.flush()
    sys.stderr.write(f"Are you sure you want to remove {count_of(count, 'ACL')}? (y/n)\n")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        raise CommandError("the question was not answered: pass --force to remove without it")
    return answer.rstrip("\r\n") in ("y", "Y")
