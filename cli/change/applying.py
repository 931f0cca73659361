"""``authorizerd acls apply PLAN``: make exactly the changes of a plan, or say what was made.

Exit codes: 0 applied, or nothing to do; 1 a fault; 2 invalid arguments; 3 the plan would break its
tests or traffic; 4 the ACLs are not those that the plan was made for, or somebody else has changed
ACLs meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.acl.plan.document import Plan, decode_plan
from authorizerd.acl.plan.errors import PlanError
from authorizerd.acl.updates import RECORDS_PER_REQUEST_MAX
from authorizerd.cli.broker_acls import BrokerReader, run_on_brokers
from authorizerd.cli.change.apply_report import (
    describe_done,
    describe_ending,
    describe_start,
    new_document,
)
from authorizerd.cli.change.apply_server import AclServer, KafkaAclServer
from authorizerd.cli.change.execution import Done, Ending, Execution
from authorizerd.cli.errors import CommandError
from authorizerd.cli.output import print_document, print_lines, warn
from authorizerd.metadata.bounded_file import read_file

EXIT_FAULT: Final = 1
EXIT_BREAKS: Final = 3
EXIT_MOVED: Final = 4

_EXIT_CODES: Final[Mapping[Ending, int]] = {
    Ending.NOTHING_TO_DO: 0,
    Ending.POSSIBLE: 0,
    Ending.APPLIED: 0,
    Ending.MOVED: EXIT_MOVED,
    Ending.RACED: EXIT_MOVED,
    Ending.FAILED: EXIT_FAULT,
}


class ApplyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of ``acls apply``, and what ``acls remove`` shares with it."""

    bootstrap_server: str | None
    command_config: str | None
    dry_run: bool
    batches: bool
    json: bool
    plan: Path = Path()
    accept_breaking: bool = False


def apply_plan(request: ApplyRequest) -> int:
    """Apply the plan, print what was done, and return the exit code.

    Raises:
        CommandError: the file cannot be read, or the servers cannot be asked. Nothing was sent.
    """
    plan = _read(request)
    if plan.breaks and not request.accept_breaking:
        for check in plan.checks:
            if check.breaks:
                warn(f"{request.plan}: {check.summary}")
        warn("nothing was changed. To apply this plan although it breaks, pass --accept-breaking")
        return EXIT_BREAKS
    return execute_plan(plan, request)


def execute_plan(plan: Plan, request: ApplyRequest) -> int:
    """Carry out a plan on the servers of ``--bootstrap-server``, print it, return the exit code.

    Raises:
        CommandError: the servers cannot be asked. Nothing was sent.
    """
    runner = _Runner(plan, request)
    assert request.bootstrap_server is not None, "the flags are checked"
    try:
        run_on_brokers(request.bootstrap_server, request.command_config, runner.run)
    except BaseException:
        # Interrupted, or a defect: what was done must be known in any case.
        runner.print_interrupted()
        raise
    runner.print_ending()
    return _EXIT_CODES[runner.execution.progress.ending]


def _read(request: ApplyRequest) -> Plan:
    path = request.plan
    try:
        plan = decode_plan(read_file(path))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    except PlanError as error:
        raise PlanError(
            f"{path}: {error.place}" if error.place else str(path), error.reason
        ) from None
    check_size(plan, str(path), batches=request.batches)
    return plan


def check_size(plan: Plan, place: str, *, batches: bool) -> None:
    """Check that one request can make all changes.

    Args:
        place: what the error begins with.
        batches: whether several requests may make them.
    """
    count = plan.changes.count
    if count > RECORDS_PER_REQUEST_MAX and not batches:
        raise PlanError(
            place,
            f"{count} changes: expected at most {RECORDS_PER_REQUEST_MAX}, as many as one request"
            " of Kafka can make. If they are intended, pass --batches",
        )


class _Runner:
    """Execute a plan on a cluster, and print."""

    def __init__(self, plan: Plan, request: ApplyRequest) -> None:
        self._plan = plan
        self._request = request
        self.execution: Execution

    async def run(self, reader: BrokerReader) -> None:
        await self.execute(KafkaAclServer(reader))

    async def execute(self, server: AclServer) -> None:
        self.execution = Execution(self._plan, server, report=self._report)
        self._note_origin()
        await self.execution.run(is_dry=self._request.dry_run)

    def _note_origin(self) -> None:
        """Say where the plan was made for, if that is another place: perhaps it is a mistake."""
        origin = self._plan.made_for.name
        if origin == self._request.bootstrap_server:
            return
        note = f"the plan was made for {origin}, and is applied to {self._request.bootstrap_server}"
        if self._request.json:
            self.execution.progress.notes.append(note)
        else:
            warn(f"note: {note}")

    def _report(self, done: Done) -> None:
        """Print a request at once, so that it is known even if this process is killed."""
        if not self._request.json:
            progress = self.execution.progress
            if len(progress.done) == 1:
                print_lines(describe_start(progress))
            print_lines([describe_done(done)])

    def print_ending(self) -> None:
        progress = self.execution.progress
        if self._request.json:
            print_document(new_document(self._plan, progress))
        else:
            print_lines(describe_ending(self._plan, progress))

    def print_interrupted(self) -> None:
        """Print what was done so far, if anything was sent."""
        execution = getattr(self, "execution", None)
        if execution is not None and (execution.progress.done or execution.progress.in_doubt):
            self.print_ending()
