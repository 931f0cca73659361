"""The options of ``replay whatif --follow``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.options import is_uri, resolve_output
from authorizerd.replay.plans import FollowPlan, WhatIfPlan
from authorizerd.replay.topic_options import read_client_settings
from authorizerd.replay.topics import parse_topic

FOLDER: Final = "follow"
"""The directory of ``--out`` that belongs to a watch."""
INTERVAL_S: Final = 30

_DURATION: Final = re.compile(r"([0-9]{1,9})(s|m|h|d)", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def add_follow_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that go with ``--follow``."""
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
        help="with --follow: begin with the first record that the topic still has",
    )


def parse_duration(text: str) -> int:
    """Return the seconds of a time such as ``30s``, ``5m``, ``24h`` or ``7d``."""
    found = _DURATION.fullmatch(text)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"expected a time such as 30s, 5m or 24h, found {text!r}")
    return int(found[1]) * _SECONDS[found[2]]


def refuse_follow_arguments(parsed: argparse.Namespace) -> None:
    """End the command with exit code 2 if an option needs ``--follow``, which is not given."""
    for flag in ("interval", "duration", "from_beginning"):
        if getattr(parsed, flag):
            _refuse(parsed, f"--{flag.replace('_', '-')}: expected --follow as well")


def make_follow_plan(
    parsed: argparse.Namespace, sets: tuple[AclSet, AclSet | None], *, is_local: bool
) -> FollowPlan:
    """Return the plan that the options describe; ``sets`` are the candidate and the baseline.

    Raises:
        PathError: the client settings cannot be read, or the output directory contains other files.
    """
    try:
        topic = parse_topic(parsed.follow, read_client_settings(parsed.command_config))
    except ValueError as error:
        _refuse(parsed, f"--follow: {error}")
    if parsed.engine == "local":
        _refuse(parsed, "--engine: local expects --logs or --events: only Spark follows a topic")
    is_watched = not is_uri(parsed.out) and Path(parsed.out, FOLDER).is_dir()
    out = resolve_output(parsed.out, is_local=is_local, overwrite=parsed.overwrite or is_watched)
    candidate, baseline = sets
    table = f"{out}/{FOLDER}"
    return FollowPlan(
        topic=topic,
        out=out,
        whatif=WhatIfPlan(events=table, out=out, candidate=candidate, baseline=baseline),
        interval_s=parsed.interval or INTERVAL_S,
        duration_s=parsed.duration,
        from_beginning=parsed.from_beginning,
        format=parsed.format,
        time_zone=parsed.tz,
        bad_ratio_max=parsed.max_bad_ratio,
        is_anew=parsed.overwrite,
    )


def _refuse(parsed: argparse.Namespace, text: str) -> NoReturn:
    refuse: Callable[[str], NoReturn] = parsed.refuse
    refuse(text)
