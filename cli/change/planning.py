"""``authorizerd acls plan DESIRED…``: which ACLs would have to change, and what that would break.

Exit codes: 0 nothing to do, 1 a fault, 2 invalid arguments, 3 a check fails, 10 changes. With exit
code 3, the plan is also written: it lists what it would break, and ``acls apply`` refuses it.

**Invariant:** only the file of ``--out`` is changed. It is replaced atomically, and only if it is
an earlier plan, so no hand-written file is lost. The same ACLs, files and flags give the same plan.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl, AclAdded, AclRemoved, Change
from authorizerd.acl.snapshot import AclSnapshot, apply_changes
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.acl_file import is_log, parse_acls, read_acls, read_text
from authorizerd.cli.acl_source import AclSource, SourceRequest, open_source
from authorizerd.cli.change import report
from authorizerd.cli.change.traffic import TrafficRequest, check_traffic
from authorizerd.cli.errors import CommandError
from authorizerd.cli.groups.reading import describe_governed, read_groups, read_membership
from authorizerd.cli.output import print_lines
from authorizerd.cli.policy.faults import FaultyFileError
from authorizerd.cli.selection_flags import Selection
from authorizerd.cli.transfer.text_place import find_writable, new_error, write_text
from authorizerd.management.formats.model import AclsRead, Scope
from authorizerd.management.formats.unread import find_placeholder
from authorizerd.management.groups.changes import (
    GovernedChanges,
    GroupOutcome,
    GroupSet,
    make_governed_changes,
)
from authorizerd.management.groups.expansion import expand, find_groups
from authorizerd.management.groups.membership import Membership, find_group
from authorizerd.management.plan import document
from authorizerd.management.plan.changes import AclChanges, check_size
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.names import has_known_codes
from authorizerd.management.plan.selector import Managed, Selector, manage_one
from authorizerd.management.plan.state import change_digest, digest_acls
from authorizerd.management.plan.warnings import Proposal, find_warnings

if TYPE_CHECKING:  # it loads PyYAML
    from authorizerd.management.groups.file import GroupsFile

_START: Final = re.compile(rf'\s*\{{\s*"format"\s*:\s*"{re.escape(document.FORMAT)}"')
_START_BYTES: Final = 1_024
_FOR_NO_ACLS: Final = "if there should be no ACLs, write 'acls: []' into a .yaml file"
_FOR_OTHERS: Final = "if this kind of file has no ACLs, leave it out, or pass --accept-losses"


def read_desired(path: Path, *, accepts_losses: bool) -> AclsRead:
    """Return the desired ACLs of a file. Blocks.

    An empty file is an error, because a failed listing leaves an empty file. A pipe is read once.

    Args:
        accepts_losses: whether a file, or a document in it, may be entirely unreadable.
    """
    if is_log(path):
        return read_acls(path)
    text = read_text(path)
    if is_plan(text):
        raise CommandError(
            f"{path}: expected desired ACLs, found a plan: apply it with 'authorizerd acls apply'"
        )
    if not text.strip():
        raise CommandError(f"{path}: expected desired ACLs, found an empty file: {_FOR_NO_ACLS}")
    read = parse_acls(path, text, path.suffix)
    if not accepts_losses:
        _check_understood(path, read)
    return read


def _check_understood(path: Path, read: AclsRead) -> None:
    """Raise CommandError if nothing was read of a file or document, or a name is a placeholder."""
    for loss in read.losses:
        if loss.is_document:
            raise CommandError(f"{path}: {loss}: {_FOR_OTHERS}")
    for acl in read.acls:
        for name in (acl.principal, acl.resource_name, acl.host):
            if placeholder := find_placeholder(name):
                raise CommandError(
                    f"{path}: a name has the placeholder {escape_unprintable(placeholder)}: "
                    "replace it first, for example by helm template or envsubst, or pass "
                    "--accept-losses if it is part of the name"
                )
    if read.is_empty and read.losses:
        raise CommandError(
            f"{path}: expected desired ACLs, found none that can be read: {read.losses[0]}"
        )
    if read.is_empty:
        raise CommandError(
            f"{path}: expected desired ACLs, found neither ACLs nor what the file manages: "
            f"{_FOR_NO_ACLS}; {_FOR_OTHERS}"
        )


def find_plan_file(
    out: Path | None, inputs: Iterable[tuple[str, Path]], flag: str = "--out"
) -> tuple[Path, int | None] | None:
    """Return the file of ``flag`` and its permissions, like ``find_writable``; None without it."""
    if out is None:
        return None
    found = find_writable(out, overwrite=True)
    if found[1] is None:
        return found
    for name, path in inputs:
        if path.exists() and path.samefile(out):
            raise CommandError(f"{flag} {out}: the file is also {name}, and was kept: name another")
    try:
        with out.open("rb") as file:
            may_replace = is_plan(file.read(_START_BYTES).decode(errors="replace"))
    except OSError as error:
        raise new_error(out, error) from error
    if not may_replace:
        raise CommandError(
            f"{flag} {out}: the file exists and is not a plan, and was kept: name another"
        )
    return found


def is_plan(text: str) -> bool:
    """Return True if a text begins like a plan written by ``acls plan``."""
    return _START.match(text) is not None


EXIT_FAULT: Final = 1
EXIT_BREAKS: Final = 3
EXIT_CHANGES: Final = 10


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of ``acls plan``."""

    desired: tuple[Path, ...]
    out: Path | None
    batches: bool
    accept_losses: bool
    json: bool
    tests: tuple[Path, ...]
    selection: Selection
    source: SourceRequest
    recorded: TrafficRequest
    groups: Path | None = None


class PlanFiles(NamedTuple):
    """The desired files, and the file of groups if there is one."""

    desired: Mapping[Path, AclsRead]
    groups: GroupsFile | None

    @property
    def acls(self) -> list[Acl]:
        """The desired ACLs, with those of groups."""
        return [acl for read in self.desired.values() for acl in read.acls]

    def read_members(self) -> Membership | None:
        """Return the members of the groups that the desired files name. Blocks on the directory.

        Raises:
            GroupsError: they cannot be read as a whole.
        """
        return None if self.groups is None else read_membership(self.groups, find_groups(self.acls))


def read_files(request: PlanRequest) -> PlanFiles:
    """Return the files. Blocks. Raises as ``make_plan``."""
    accepts = request.accept_losses
    return PlanFiles(
        {path: read_desired(path, accepts_losses=accepts) for path in request.desired},
        None if request.groups is None else read_groups(request.groups),
    )


class Planned(NamedTuple):
    """A plan, the ACLs that it was made for, its checks, and what it does with groups' ACLs."""

    plan: document.Plan
    source: AclSource
    checked: Sequence[report.Checked]
    outcome: GroupOutcome | None


def make_plan(
    request: PlanRequest,
    files: PlanFiles,
    members: Membership | None,
    *,
    checks_no_change: bool = True,
) -> Planned:
    """Read the ACLs in force, and return the plan for these files and members. Blocks.

    Args:
        checks_no_change: whether a plan without changes is checked as well.

    Raises:
        AclError, CommandError, FaultyFileError: no plan can be made.
    """
    selector = _read_selector(request.selection, files.desired.values())
    desired, own = files.acls, None
    if files.groups is not None and members is not None:
        own = GroupSet(files.groups.set, expand(desired, members))
    source = open_source(request.source)
    present = list(source.snapshot.acls.values())
    named = find_groups(desired)
    hand = [acl for acl in desired if own is None or find_group(acl.principal) is None]
    governed = make_governed_changes(present, hand, selector, own)
    changes = governed.changes
    if not request.accept_losses:
        _check_removals(files.desired, changes.without_notes.deleted)
    effect = ": then each request is atomic, but the plan is not"
    check_size(changes, batches=request.batches, effect=effect)
    after = change_snapshot(source.snapshot, changes)
    checked: list[report.Checked] = []
    if changes.count or checks_no_change:
        found = (
            report.check_tests(request.tests, source, after),
            check_traffic(request.recorded, source, after),
        )
        checked += (each for each in found if each is not None)
    losses = [f"{path}: {loss}" for path, read in files.desired.items() for loss in read.losses]
    losses += describe_governed(governed, named)
    results = [each.result for each in checked]
    plan = propose(source, after, governed, selector, losses, results)
    return Planned(plan, source, checked, governed.outcome)


def plan_changes(request: PlanRequest) -> int:
    if request.source.as_of is not None:
        request.source.refuse("--as-of: a plan changes the current ACLs; leave out the flag")
    out = find_plan_file(request.out, list_inputs(request))
    try:
        files = read_files(request)
        plan, source, checked, _ = make_plan(request, files, files.read_members())
    except FaultyFileError as error:
        sys.stderr.write(f"{error}\nauthorizerd: no plan was made\n")
        return EXIT_FAULT
    data = document.encode_plan(plan)
    if out is not None:
        path, mode = out
        write_text(path, data.decode(), mode)
    if request.json:
        sys.stdout.write(data.decode())
    else:
        print_lines(_describe(plan, source, checked, request.out))
    if plan.breaks:
        return EXIT_BREAKS
    return EXIT_CHANGES if plan.changes.count else 0


def list_inputs(request: PlanRequest) -> Iterator[tuple[str, Path]]:
    recorded, source = request.recorded, request.source
    paths: dict[str, Iterable[Path | str | None]] = {
        "DESIRED": request.desired,
        "--groups": (request.groups,),
        "--tests": request.tests,
        "--traffic": recorded.traffic,
        "--traffic-report": (recorded.traffic_report,),
        "--acls": (source.acls,),
        "--config": (source.config,),
        "--command-config": (source.command_config,),
    }
    for flag, given in paths.items():
        yield from ((flag, Path(path)) for path in given if path is not None)


def _read_selector(selection: Selection, files: Iterable[AclsRead]) -> Selector:
    """Return the flags' scope, or else that of all files: all ACLs if any file manages all."""
    entries = selection.read_entries()
    if entries:
        return Selector(entries)
    for file in files:
        if file.scope is None:
            return Selector(None)
        entries += _entries_of(file.scope)
    if not entries:
        reason = "the desired files manage no ACLs: select some with a flag, such as --principal"
        raise PlanError("", reason)
    return Selector(entries)


def _entries_of(scope: Scope) -> Iterator[Managed]:
    yield from scope.entries
    for principal in sorted(scope.principals):
        yield Managed(principal=principal)
    for acl in sorted(scope.acls, key=msgspec.structs.astuple):
        if has_known_codes(acl):  # a plan changes no other ACLs
            yield manage_one(acl)


def _check_removals(files: Mapping[Path, AclsRead], removed: Iterable[Acl]) -> None:
    """Raise PlanError if an unread part of a file may be an ACL that the plan would delete."""
    for acl in removed:
        for path, read in files.items():
            if not read.justifies_removal(acl):
                raise PlanError(
                    "",
                    f"{path} may grant or deny what the plan would delete, {acl}, because part of "
                    f"it cannot be read: {read.losses[0]}. Select other ACLs, or pass "
                    "--accept-losses",
                )


def change_snapshot(before: AclSnapshot, changes: AclChanges) -> AclSnapshot:
    ids = {acl: acl_id for acl_id, acl in before.acls.items()}
    made: list[Change] = [AclRemoved(ids[acl]) for acl in changes.deleted]
    made += [AclAdded(derive_id(acl), acl) for acl in changes.created]
    return apply_changes(before, made)


def propose(
    source: AclSource,
    after: AclSnapshot,
    governed: GovernedChanges,
    selector: Selector,
    losses: Sequence[str] = (),
    checks: Sequence[document.PlanCheck] = (),
) -> document.Plan:
    """Return the plan for these changes, which lead to the snapshot ``after``, with warnings."""
    changes, outcome = governed.changes, governed.outcome
    proposal = Proposal(source.snapshot, after, changes.without_notes, source.settings)
    warnings = [*losses, *find_warnings(proposal, source.caller)]
    acls, settings = source.snapshot.acls, source.settings
    digest = digest_acls(acls.values())
    count = len(acls) + len(changes.created) - len(changes.deleted)
    return document.Plan(
        made_for=document.PlanSource(
            place=source.place.value,
            name=source.name,
            offset=source.offset,
            acls=len(acls),
            digest=digest,
        ),
        leads_to=document.State(count, change_digest(digest, changes)),
        settings=document.PlanSettings(
            None if settings.super_users is None else tuple(sorted(settings.super_users)),
            settings.allow_everyone_if_no_acl_found,
        ),
        manages=selector.document,
        warnings=tuple(warnings),
        checks=tuple(checks),
        group_set=msgspec.UNSET if outcome is None else outcome.set,
        steps=document.name_steps(changes, governed.reasons),
    )


def _describe(
    plan: document.Plan, source: AclSource, checked: Sequence[report.Checked], out: Path | None
) -> Iterator[str]:
    diff = list(report.describe_changes(plan.changes, plan.reasons))
    yield from diff
    if diff:
        yield ""
    yield report.summarize_changes(plan)
    yield from report.describe_managed(plan)
    yield from source.describe()
    for warning in plan.warnings:
        yield f"warning: {warning}"
    for each in checked:
        yield from each.lines
        yield each.result.summary
    if out is not None:
        yield f"written to {out}" + _NOT_APPLIED * plan.breaks


_NOT_APPLIED: Final = (
    ", but it would break something: acls apply refuses it without --accept-breaking"
)
