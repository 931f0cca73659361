"""The options of ``replay whatif``: of recorded traffic, and with ``--follow`` of a topic."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Final

from authorizerd.cli.program.flag_values import parse_count, parse_duration
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.acls.options import add_acl_arguments, check_command_config, read_acl_set
from authorizerd.replay.acls.reading import apply_plan
from authorizerd.replay.ingest.options import (
    add_recorded_arguments,
    add_window_arguments,
    make_ingest_plan,
    resolve_events,
)
from authorizerd.replay.options import (
    is_uri,
    parse_file,
    parse_path,
    read_client_settings,
    refuse,
    resolve_output,
)
from authorizerd.replay.plans import FollowPlan, WhatIfPlan
from authorizerd.replay.topics import Topic, parse_topic

INTERVAL_S: Final = 30

_FOLLOW_FOLDER: Final = "follow"
"""The directory of ``--out`` that belongs to a watch."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``replay whatif``."""
    add_recorded_arguments(parser, is_followed=True)
    add_window_arguments(parser)
    parser.add_argument(
        "--interval",
        type=parse_duration,
        metavar="TIME",
        help=f"with --follow: time between two reports, such as 30s or 5m; default {INTERVAL_S}s",
    )
    parser.add_argument(
        "--duration",
        type=parse_duration,
        metavar="TIME",
        help="with --follow: end after this time, such as 24h; default: a signal ends it",
    )
    parser.add_argument(
        "--from-beginning",
        action="store_true",
        help="with --follow: start from the earliest record in the topic",
    )
    parser.add_argument(
        "--min-allowed",
        type=parse_count,
        default=1,
        metavar="N",
        help="end with exit code 5 if the record has fewer allowed events, because it then cannot "
        "show that nobody loses access; default %(default)s",
    )
    parser.add_argument(
        "--newest-within",
        type=parse_duration,
        metavar="TIME",
        help="end with exit code 5 if the newest event, or that of a log which the newest ingest "
        "read, is older than this, such as 2d",
    )
    add_acl_arguments(parser)
    parser.add_argument(
        "--plan",
        type=parse_file,
        metavar="PLAN",
        help="a plan of authorizerd acls plan, made for --acls: compare the ACLs after it with "
        "--acls, under the settings of the plan",
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
        PathError: the events do not exist, the output directory is not empty, or the client
            settings cannot be read.
        AclSourceError: a source cannot be read, or the plan was made for other ACLs.
    """
    if parsed.baseline_as_of is not None and parsed.baseline_acls is None:
        refuse(parsed, "--baseline-as-of: expected --baseline-acls as well")
    topic = None if parsed.follow is None else _read_topic(parsed)
    events, is_watched = "", False
    if topic is None:
        for flag in ("interval", "duration", "from_beginning"):
            if getattr(parsed, flag):
                refuse(parsed, f"--{flag.replace('_', '-')}: expected --follow as well")
        check_command_config(parsed, parsed.acls, parsed.baseline_acls)
        events = resolve_events(parsed, is_local=is_local)
    elif not is_uri(parsed.out):
        is_watched = Path(parsed.out, _FOLLOW_FOLDER).is_dir()
    out = resolve_output(parsed.out, is_local=is_local, overwrite=parsed.overwrite or is_watched)
    candidate, baseline = _read_sets(parsed)
    within_s = parsed.newest_within
    plan = WhatIfPlan(
        events=events or f"{out}/{_FOLLOW_FOLDER}",
        out=out,
        candidate=candidate,
        baseline=baseline,
        overwrite=parsed.overwrite,
        lookback_days=parsed.lookback,
        since_ms=parsed.since,
        allowed_min=parsed.min_allowed,
        newest_after_ms=None if within_s is None else round((time.time() - within_s) * 1000),
    )
    if topic is None:
        return plan
    return FollowPlan(
        out=out,
        ingest=make_ingest_plan(parsed, (), plan.events, (topic,)),
        whatif=plan,
        interval_s=parsed.interval or INTERVAL_S,
        duration_s=parsed.duration,
        from_beginning=parsed.from_beginning,
        is_anew=parsed.overwrite,
    )


def _read_topic(parsed: argparse.Namespace) -> Topic:
    """Return the topic to watch."""
    try:
        topic = parse_topic(parsed.follow, read_client_settings(parsed.command_config))
    except ValueError as error:
        refuse(parsed, f"--follow: {error}")
    if parsed.engine == "local":
        refuse(parsed, "--engine: local expects --logs or --events: only Spark follows a topic")
    for flag in ("lookback", "since"):
        if getattr(parsed, flag) is not None:
            refuse(parsed, f"--{flag}: expected --logs or --events: a watch counts all its records")
    return topic


def _read_sets(parsed: argparse.Namespace) -> tuple[AclSet, AclSet | None]:
    """Return the candidate and the baseline."""
    if parsed.plan is not None:
        for flag in ("baseline_acls", "super_users", "allow_everyone_if_no_acl_found"):
            if getattr(parsed, flag) is not None:
                name = flag.replace("_", "-")
                refuse(parsed, f"--{name}: expected either --plan or --{name}, not both")
    acls = read_acl_set(parsed, parsed.acls, parsed.as_of)
    if parsed.plan is not None:
        return apply_plan(parsed.plan, acls)
    if parsed.baseline_acls is None:
        return acls, None
    return acls, read_acl_set(parsed, parsed.baseline_acls, parsed.baseline_as_of)
