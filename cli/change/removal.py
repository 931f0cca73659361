"""``authorizerd acls remove --principal PRINCIPAL``: remove all ACLs that flags select.

It is a plan without desired ACLs, which is applied at once: ALLOW rules first, and nothing if the
ACLs have changed since they were shown.

Exit codes: those of ``acls apply``. A question that is answered with no ends with exit code 0.
"""

from __future__ import annotations

import argparse
import sys

from authorizerd.acl.explanation.words import count_of
from authorizerd.cli import flags
from authorizerd.cli.acl_source import SourceRequest, open_source
from authorizerd.cli.change.applying import (
    NO_LOG,
    ApplyRequest,
    add_batches_argument,
    check_size,
    execute_plan,
    use_servers,
)
from authorizerd.cli.change.planning import change_snapshot, propose
from authorizerd.cli.change.report import describe_changes
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import print_lines, warn
from authorizerd.cli.selection_flags import Selection, add_selection_flags, read_selection
from authorizerd.cli.source_settings import add_setting_arguments
from authorizerd.management.plan.changes import make_changes
from authorizerd.management.plan.selector import Selector


def add_remove_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_remove, refuse=parser.error, advice=NO_LOG)
    title = "which ACLs: flags of principals and of resources narrow each other"
    add_selection_flags(parser.add_argument_group(title))
    flags.add_switch(parser, "--force", "do not ask for confirmation")
    flags.add_switch(parser, "--dry-run", "show the ACLs, and remove nothing")
    add_batches_argument(parser)
    flags.add_json_argument(parser)
    group = parser.add_argument_group("where the ACLs are")
    flags.add_broker_arguments(group, "Removing ACLs needs ALTER and DESCRIBE on the cluster")
    add_setting_arguments(group)


def _remove(given: argparse.Namespace) -> int:
    request = use_servers(flags.read_request(ApplyRequest, given), given.refuse)
    source = flags.read_request(
        SourceRequest,
        given,
        bootstrap_server=request.bootstrap_server,
        command_config=request.command_config,
    )
    return remove_acls(request, source, read_selection(given), force=given.force)


def remove_acls(
    request: ApplyRequest, source_request: SourceRequest, selection: Selection, *, force: bool
) -> int:
    """Show the ACLs, ask, remove them, and return the exit code."""
    entries = selection.read_entries()
    if not entries:
        source_request.refuse("expected flags that select ACLs, such as --principal User:alice")
    source = open_source(source_request)
    selector = Selector(entries)
    changes = make_changes(source.snapshot.acls.values(), (), selector)
    after = change_snapshot(source.snapshot, changes)
    plan = propose(source, after, changes, selector)
    check_size(plan, "", batches=request.batches)
    if not request.json:
        print_lines(describe_changes(changes))
    for text in plan.warnings:
        warn(f"warning: {text}")
    if not changes.count:
        warn("no ACL is removed: none matches the flags")
    elif not (force or request.dry_run or _agrees(changes.count)):
        warn("nothing was changed")
        return 0
    return execute_plan(plan, request)


def _agrees(count: int) -> bool:
    """Ask on standard error, and return True if the answer is y."""
    sys.stdout.flush()
    sys.stderr.write(f"Are you sure you want to remove {count_of(count, 'ACL')}? (y/n)\n")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        raise CommandError("the question was not answered: pass --force to remove without it")
    return answer.rstrip("\r\n") in ("y", "Y")
