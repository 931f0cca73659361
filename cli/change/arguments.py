"""The flags of ``authorizerd acls plan``. The modules that run it are imported once it runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from authorizerd.cli.acl_source import ReadBrokers, add_source_arguments
from authorizerd.cli.change.traffic_arguments import add_traffic_arguments
from authorizerd.cli.questions.answers import add_json_argument
from authorizerd.cli.selection_flags import add_selection_flags


def add_plan_arguments(parser: argparse.ArgumentParser, read_brokers: ReadBrokers) -> None:
    """Make ``parser`` parse and run this command.

    Args:
        read_brokers: as for ``add_source_arguments``.
    """
    parser.set_defaults(run=_run)
    parser.add_argument(
        "desired",
        nargs="+",
        type=Path,
        metavar="DESIRED",
        help="a file with the ACLs that there should be, in any format of --acls",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="PLAN",
        help="write the plan to this file, for acls apply; only an earlier plan is replaced",
    )
    parser.add_argument(
        "--batches",
        action="store_true",
        help="allow more changes than one request of Kafka can make. Each request is atomic, but "
        "the plan is not",
    )
    parser.add_argument(
        "--accept-losses",
        action="store_true",
        help="make the plan although some part of a desired file is not read; without it, such a "
        "part is an error if the plan may delete what it grants",
    )
    add_json_argument(parser)
    _add_checks(parser)
    add_selection_flags(
        parser.add_argument_group(
            "what the plan manages; without these flags, what the files manage, or all ACLs"
        )
    )
    add_source_arguments(parser, read_brokers)


def _add_checks(parser: argparse.ArgumentParser) -> None:
    """Add the flags of what ``checks.CHECKS`` runs."""
    group = parser.add_argument_group("what must not break: exit code 3 if it does")
    group.add_argument(
        "--tests",
        action="extend",
        nargs="+",
        default=[],
        type=Path,
        metavar="FILE",
        help="run the policy tests of these files, before and after the plan",
    )
    add_traffic_arguments(group)


def _run(arguments: argparse.Namespace) -> int:
    from authorizerd.cli.change.planning import plan_changes

    return plan_changes(arguments)
