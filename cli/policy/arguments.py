"""The flags of ``authorizerd test``. The modules that run it are imported only then."""

from __future__ import annotations

import argparse
from pathlib import Path

from authorizerd.cli import flags
from authorizerd.cli.acl_source import SourceRequest, add_source_arguments


def add_test_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_run)
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="a YAML file with 'tests'"
    )
    text = (
        "test a planned change: add the ACLs of this file, in any format of --acls; may be repeated"
    )
    flags.add_list(parser, "--with", "ACLS", text, type=Path, dest="added")
    text = "test a planned change: first remove the ACLs of this file; may be repeated"
    flags.add_list(parser, "--without", "ACLS", text, type=Path, dest="removed")
    text = "run only tests whose name or assertion contains this text; may be repeated"
    flags.add_list(parser, "-k", "TEXT", text, dest="select")
    flags.add_switch(parser, "--list", "list the tests and what they assert, and end")
    flags.add_json_argument(parser)
    flags.add_file(parser, "--junit", "also write the results as JUnit XML")
    add_source_arguments(parser)


def _run(given: argparse.Namespace) -> int:
    from authorizerd.cli.policy.command import TestRequest, run_policy_tests

    source = flags.read_request(SourceRequest, given)
    return run_policy_tests(flags.read_request(TestRequest, given, source=source))
