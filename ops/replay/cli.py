"""The command ``authorizerd replay``: evaluate recorded traffic, on Spark or in this process.

Exit codes: 0 is success, 1 a fault (standard error names it), and 2 invalid arguments. 3 means
that requests would be newly denied (``whatif``), or that a threshold failed (``load``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, TypeAlias

from authorizerd.config.command_parser import CommandParser, LazyParser
from authorizerd.replay.acls.errors import AclSourceError
from authorizerd.replay.local.errors import TrafficError
from authorizerd.replay.messages import EXIT_FAULT, MESSAGE
from authorizerd.replay.options import PathError
from authorizerd.replay.report.errors import ReportError
from authorizerd.replay.submit.errors import SubmissionError

if TYPE_CHECKING:
    from authorizerd.replay.plans import Plan

_NAMED_ERRORS: Final = (AclSourceError, PathError, ReportError, SubmissionError, TrafficError)


class PlanMaker(Protocol):
    """A function that makes a job's plan from parsed arguments; each ``options`` module has one."""

    def __call__(self, parsed: argparse.Namespace, /, *, is_local: bool) -> Plan: ...


AddArguments: TypeAlias = Callable[[argparse.ArgumentParser], None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A subcommand that runs as a Spark job.

    ``load_options`` imports the job's modules, which happens only if the job is chosen. It returns
    a function that adds the arguments, and one that makes the plan.
    """

    help: str
    load_options: Callable[[], tuple[AddArguments, PlanMaker]]


def _load_ingest() -> tuple[AddArguments, PlanMaker]:
    from authorizerd.replay.ingest.options import add_ingest_arguments, make_ingest_plan

    return add_ingest_arguments, make_ingest_plan


def _load_whatif() -> tuple[AddArguments, PlanMaker]:
    from authorizerd.replay.whatif.options import add_whatif_arguments, make_whatif_plan

    return add_whatif_arguments, make_whatif_plan


def _load_usage() -> tuple[AddArguments, PlanMaker]:
    from authorizerd.replay.usage.options import add_usage_arguments, make_usage_plan

    return add_usage_arguments, make_usage_plan


def _load_load() -> tuple[AddArguments, PlanMaker]:
    from authorizerd.replay.load.options import add_load_arguments, make_load_plan

    return add_load_arguments, make_load_plan


def _add_report(parser: argparse.ArgumentParser) -> None:
    from authorizerd.replay.report.command import add_report_arguments

    add_report_arguments(parser)


JOBS: Final = {
    "ingest": Job(
        help="convert audit logs into events, which the other commands read",
        load_options=_load_ingest,
    ),
    "whatif": Job(
        help="show which recorded requests other ACLs would newly deny or allow",
        load_options=_load_whatif,
    ),
    "usage": Job(
        help="find ACLs that no recorded request used, and suggest narrower ones",
        load_options=_load_usage,
    ),
    "load": Job(
        help="send the recorded questions to a running daemon, and measure its answers",
        load_options=_load_load,
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
        description="Evaluate recorded traffic, on Spark or in this process.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=LazyParser)
    for name, job in JOBS.items():
        commands.add_parser(
            name, help=job.help, allow_abbrev=False, add_arguments=partial(_add_job, job)
        )
    report = "write one HTML page from the results of the other commands; needs no Spark"
    commands.add_parser("report", help=report, allow_abbrev=False, add_arguments=_add_report)
    return parser


def _add_job(job: Job, parser: argparse.ArgumentParser) -> None:
    from authorizerd.replay.submit.options import add_spark_arguments

    add_arguments, make_plan = job.load_options()
    parser.set_defaults(run=_run_job, make_plan=make_plan, refuse=parser.error)
    add_arguments(parser)
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
    from authorizerd.replay.submit.options import read_spark_options, refusal
    from authorizerd.replay.submit.submitter import submit

    options = read_spark_options(parsed)
    refused = refusal(options)
    if refused is not None:
        refuse: Callable[[str], NoReturn] = parsed.refuse
        refuse(refused)
    if hasattr(parsed, "engine"):
        from authorizerd.replay.engines import run_recorded

        return run_recorded(parsed, options)
    plan: Plan = parsed.make_plan(parsed, is_local=options.is_local)
    return submit(plan, options)
