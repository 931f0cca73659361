"""The command ``authorizerd replay``: evaluate recorded traffic, on Spark or in this process.

Exit codes: 0 is success, 1 a fault (standard error names it), and 2 invalid arguments. 3 means
that requests would be newly denied (``whatif``), or that a threshold failed (``load``).
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.program.flags import add_value
from authorizerd.replay.errors import ReplayError, SubmissionError
from authorizerd.replay.jobs import add_job_arguments, new_job_parser
from authorizerd.replay.messages import EXIT_DONE, EXIT_FAULT, MESSAGE
from authorizerd.replay.options import parse_file, refuse

if TYPE_CHECKING:
    from authorizerd.cli.program.command_parser import CommandParser
    from authorizerd.replay.plans import Plan


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parsed = new_parser().parse_words(arguments)
    try:
        code: int = parsed.run(parsed)
    except ReplayError as error:
        print(escape_unprintable(f"{MESSAGE}{error}"), file=sys.stderr)
        return EXIT_FAULT
    return code


def new_parser() -> CommandParser:
    """Return the parser of the words after ``authorizerd replay``."""
    about = "Evaluate recorded traffic, on Spark or in this process."
    parser, commands = new_job_parser("authorizerd replay", about, _add_job)
    report = "write one HTML page from the results of the other commands; needs no Spark"
    commands.add_parser("report", help=report, allow_abbrev=False, add_arguments=_add_report)
    package = "write the two files that run these jobs with spark-submit"
    commands.add_parser("package", help=package, allow_abbrev=False, add_arguments=_add_package)
    return parser


def _add_job(name: str, parser: argparse.ArgumentParser) -> None:
    from authorizerd.replay.submit.options import add_spark_arguments

    parser.set_defaults(run=_run_job)
    add_job_arguments(name, parser)
    add_spark_arguments(parser)


def _add_report(parser: argparse.ArgumentParser) -> None:
    from authorizerd.replay.report.command import add_report_arguments

    add_report_arguments(parser)


def _add_package(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_write_package)
    text = "directory for authorizerd-replay.zip and authorizerd-replay.py, which are replaced"
    add_value(parser, "--out", parse_file, "DIR", text, required=True)


def _run_job(parsed: argparse.Namespace) -> int:
    from authorizerd.replay.submit.options import read_spark_options, refusal
    from authorizerd.replay.submit.submitter import submit

    options = read_spark_options(parsed)
    is_followed = getattr(parsed, "follow", None) is not None
    refused = refusal(options)
    if is_followed and options.remote is not None:
        refused = "--remote: cannot follow a topic, which needs a driver of its own: use --master"
    if refused is not None:
        refuse(parsed, refused)
    if hasattr(parsed, "target"):
        from authorizerd.replay.load.command import run_command

        return run_command(parsed, options)
    if hasattr(parsed, "engine") and not is_followed:
        from authorizerd.replay.engines import run_ingest, run_recorded

        return (run_recorded if hasattr(parsed, "events") else run_ingest)(parsed, options)
    plan: Plan = parsed.make_plan(parsed, is_local=options.is_local)
    return submit(plan, options)


def _write_package(parsed: argparse.Namespace) -> int:
    from authorizerd.replay.submit.files import ENTRY_NAME, PACKAGE_NAME, write_package

    try:
        archive = write_package(parsed.out)
    except OSError as error:
        raise SubmissionError(f"--out: {error.filename}: {error.strerror}") from error
    print(f"{MESSAGE}the code is {archive.name}, sha256 {archive.sha256}", file=sys.stderr)
    files = shlex.join(["--py-files", f"{parsed.out / PACKAGE_NAME}", f"{parsed.out / ENTRY_NAME}"])
    print(f"spark-submit {files} COMMAND ARGUMENTS")
    return EXIT_DONE
