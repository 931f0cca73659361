"""``replay whatif``: what other ACLs would have decided."""

from __future__ import annotations

import argparse

from authorizerd.replay.acls.options import acl_set_of, add_acl_arguments
from authorizerd.replay.options import placed_input, placed_output
from authorizerd.replay.plans import WhatIfPlan


def add_whatif_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--events", required=True, metavar="DIR", help="output of ingest")
    add_acl_arguments(parser)
    parser.add_argument(
        "--baseline-acls",
        metavar="SOURCE",
        help="compare with these ACLs instead of the recorded decisions",
    )
    parser.add_argument("--baseline-as-of", metavar="TIME|OFFSET", help="--as-of for the baseline")


def whatif_plan_of(parsed: argparse.Namespace, *, is_local: bool) -> WhatIfPlan:
    """Return what the job is told.

    Raises:
        PathError: the events are not there, or the output is.
        AclSourceError: a source gives no ACLs.
    """
    events = placed_input(parsed.events, is_local=is_local)
    out = placed_output(parsed.out, is_local=is_local, overwrite=parsed.overwrite)
    baseline = parsed.baseline_acls
    return WhatIfPlan(
        events=events,
        out=out,
        candidate=acl_set_of(parsed, parsed.acls, parsed.as_of),
        baseline=(
            None if baseline is None else acl_set_of(parsed, baseline, parsed.baseline_as_of)
        ),
        overwrite=parsed.overwrite,
    )
