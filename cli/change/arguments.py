"""The flags of ``authorizerd acls plan``."""

from __future__ import annotations

import argparse
from pathlib import Path

from authorizerd.cli import flags
from authorizerd.cli.acl_source import SourceRequest, add_source_arguments
from authorizerd.cli.change.planning import PlanRequest, plan_changes
from authorizerd.cli.change.traffic import TrafficRequest, add_traffic_arguments
from authorizerd.cli.selection_flags import add_selection_flags, read_selection


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_plan)
    text = "a file with the ACLs that there should be, in any format of --acls"
    flags.add_text(parser, "desired", "DESIRED", text, nargs="+", type=Path)
    text = "write the plan to this file, for acls apply; only an earlier plan is replaced"
    flags.add_file(parser, "--out", text, "PLAN")
    text = (
        "allow more changes than one request of Kafka can make. Each request is atomic, but "
        "the plan is not"
    )
    flags.add_switch(parser, "--batches", text)
    text = (
        "make the plan although some part of a desired file is not read; without it, such a "
        "part is an error if the plan may delete what it grants"
    )
    flags.add_switch(parser, "--accept-losses", text)
    flags.add_json_argument(parser)
    _add_checks(parser)
    title = "what the plan manages; without these flags, what the files manage, or all ACLs"
    add_selection_flags(parser.add_argument_group(title))
    add_source_arguments(parser)


def _add_checks(parser: argparse.ArgumentParser) -> None:
    """Add the flags of what ``checks.CHECKS`` runs."""

    group = parser.add_argument_group("what must not break: exit code 3 if it does")
    text = "run the policy tests of these files, before and after the plan"
    flags.add_text(
        group, "--tests", "FILE", text, action="extend", nargs="+", default=[], type=Path
    )
    add_traffic_arguments(group)


def _plan(given: argparse.Namespace) -> int:
    request = flags.read_request(
        PlanRequest,
        given,
        selection=read_selection(given),
        source=flags.read_request(SourceRequest, given),
        recorded=flags.read_request(TrafficRequest, given),
    )
    return plan_changes(request)
