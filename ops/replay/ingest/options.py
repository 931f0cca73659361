"""The options of ``replay ingest``."""

from __future__ import annotations

import argparse
from typing import get_args

from authorizerd.replay.ingest.parse.line import LineFormat
from authorizerd.replay.ingest.parse.times import find_zone
from authorizerd.replay.options import parse_ratio, resolve_input, resolve_output
from authorizerd.replay.plans import IngestPlan


def add_ingest_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``replay ingest``."""
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
        help="time zone of times that name none; default %(default)s",
    )
    parser.add_argument(
        "--max-bad-ratio",
        default=0.01,
        type=parse_ratio,
        metavar="R",
        help="maximum share of unusable lines, which are set aside; default %(default)s",
    )


def make_ingest_plan(parsed: argparse.Namespace, *, is_local: bool) -> IngestPlan:
    """Return the plan that the options describe.

    Raises:
        PathError: an input does not exist, or the output directory is not empty.
    """
    return IngestPlan(
        inputs=tuple(resolve_input(path, is_local=is_local) for path in parsed.input),
        out=resolve_output(parsed.out, is_local=is_local, overwrite=parsed.overwrite),
        format=parsed.format,
        time_zone=parsed.tz,
        bad_ratio_max=parsed.max_bad_ratio,
        overwrite=parsed.overwrite,
    )


def _zone(text: str) -> str:
    """Return ``text`` if it names a time zone."""
    try:
        find_zone(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text
