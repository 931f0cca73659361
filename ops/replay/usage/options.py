"""The options of ``replay usage``."""

from __future__ import annotations

import argparse

from authorizerd.cli.program.flags import add_switch, add_value
from authorizerd.replay.acls.options import add_acl_arguments, check_command_config, read_acl_set
from authorizerd.replay.ingest.options import (
    add_recorded_arguments,
    add_window_arguments,
    resolve_events,
)
from authorizerd.replay.options import parse_names_max, resolve_output
from authorizerd.replay.plans import UsagePlan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``replay usage``."""
    add_recorded_arguments(parser)
    add_acl_arguments(parser)
    add_window_arguments(parser)
    text = "suggest at most N literal ACLs for a wide grant; default %(default)s"
    add_value(parser, "--names-max", parse_names_max, "N", text, default=20)
    add_switch(parser, "--assume-in-force", "treat ACLs of unknown age as older than the window")


def make_plan(parsed: argparse.Namespace, *, is_local: bool) -> UsagePlan:
    """Return the plan that the options describe.

    Raises:
        PathError: the events do not exist, or the output directory is not empty.
        AclSourceError: the source cannot be read.
    """
    check_command_config(parsed, parsed.acls)
    return UsagePlan(
        events=resolve_events(parsed, is_local=is_local),
        out=resolve_output(parsed.out, is_local=is_local, overwrite=parsed.overwrite),
        acls=read_acl_set(parsed, parsed.acls, parsed.as_of),
        lookback_days=parsed.lookback,
        since_ms=parsed.since,
        names_max=parsed.names_max,
        overwrite=parsed.overwrite,
        assume_in_force=parsed.assume_in_force,
    )
