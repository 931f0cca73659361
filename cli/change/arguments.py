"""The flags of ``acls plan``, ``apply`` and ``remove``.

The modules that run these commands are imported once they run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from authorizerd.cli import flags
from authorizerd.cli.profile import HELP, use_profile

if TYPE_CHECKING:
    from authorizerd.cli.change.applying import ApplyRequest
    from authorizerd.cli.change.planning import PlanRequest

_NO_LOG: Final = {
    "--log-dir": "a plan is carried out by a server: start the daemon of this log, and name it "
    "with --bootstrap-server"
}
"""The advice of commands that change ACLs through servers."""


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.acl_source import add_source_arguments

    parser.set_defaults(run=_plan)
    text = "write the plan to this file, for acls apply; only an earlier plan is replaced"
    flags.add_file(parser, "--out", text, "PLAN")
    text = (
        "allow more changes than one Kafka request can make. Each request is atomic, but the plan "
        "is not"
    )
    flags.add_switch(parser, "--batches", text)
    flags.add_json_argument(parser)
    add_plan_inputs(parser, desired="*")
    text = (
        "instead of desired ACLs: CSVs of authorizerd review, with decisions. The plan deletes the "
        "ACLs that their owners want to remove, and no others"
    )
    flags.add_text(
        parser, "--review", "FILE", text, action="extend", nargs="+", default=[], type=Path
    )
    add_source_arguments(parser)


def add_plan_inputs(parser: argparse.ArgumentParser, *, desired: str = "+") -> None:
    """Add the flags for what a plan is made from, except for the ACLs in force.

    Args:
        desired: how many desired files there are, as ``nargs`` of argparse.
    """
    from authorizerd.cli.change.traffic import add_traffic_arguments
    from authorizerd.cli.selection_flags import add_selection_flags

    text = "a file of the desired ACLs, in any format of --acls"
    flags.add_text(parser, "desired", "DESIRED", text, nargs=desired, type=Path)
    text = (
        "make the plan even if part of a desired file cannot be read; without this flag, such a "
        "part is an error if the plan may delete what it grants"
    )
    flags.add_switch(parser, "--accept-losses", text)
    text = "expand the groups that the desired files name, with the members in this file"
    flags.add_file(parser, "--groups", text, "FILE")
    checks = parser.add_argument_group("what must not break (otherwise, the exit code is 3)")
    text = "run the policy tests of these files, before and after the plan"
    flags.add_text(
        checks, "--tests", "FILE", text, action="extend", nargs="+", default=[], type=Path
    )
    add_traffic_arguments(checks)
    title = "what the plan manages (default: what the files manage, or all ACLs)"
    add_selection_flags(parser.add_argument_group(title))


def _plan(given: argparse.Namespace) -> int:
    from authorizerd.cli.change.planning import plan_changes

    return plan_changes(read_plan_request(given))


def read_plan_request(given: argparse.Namespace, **others: object) -> PlanRequest:
    """Return the request for the flags of ``add_plan_inputs``, for other fields, and a source's."""
    from authorizerd.cli.acl_source import SourceRequest
    from authorizerd.cli.change.planning import PlanRequest
    from authorizerd.cli.change.traffic import TrafficRequest
    from authorizerd.cli.selection_flags import read_selection

    return flags.read_request(
        PlanRequest,
        given,
        selection=read_selection(given),
        source=flags.read_request(SourceRequest, given),
        recorded=flags.read_request(TrafficRequest, given),
        **others,
    )


def add_apply_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_apply, refuse=parser.error, advice=_NO_LOG)
    parser.add_argument("plan", type=Path, metavar="PLAN", help="a file of acls plan --out")
    text = f"the brokers or the daemon whose ACLs are changed: host:port,host:port. {HELP}"
    flags.add_text(parser, "--bootstrap-server", "SERVERS", text)
    text = "a properties file with Kafka's client keys: authentication, TLS, timeouts"
    flags.add_text(parser, "--command-config", "FILE", text)
    text = "compare the ACLs with the plan, and print the requests instead of sending them"
    flags.add_switch(parser, "--dry-run", text)
    _add_batches(parser)
    text = "apply the plan even if it breaks its tests or its traffic"
    flags.add_switch(parser, "--accept-breaking", text)
    flags.add_json_argument(parser)


def _add_batches(parser: flags.Flags) -> None:
    flags.add_switch(parser, "--batches", "make more changes than one Kafka request can make")


def _apply(given: argparse.Namespace) -> int:
    from authorizerd.cli.change.applying import ApplyRequest, apply_plan

    return apply_plan(_use_servers(flags.read_request(ApplyRequest, given), given.refuse))


def _use_servers(request: ApplyRequest, refuse: flags.Refuse) -> ApplyRequest:
    request, _ = use_profile(request)
    if request.bootstrap_server is None:
        refuse("expected --bootstrap-server HOST:PORT, or a profile")
    return request


def add_remove_arguments(parser: argparse.ArgumentParser) -> None:
    from authorizerd.cli.selection_flags import add_selection_flags
    from authorizerd.cli.source_settings import add_setting_arguments

    parser.set_defaults(run=_remove, refuse=parser.error, advice=_NO_LOG)
    title = "which ACLs to remove; flags for principals and flags for resources narrow each other"
    add_selection_flags(parser.add_argument_group(title))
    flags.add_switch(parser, "--force", "do not ask for confirmation")
    flags.add_switch(parser, "--dry-run", "show the ACLs, and remove nothing")
    _add_batches(parser)
    flags.add_json_argument(parser)
    group = parser.add_argument_group("where the ACLs are")
    flags.add_broker_arguments(group, "Removing ACLs needs ALTER and DESCRIBE on the cluster")
    add_setting_arguments(group)


def _remove(given: argparse.Namespace) -> int:
    from authorizerd.cli.acl_source import SourceRequest
    from authorizerd.cli.change.applying import ApplyRequest
    from authorizerd.cli.change.removal import remove_acls
    from authorizerd.cli.selection_flags import read_selection

    request = _use_servers(flags.read_request(ApplyRequest, given), given.refuse)
    source = flags.read_request(
        SourceRequest,
        given,
        bootstrap_server=request.bootstrap_server,
        command_config=request.command_config,
    )
    return remove_acls(request, source, read_selection(given), force=given.force)
