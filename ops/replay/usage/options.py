"""``replay usage``: which ACLs recorded traffic used."""

from __future__ import annotations

import argparse

from authorizerd.replay.acls.options import acl_set_of, add_acl_arguments
from authorizerd.replay.options import days, names_max, placed_input, placed_output
from authorizerd.replay.plans import UsagePlan


def add_usage_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", required=True, metavar="DIR", help="output of ingest")
    add_acl_arguments(parser)
    parser.add_argument(
        "--lookback",
        type=days,
        metavar="DAYS",
        help="evaluate only the last days of the events; default all",
    )
    parser.add_argument(
        "--names-max",
        type=names_max,
        default=20,
        metavar="N",
        help="suggest at most N literal ACLs for a wide grant; default %(default)s",
    )
    parser.add_argument(
        "--assume-in-force",
        action="store_true",
        help="treat ACLs of unknown age as older than the window",
    )


def usage_plan_of(parsed: argparse.Namespace, *, is_local: bool) -> UsagePlan:
    """Return what the job is told.

    Raises:
        PathError: the events are not there, or the output is.
        AclSourceError: the source gives no ACLs.
    """
    return UsagePlan(
        events=placed_input(parsed.events, is_local=is_local),
        out=placed_output(parsed.out, is_local=is_local, overwrite=parsed.overwrite),
        acls=acl_set_of(parsed, parsed.acls, parsed.as_of),
        lookback_days=parsed.lookback,
        names_max=parsed.names_max,
        overwrite=parsed.overwrite,
        assume_in_force=parsed.assume_in_force,
    )
