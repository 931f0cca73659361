"""The options of ``replay whatif``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.acls.options import add_acl_arguments, read_acl_set
from authorizerd.replay.acls.planned import apply_plan
from authorizerd.replay.ingest.options import add_recorded_arguments, resolve_events
from authorizerd.replay.options import parse_file, parse_path, resolve_output
from authorizerd.replay.plans import FollowPlan, WhatIfPlan
from authorizerd.replay.whatif.follow.options import (
    add_follow_arguments,
    make_follow_plan,
    refuse_follow_arguments,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``replay whatif``."""
    add_recorded_arguments(parser, is_followed=True)
    add_follow_arguments(parser)
    add_acl_arguments(parser)
    parser.add_argument(
        "--plan",
        type=parse_file,
        metavar="PLAN",
        help="a plan of authorizerd acls plan, made for --acls: compare the ACLs after it with "
        "--acls, by the settings of the plan",
    )
    parser.add_argument(
        "--baseline-acls",
        type=parse_path,
        metavar="SOURCE",
        help="compare with these ACLs instead of the recorded decisions",
    )
    parser.add_argument(
        "--baseline-as-of", metavar="TIME|OFFSET", help="the same as --as-of, for --baseline-acls"
    )


def make_plan(parsed: argparse.Namespace, *, is_local: bool) -> WhatIfPlan | FollowPlan:
    """Return the plan that the options describe: of a watch, with ``--follow``.

    Raises:
        PathError, AclSourceError: as ``make_whatif_plan`` and ``make_follow_plan``.
    """
    if parsed.follow is not None:
        return make_follow_plan(parsed, _read_sets(parsed), is_local=is_local)
    refuse_follow_arguments(parsed)
    return make_whatif_plan(parsed, is_local=is_local)


def make_whatif_plan(parsed: argparse.Namespace, *, is_local: bool) -> WhatIfPlan:
    """Return the plan for recorded traffic that the options describe.

    Raises:
        PathError: the events do not exist, or the output directory is not empty.
        AclSourceError: a source cannot be read, or the plan was made for other ACLs.
    """
    events = resolve_events(parsed, is_local=is_local)
    out = resolve_output(parsed.out, is_local=is_local, overwrite=parsed.overwrite)
    candidate, baseline = _read_sets(parsed)
    return WhatIfPlan(
        events=events, out=out, candidate=candidate, baseline=baseline, overwrite=parsed.overwrite
    )


def _read_sets(parsed: argparse.Namespace) -> tuple[AclSet, AclSet | None]:
    """Return the candidate and the baseline."""
    if parsed.plan is not None:
        _check_alone(parsed)
    acls = read_acl_set(parsed, parsed.acls, parsed.as_of)
    if parsed.plan is not None:
        return apply_plan(parsed.plan, acls)
    if parsed.baseline_acls is None:
        return acls, None
    return acls, read_acl_set(parsed, parsed.baseline_acls, parsed.baseline_as_of)


def _check_alone(parsed: argparse.Namespace) -> None:
    """End the command with exit code 2 if a flag contradicts ``--plan``."""
    for flag in ("baseline_acls", "super_users", "allow_everyone_if_no_acl_found"):
        if getattr(parsed, flag):
            refuse: Callable[[str], NoReturn] = parsed.refuse
            name = flag.replace("_", "-")
            refuse(f"--{name}: expected either --plan or --{name}: the plan says it")
