"""``authorizerd acls plan DESIRED…``: which ACLs would have to change, and what that would break.

With ``--review``, the plan deletes the ACLs that their owners want to remove, and no others.

Exit codes: 0 nothing to do, 1 a fault, 2 invalid arguments, 3 a check fails, 10 changes. With exit
code 3, the plan is also written: it lists what it would break, and ``acls apply`` refuses it.

**Invariant:** only the file of ``--out`` is changed. It is replaced atomically, and only if it is
an earlier plan, so no hand-written file is lost. The same ACLs, files and flags give the same plan,
until a grant in a desired file ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from authorizerd.acl.grants.reading import follow_note
from authorizerd.acl.listing import derive_id
from authorizerd.acl.model import Acl, AclAdded, AclRemoved, Change
from authorizerd.acl.snapshot import AclSnapshot, apply_changes
from authorizerd.cli.acl_source import AclSource, SourceRequest, open_source
from authorizerd.cli.change import report
from authorizerd.cli.change.plan_files import find_plan_file, read_desired
from authorizerd.cli.change.reviewing import apply_sheets, read_sheets
from authorizerd.cli.change.traffic import TrafficRequest, check_traffic
from authorizerd.cli.groups.reading import (
    describe_governed,
    describe_remade,
    read_groups,
    read_membership,
)
from authorizerd.cli.output import print_lines
from authorizerd.cli.policy.faults import FaultyFileError
from authorizerd.cli.selection_flags import Selection
from authorizerd.cli.transfer.text_place import write_text
from authorizerd.management.formats.model import AclsRead, Scope
from authorizerd.management.groups.changes import (
    GovernedChanges,
    GroupOutcome,
    GroupSet,
    make_governed_changes,
)
from authorizerd.management.groups.claims import is_made_note
from authorizerd.management.groups.expansion import expand, find_groups
from authorizerd.management.groups.membership import Membership, find_group
from authorizerd.management.plan import document
from authorizerd.management.plan.changes import AclChanges, check_size, make_changes
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.plan.grants import settle_grants
from authorizerd.management.plan.names import has_known_codes
from authorizerd.management.plan.selector import Managed, Selector, manage_one
from authorizerd.management.plan.state import change_digest, digest_acls
from authorizerd.management.plan.warnings import Proposal, find_warnings
from authorizerd.management.review.decisions import NO_DECISIONS

if TYPE_CHECKING:  # it loads PyYAML
    from authorizerd.management.groups.file import GroupsFile


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
    review: tuple[Path, ...] = ()


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
    wanted = _read_review(request) if request.review else _read_wanted(request, files, members)
    source, governed = wanted.source, wanted.governed
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
    notes = [*losses, *wanted.notes]
    results = [each.result for each in checked]
    plan = propose(source, after, governed, wanted.selector, notes, results, wanted.reasons)
    return Planned(plan, source, checked, governed.outcome)


class _Wanted(NamedTuple):
    """The changes that a plan needs, what it manages, and what its reader should know."""

    source: AclSource
    selector: Selector
    governed: GovernedChanges
    notes: tuple[str, ...]
    reasons: Mapping[Acl, str] = NO_DECISIONS.removed


def _read_wanted(request: PlanRequest, files: PlanFiles, members: Membership | None) -> _Wanted:
    """Return the changes that lead to the desired ACLs."""
    selector = _read_selector(request.selection, files.desired.values())
    desired, own = files.acls, None
    if files.groups is not None and members is not None:
        own = GroupSet(files.groups.set, expand(desired, members))
    source = open_source(request.source)
    present = list(source.snapshot.acls.values())
    hand = [acl for acl in desired if own is None or find_group(acl.principal) is None]
    governable = [acl for acl in present if not is_made_note(acl)]
    settled = settle_grants(governable, hand, selector, time.time_ns() // 1_000_000)
    governed = make_governed_changes(present, settled.desired, selector, own)
    notes = (*settled.sentences, *describe_governed(governed, find_groups(desired)))
    return _Wanted(source, selector, governed, notes)


def _read_review(request: PlanRequest) -> _Wanted:
    """Return the deletions that the sheets of a review ask for.

    They leave groups and grants as they are, and never make an ACL permanent that they keep.
    """
    sheets = read_sheets(request.review, request.selection, request.source)
    source = open_source(request.source)
    review = apply_sheets(sheets, source)
    selector = Selector(map(manage_one, review.managed))
    present = list(source.snapshot.acls.values())
    rest = [
        acl for acl in present if selector.manages(acl) and follow_note(acl) not in review.removed
    ]
    governed = GovernedChanges(changes=make_changes(present, rest, selector))
    notes = (*review.notes, *describe_remade(present, review.removed))
    return _Wanted(source, selector, governed, notes, review.removed)


def plan_changes(request: PlanRequest) -> int:
    if request.source.as_of is not None:
        request.source.refuse("--as-of: a plan changes the current ACLs; leave out the flag")
    if bool(request.desired) is bool(request.review):
        request.source.refuse("expected either files of desired ACLs, or --review")
    if request.review and request.groups is not None:
        request.source.refuse("--groups: a review is not about groups; leave out the flag")
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
        "--review": request.review,
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
    notes: Sequence[str] = (),
    checks: Sequence[document.PlanCheck] = (),
    reasons: Mapping[Acl, str] = NO_DECISIONS.removed,
) -> document.Plan:
    """Return the plan for these changes, which lead to the snapshot ``after``, with warnings.

    Args:
        notes: the first warnings.
        reasons: why people want a change, for some of the changed ACLs.
    """
    changes, outcome = governed.changes, governed.outcome
    proposal = Proposal(source.snapshot, after, changes.without_notes, source.settings)
    warnings = [*notes, *find_warnings(proposal, source.caller)]
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
        reasons=document.name_reasons(changes, reasons),
    )


def _describe(
    plan: document.Plan, source: AclSource, checked: Sequence[report.Checked], out: Path | None
) -> Iterator[str]:
    diff = list(report.describe_changes(plan.changes, plan.group_reasons))
    yield from diff
    if diff:
        yield ""
    yield report.summarize_changes(plan)
    yield from report.describe_managed(plan)
    yield from source.describe()
    yield from report.describe_reasons(plan)
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
