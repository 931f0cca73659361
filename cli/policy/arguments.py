"""The flags of ``authorizerd test``. The modules that run it are imported once it runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from authorizerd.cli.acl_source import add_source_arguments

if TYPE_CHECKING:
    from authorizerd.cli.acl_source import ReadBrokers


def add_test_arguments(parser: argparse.ArgumentParser, read_brokers: ReadBrokers) -> None:
    """Make ``parser`` parse and run this command.

    Args:
        read_brokers: as for ``add_source_arguments``.
    """
    parser.set_defaults(run=_run)
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="a YAML file with 'tests'"
    )
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        type=Path,
        dest="added",
        metavar="ACLS",
        help="test a planned change: add the ACLs of this file, in any format of --acls; may be "
        "repeated",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        type=Path,
        dest="removed",
        metavar="ACLS",
        help="test a planned change: first remove the ACLs of this file; may be repeated",
    )
    parser.add_argument(
        "-k",
        action="append",
        default=[],
        dest="select",
        metavar="TEXT",
        help="run only tests whose name or assertion contains this text; may be repeated",
    )
    parser.add_argument(
        "--list", action="store_true", help="list the tests and what they assert, and end"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document instead of lines"
    )
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="also write the results as JUnit XML"
    )
    add_source_arguments(parser, read_brokers)


def _run(arguments: argparse.Namespace) -> int:
    from authorizerd.cli.policy.command import run_policy_tests

    return run_policy_tests(arguments)
