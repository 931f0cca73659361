"""The options of ``replay whatif``."""

from __future__ import annotations

import argparse

from authorizerd.replay.acls.options import add_acl_arguments, read_acl_set
from authorizerd.replay.options import resolve_input, resolve_output
from authorizerd.replay.plans import WhatIfPlan


def add_whatif_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``replay whatif``."""
    parser.add_argument("--events", required=True, metavar="DIR", help="results of ingest")
    add_acl_arguments(parser)
    parser.add_argument(
        "--baseline-acls",
        metavar="SOURCE",
        help="compare with these ACLs instead of the recorded decisions",
    )
    parser.add_argument(
        "--baseline-as-of", metavar="TIME|OFFSET", help="the same as --as-of, for --baseline-acls"
    )


def make_whatif_plan(parsed: argparse.Namespace, *, is_local: bool) -> WhatIfPlan:
    """Return the plan that the options describe.

    Raises:
        PathError: the events do not exist, or the output directory is not empty.
        AclSourceError: a source cannot be read.
    """
    events = resolve_input(parsed.events, is_local=is_local)
    out = resolve_output(parsed.out, is_local=is_local, overwrite=parsed.overwrite)
    baseline = parsed.baseline_acls
    return WhatIfPlan(
        events=events,
        out=out,
        candidate=read_acl_set(parsed, parsed.acls, parsed.as_of),
        baseline=(
            None if baseline is None else read_acl_set(parsed, baseline, parsed.baseline_as_of)
        ),
        overwrite=parsed.overwrite,
    )
