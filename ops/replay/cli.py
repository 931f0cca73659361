"""The command ``authorizerd replay``: use Spark to evaluate recorded traffic.

Exit codes: 0 is success, 1 a fault (standard error names it), and 2 invalid arguments. 3 means
that requests would be newly denied (``whatif``), or that a threshold failed (``load``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

from authorizerd.config.command_parser import CommandParser
from authorizerd.replay.acls.errors import AclSourceError
from authorizerd.replay.ingest.options import add_ingest_arguments, make_ingest_plan
from authorizerd.replay.load.options import add_load_arguments, make_load_plan
from authorizerd.replay.messages import EXIT_FAULT, MESSAGE
from authorizerd.replay.options import PathError
from authorizerd.replay.plans import Plan
from authorizerd.replay.report.command import add_report_arguments
from authorizerd.replay.report.errors import ReportError
from authorizerd.replay.submit.errors import SubmissionError
from authorizerd.replay.submit.options import add_spark_arguments, read_spark_options, refusal
from authorizerd.replay.submit.submitter import submit
from authorizerd.replay.usage.options import add_usage_arguments, make_usage_plan
from authorizerd.replay.whatif.options import add_whatif_arguments, make_whatif_plan

_NAMED_ERRORS: Final = (AclSourceError, PathError, ReportError, SubmissionError)


class PlanMaker(Protocol):
    """A function that makes a job's plan from parsed arguments; each ``options`` module has one."""

    def __call__(self, parsed: argparse.Namespace, /, *, is_local: bool) -> Plan: ...


@dataclass(frozen=True, kw_only=True)
class Job:
    """A subcommand that runs as a Spark job."""

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    make_plan: PlanMaker


JOBS: Final = {
    "ingest": Job(
        help="convert audit logs into events, which the other commands read",
        add_arguments=add_ingest_arguments,
        make_plan=make_ingest_plan,
    ),
    "whatif": Job(
        help="show which recorded requests other ACLs would newly deny or allow",
        add_arguments=add_whatif_arguments,
        make_plan=make_whatif_plan,
    ),
    "usage": Job(
        help="find ACLs that no recorded request used, and suggest narrower ones",
        add_arguments=add_usage_arguments,
        make_plan=make_usage_plan,
    ),
    "load": Job(
        help="send the recorded questions to a running daemon, and measure its answers",
        add_arguments=add_load_arguments,
        make_plan=make_load_plan,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parsed = new_parser().parse_words(arguments)
    try:
        code: int = parsed.run(parsed)
    except _NAMED_ERRORS as error:
        print(f"{MESSAGE}{error}", file=sys.stderr)
        return EXIT_FAULT
    return code


def new_parser() -> CommandParser:
    """Return the parser of the words after ``authorizerd replay``."""
    parser = CommandParser(
        prog="authorizerd replay",
        description="Use Spark to evaluate recorded traffic.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, job in JOBS.items():
        _add_job(commands.add_parser(name, help=job.help, allow_abbrev=False), job)
    report = "write one HTML page from the results of the other commands; needs no Spark"
    add_report_arguments(commands.add_parser("report", help=report, allow_abbrev=False))
    return parser


def _add_job(parser: argparse.ArgumentParser, job: Job) -> None:
    parser.set_defaults(run=_run_job, make_plan=job.make_plan, refuse=parser.error)
    job.add_arguments(parser)
    parser.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        help="directory for the results; must be empty without --overwrite",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace the command's earlier results in --out; other files stay",
    )
    add_spark_arguments(parser)


def _run_job(parsed: argparse.Namespace) -> int:
    options = read_spark_options(parsed)
    refused = refusal(options)
    if refused is not None:
        refuse: Callable[[str], NoReturn] = parsed.refuse
        refuse(refused)
    plan: Plan = parsed.make_plan(parsed, is_local=options.is_local)
    return submit(plan, options)
