"""One round of ``authorizerd sync``: read files and groups, plan, check, and apply.

**Invariant:** a plan is refused as a whole if anything is unknown or unlikely, or breaks a check.
So the ACLs are always those of the last files and members that were accepted, or on the way there.
What was accepted is not kept anywhere: a restart finds the rest of the plan, or nothing to do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from threading import Event
from typing import Final, TypeAlias

import msgspec

from authorizerd.acl.errors import AclError
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.cli.broker_acls import BrokerReader, run_on_brokers
from authorizerd.cli.change.apply_server import KafkaAclServer
from authorizerd.cli.change.execution import Done, Ending, Execution, Progress
from authorizerd.cli.change.plan_files import find_plan_file
from authorizerd.cli.change.planning import (
    PlanFiles,
    Planned,
    PlanRequest,
    list_inputs,
    make_plan,
    read_files,
)
from authorizerd.cli.errors import CommandError
from authorizerd.cli.policy.faults import FaultyFileError
from authorizerd.cli.program.ending import set_at_signals
from authorizerd.cli.sync.metrics import Status
from authorizerd.cli.sync.status import print_event
from authorizerd.cli.transfer.text_place import write_text
from authorizerd.config.endpoints import HttpEndpoint
from authorizerd.config.errors import ConfigurationError
from authorizerd.kafka_client.quorum_calls import NO_LISTING_CALL
from authorizerd.management.groups.membership import Membership
from authorizerd.management.plan import document
from authorizerd.management.plan.state import digest_acls

Stamp: TypeAlias = tuple[tuple[int, ...] | None, ...]

LOOK_SHARE: Final = 0.05
"""The share of the time in which the ACLs are listed and compared, if nothing has changed here."""
ACLS_NAMED_MAX: Final = 20
"""The maximum number of ACLs in a line of JSON."""

READ_ERRORS: Final = (AclError, CommandError, ConfigurationError, FaultyFileError)
"""What a file, the directory or a server causes, and a later round may not meet again."""


class SyncRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of ``sync``.

    Attributes:
        removals_max: so many ACLs a plan may always delete.
        shrink_max: above, the share that it may delete of what a group, all groups or the files
            have made.
        accept_removals: the digest of the removals that a person has accepted.
    """

    plan: PlanRequest
    servers: str
    command_config: str | None
    interval: int
    once: bool
    dry_run: bool
    listen: HttpEndpoint
    removals_max: int
    shrink_max: float
    blocked_plan: Path | None
    accept_removals: str | None


class Outcome(Enum):
    """How a round ended."""

    IN_STEP = "in step"
    POSSIBLE = "possible"
    """A dry run: there are changes, which were not made."""
    FAILED = "failed"
    """It could not be done, or a signal has ended it between two requests."""
    BLOCKED = "blocked"
    RACED = "raced"


class Rounds:
    """Runs rounds, and remembers what the last one has seen."""

    def __init__(self, request: SyncRequest, status: Status) -> None:
        self._request: Final = request
        self._status: Final = status
        self._files: PlanFiles | None = None
        self._stamp: Stamp = ()
        self._seen: object = None
        """The stamp and the members that the last plan was made for, unless it raced."""
        self._last = Outcome.IN_STEP
        self._reasons: dict[str, str] = {}
        self._look_at = 0.0
        self._offset: int | None = None
        self._stopped = Event()

    def run(self) -> Outcome:
        """Run one round. Blocks. A problem is reported once, and counted by its reason."""
        status, begun = self._status, time.monotonic()
        try:
            outcome, reasons = self._run()
        except READ_ERRORS as error:
            outcome = Outcome.FAILED
            reasons = {getattr(error, "kind", "other"): str(error)}
        if reasons != status.reasons and (reasons or status.reasons):
            print_event("blocked" if reasons else "unblocked", reasons=reasons)
        status.reasons = reasons
        status.round_seconds = time.monotonic() - begun
        if outcome is Outcome.IN_STEP:
            status.success_s = time.time()
        status.races += outcome is Outcome.RACED
        return outcome

    def _run(self) -> tuple[Outcome, dict[str, str]]:
        stamp = self._find_stamp()
        if self._files is None or stamp != self._stamp:
            self._files, self._stamp = read_files(self._request.plan), stamp
        members = self._files.read_members()
        self._note_members(members)
        seen = (stamp, members)
        if seen == self._seen and not self._must_look():
            return self._last, self._reasons
        self._seen = None
        begun, self._offset = time.monotonic(), self._read_offset()
        planned = make_plan(self._request.plan, self._files, members, checks_no_change=False)
        if planned.outcome is not None:
            self._status.group_acls = planned.outcome.made_after
        reasons = dict(self._find_reasons(planned))
        outcome = Outcome.BLOCKED if reasons else self._apply(planned)
        if reasons:
            reasons |= self._write_blocked(planned)
        if outcome is not Outcome.RACED:
            self._seen, self._last, self._reasons = seen, outcome, reasons
            now = time.monotonic()
            self._look_at = now + (now - begun) / LOOK_SHARE
        return outcome, reasons

    def _note_members(self, members: Membership | None) -> None:
        if members is not None:
            self._status.directory_s = time.time()
            self._status.members = len(frozenset().union(*members.groups.values()))

    def _must_look(self) -> bool:
        """Return True if the ACLs may have changed.

        A daemon says at which offset they are. Of brokers, which do not, the ACLs are listed now
        and then, the more ACLs the less often.
        """
        if self._offset is not None:
            return self._read_offset() != self._offset
        return time.monotonic() >= self._look_at

    def _read_offset(self) -> int | None:
        return run_on_brokers(self._request.servers, self._request.command_config, _ask_offset)

    def _find_stamp(self) -> Stamp:
        """Return what changes when a file does. Recorded traffic grows, and is no reason."""
        flags = ("DESIRED", "--tests", "--groups")
        paths = [path for flag, path in list_inputs(self._request.plan) if flag in flags]
        return tuple(map(_stamp_file, paths))

    def _find_reasons(self, planned: Planned) -> Iterator[tuple[str, str]]:
        """Yield why a plan is not applied."""
        for check in planned.plan.checks:
            if check.breaks:
                yield check.name, check.summary
        removed = [acl for acl in planned.plan.changes.deleted if not is_note(acl)]
        digest = digest_acls(removed)
        if digest == self._request.accept_removals:
            return
        excess = list(self._find_excess(planned, removed))
        if excess:
            yield (
                "removals",
                f"the plan would delete {'; '.join(excess)}. To accept this, run once with "
                f"--once --accept-removals {digest}",
            )

    def _find_excess(self, planned: Planned, removed: list[Acl]) -> Iterator[str]:
        """Yield which removals are more than the limits allow."""
        limit, outcome = self._request.removals_max, planned.outcome
        if len(removed) <= limit:
            return
        manages, present = planned.plan.selector.manages, planned.source.snapshot.acls.values()
        counts = [
            ("ACLs that the plan manages", _count(manages, present), _count(manages, removed))
        ]
        if outcome is not None:
            counts.append(("ACLs that groups have made", outcome.made_before, outcome.removed))
            counts += (
                (f"ACLs that group {group} has made", *numbers)
                for group, numbers in sorted(outcome.losses.items())
            )
        for what, before, number in counts:
            if number > limit and number > self._request.shrink_max * before:
                yield f"{number} of {before} {what}"

    def _write_blocked(self, planned: Planned) -> dict[str, str]:
        """Write the plan, for a person's review and ``acls apply``; return why not."""
        path, inputs = self._request.blocked_plan, list_inputs(self._request.plan)
        try:
            out = find_plan_file(path, inputs, "--blocked-plan")
            if out is not None:
                write_text(out[0], document.encode_plan(planned.plan).decode(), out[1])
        except CommandError as error:
            return {"other": str(error)}
        return {}

    def _apply(self, planned: Planned) -> Outcome:
        """Make the changes of a plan. A signal waits until the request in flight is answered."""
        plan, request = planned.plan, self._request
        if not plan.changes.count:
            return Outcome.IN_STEP
        if request.dry_run:
            print_event("dry run", **_describe(plan, plan.changes.created, plan.changes.deleted))
            return Outcome.POSSIBLE
        progress = Progress(plan.changes.count)

        async def execute(reader: BrokerReader) -> None:
            nonlocal progress
            server = KafkaAclServer(reader)
            execution = Execution(
                plan, server, report=self._count, is_stopped=lambda: self.is_stopped
            )
            progress = execution.progress
            await execution.run()

        with set_at_signals() as stopped:
            self._stopped = stopped
            try:
                run_on_brokers(request.servers, request.command_config, execute)
            finally:
                _report(plan, progress)
        if progress.ending is Ending.FAILED:
            raise CommandError("; ".join(progress.reasons))
        if progress.ending is Ending.RUNNING:
            return Outcome.FAILED
        return Outcome.RACED if progress.ending in _RACES else Outcome.IN_STEP

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has arrived while a plan was applied."""
        return self._stopped.is_set()

    def _count(self, done: Done) -> None:
        number = len(done.request.acls) - _count(is_note, done.request.acls)
        self._status.change_s = time.time()
        if done.request.is_creation:
            self._status.created += number
        else:
            self._status.deleted += number


async def _ask_offset(reader: BrokerReader) -> int | None:
    """Return the log offset of the ACLs; None if the server does not tell."""
    _, offset = await reader.read_listing(NO_LISTING_CALL)
    return offset


_RACES: Final = (Ending.MOVED, Ending.RACED)


def _report(plan: document.Plan, progress: Progress) -> None:
    """Print what was done, also if an error ends the round."""
    done: dict[bool, list[Acl]] = {True: [], False: []}
    for each in progress.done:
        done[each.request.is_creation] += each.request.acls
    if progress.ending is Ending.NOTHING_TO_DO:
        return
    event = "changed" if progress.ending is Ending.APPLIED else progress.ending.value
    print_event(event, **_describe(plan, *done.values()), left=progress.left, why=progress.reasons)


def _describe(
    plan: document.Plan, created: Iterable[Acl], deleted: Iterable[Acl]
) -> dict[str, object]:
    """Return the fields of an event: the numbers of ACLs, and the first ones with their groups."""
    fields: dict[str, object] = {}
    groups = plan.group_reasons
    for name, acls in (("created", created), ("deleted", deleted)):
        shown = [acl for acl in acls if not is_note(acl)]
        fields[name] = len(shown)
        fields[f"{name}_acls"] = [
            f"{acl} ({', '.join(groups[acl])})" if acl in groups else str(acl)
            for acl in shown[:ACLS_NAMED_MAX]
        ]
    return {**fields, "warnings": plan.warnings[:ACLS_NAMED_MAX]}


def _count(matches: Callable[[Acl], bool], acls: Iterable[Acl]) -> int:
    return sum(map(matches, acls))


def _stamp_file(path: Path) -> tuple[int, ...] | None:
    """Return what differs if a file was written or replaced; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
