"""``replay ingest``: audit logs become events."""

from __future__ import annotations

import argparse
from typing import get_args

from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.parse.times import zone_of
from authorizerd.replay.options import placed_input, placed_output, ratio
from authorizerd.replay.plans import IngestPlan


def add_ingest_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input",
        required=True,
        action="extend",
        nargs="+",
        metavar="PATH",
        help="audit logs: files, directories, globs or URIs",
    )
    parser.add_argument(
        "--format",
        default="auto",
        choices=get_args(LineFormat),
        help="format of the input; default %(default)s",
    )
    parser.add_argument(
        "--tz",
        default="UTC",
        type=_zone,
        metavar="ZONE",
        help="zone of times without one; default %(default)s",
    )
    parser.add_argument(
        "--max-bad-ratio",
        default=0.01,
        type=ratio,
        metavar="R",
        help="maximum share of lines set aside; default %(default)s",
    )


def ingest_plan_of(parsed: argparse.Namespace, *, is_local: bool) -> IngestPlan:
    """Return what the job is told.

    Raises:
        PathError: an input is not there, or the output is.
    """
    return IngestPlan(
        inputs=tuple(placed_input(path, is_local=is_local) for path in parsed.input),
        out=placed_output(parsed.out, is_local=is_local, overwrite=parsed.overwrite),
        format=parsed.format,
        time_zone=parsed.tz,
        bad_ratio_max=parsed.max_bad_ratio,
        overwrite=parsed.overwrite,
    )


def _zone(text: str) -> str:
    """Return the name of a time zone that there is."""
    try:
        zone_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text
