"""``authorizerd acls apply PLAN``: make exactly the changes of a plan, or say what was made.

Exit codes: 0 applied, or nothing to do; 1 a fault; 2 invalid arguments; 3 the plan would break its
tests or traffic; 4 the ACLs are not those that the plan was made for, or somebody else has changed
ACLs meanwhile.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from authorizerd.acl.plan.document import Plan, decode_plan
from authorizerd.acl.plan.errors import PlanError
from authorizerd.acl.updates import RECORDS_PER_REQUEST_MAX
from authorizerd.cli.broker_acls import BrokerReader, run_on_brokers
from authorizerd.cli.change.acl_server import AclServer
from authorizerd.cli.change.apply_report import (
    describe_done,
    describe_ending,
    describe_start,
    new_document,
)
from authorizerd.cli.change.apply_server import KafkaAclServer
from authorizerd.cli.change.execution import Done, Ending, Execution
from authorizerd.cli.questions.answers import print_document, print_lines, warn
from authorizerd.daemon.errors import StartError
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


def apply_plan(arguments: argparse.Namespace) -> int:
    """Apply the plan, print what was done, and return the exit code.

    Raises:
        PlanError: the file is not a plan, or has more changes than ``--batches`` allows.
        StartError: the file cannot be read, or the servers cannot be asked. Nothing was sent.
    """
    plan = _read(arguments)
    if plan.breaks and not arguments.accept_breaking:
        for check in plan.checks:
            if check.breaks:
                warn(f"{arguments.plan}: {check.summary}")
        warn("nothing was changed. To apply this plan although it breaks, pass --accept-breaking")
        return EXIT_BREAKS
    return execute_plan(plan, arguments)


def execute_plan(plan: Plan, arguments: argparse.Namespace) -> int:
    """Carry out a plan on the servers of ``--bootstrap-server``, print it, return the exit code.

    Raises:
        StartError: the servers cannot be asked. Nothing was sent.
    """
    runner = _Runner(plan, arguments)
    try:
        run_on_brokers(arguments.bootstrap_server, arguments.command_config, runner.run)
    except BaseException:
        # Interrupted, or a defect: what was done must be known in any case.
        runner.print_interrupted()
        raise
    runner.print_ending()
    return _EXIT_CODES[runner.execution.progress.ending]


def _read(arguments: argparse.Namespace) -> Plan:
    path = arguments.plan
    try:
        plan = decode_plan(read_file(path))
    except OSError as error:
        raise StartError(f"{path}: {error.strerror or error}") from error
    except PlanError as error:
        raise PlanError(
            f"{path}: {error.place}" if error.place else str(path), error.reason
        ) from None
    check_size(plan, str(path), batches=arguments.batches)
    return plan


def check_size(plan: Plan, place: str, *, batches: bool) -> None:
    """Check that one request can make all changes.

    Args:
        place: what the error begins with.
        batches: whether several requests may make them.

    Raises:
        PlanError: the plan has too many changes.
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

    def __init__(self, plan: Plan, arguments: argparse.Namespace) -> None:
        self._plan = plan
        self._as_json: bool = arguments.json
        self._is_dry: bool = arguments.dry_run
        self._servers: str = arguments.bootstrap_server
        self.execution: Execution

    async def run(self, reader: BrokerReader) -> None:
        await self.execute(KafkaAclServer(reader))

    async def execute(self, server: AclServer) -> None:
        self.execution = Execution(self._plan, server, report=self._report)
        self._note_origin()
        await self.execution.run(is_dry=self._is_dry)

    def _note_origin(self) -> None:
        """Say where the plan was made for, if that is another place: perhaps it is a mistake."""
        origin = self._plan.made_for.name
        if origin == self._servers:
            return
        note = f"the plan was made for {origin}, and is applied to {self._servers}"
        if self._as_json:
            self.execution.progress.notes.append(note)
        else:
            warn(f"note: {note}")

    def _report(self, done: Done) -> None:
        """Print a request at once, so that it is known even if this process is killed."""
        if not self._as_json:
            progress = self.execution.progress
            if len(progress.done) == 1:
                print_lines(describe_start(progress))
            print_lines([describe_done(done)])

    def print_ending(self) -> None:
        progress = self.execution.progress
        if self._as_json:
            print_document(new_document(self._plan, progress))
        else:
            print_lines(describe_ending(self._plan, progress))

    def print_interrupted(self) -> None:
        """Print what was done so far, if anything was sent."""
        execution = getattr(self, "execution", None)
        if execution is not None and (execution.progress.done or execution.progress.in_doubt):
            self.print_ending()
