"""The flags of ``authorizerd acls plan``. The modules that run it are imported once it runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from authorizerd.acl.kafka_acls import RESOURCE_FLAGS
from authorizerd.cli.acl_source import ReadBrokers, add_source_arguments
from authorizerd.cli.change.traffic_arguments import add_traffic_arguments
from authorizerd.cli.questions.answers import add_json_argument


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
        "--out", type=Path, metavar="PLAN", help="write the plan to this file, for acls apply"
    )
    parser.add_argument(
        "--batches",
        action="store_true",
        help="allow more changes than one request of Kafka can make. Each request is atomic, but "
        "the plan is not",
    )
    add_json_argument(parser)
    _add_checks(parser)
    _add_selector(parser)
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


def _add_selector(parser: argparse.ArgumentParser) -> None:
    """Add the flags that ``selection.read_selector`` reads."""
    group = parser.add_argument_group(
        "what the plan manages; without these flags, what the files manage, or all ACLs"
    )
    _add_texts(group, "principal", "PRINCIPAL", "the ACLs of this principal, such as User:alice")
    _add_texts(
        group, "principal-prefix", "TEXT", "the ACLs of principals that begin with this text"
    )
    for flag in RESOURCE_FLAGS:
        what = flag.replace("-", " ")
        _add_texts(group, flag, "NAME", f"the ACLs of this {what}")
        _add_texts(
            group, f"{flag}-prefix", "TEXT", f"the ACLs of every {what} that begins with this text"
        )
    group.add_argument("--cluster", action="store_true", help="the ACLs of the cluster")
    group.add_argument(
        "--resource-pattern-type",
        type=str.upper,
        choices=("LITERAL", "PREFIXED", "ANY", "MATCH"),
        help="how NAME is compared, as in kafka-acls --list (default: LITERAL)",
    )


def _add_texts(group: argparse._ArgumentGroup, flag: str, metavar: str, text: str) -> None:
    group.add_argument(
        f"--{flag}",
        action="append",
        default=[],
        metavar=metavar,
        help=f"{text}; may be repeated",
    )


def _run(arguments: argparse.Namespace) -> int:
    from authorizerd.cli.change.planning import plan_changes

    return plan_changes(arguments)
