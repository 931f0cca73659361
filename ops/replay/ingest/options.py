"""The options of ``replay ingest``."""

from __future__ import annotations

import argparse
import math
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, get_args

from msgspec.structs import replace

from authorizerd.acl.audit.recorded.event import LineFormat
from authorizerd.acl.audit.recorded.times import find_zone
from authorizerd.cli.program.flag_values import parse_duration, parse_moment, parse_ratio
from authorizerd.replay.options import (
    parse_file,
    parse_path,
    read_client_settings,
    refuse,
    resolve_input,
    resolve_output,
)
from authorizerd.replay.plans import IngestPlan, LineLayout
from authorizerd.replay.topics import SCHEME, Topic, parse_topic

EVENTS: Final = "events"
"""The directory of ``--out`` into which Spark ingests ``--logs``."""

_DAY_MS: Final = 86_400_000
_READING_DEFAULTS: Final = {
    "format": "auto",
    "tz": "UTC",
    "line_field": None,
    "max_bad_ratio": 0.01,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``replay ingest``."""
    parser.add_argument(
        "--input",
        required=True,
        type=parse_path,
        action="extend",
        nargs="+",
        metavar="PATH",
        help="audit logs: files, directories, globs, URIs, or kafka://HOST:PORT/TOPIC",
    )
    parser.add_argument(
        "--command-config",
        type=parse_file,
        metavar="FILE",
        help="for a kafka:// input: Kafka's client properties, for TLS and authentication",
    )
    parser.add_argument(
        "--expire",
        type=_parse_days,
        metavar="DAYS",
        help="then remove events from the table that are older than this number of days",
    )
    parser.add_argument(
        "--delta",
        action="store_true",
        help="let engines such as Trino read the table as Delta, from now on",
    )
    add_engine_argument(parser, "where to read: this machine's processes (local) or Spark")
    add_reading_arguments(parser)


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for reading the lines of audit logs."""
    parser.add_argument(
        "--format",
        default=_READING_DEFAULTS["format"],
        choices=get_args(LineFormat),
        help="format of the audit logs; default %(default)s",
    )
    parser.add_argument(
        "--tz",
        default=_READING_DEFAULTS["tz"],
        type=_zone,
        metavar="ZONE",
        help="time zone of times without one; default %(default)s",
    )
    parser.add_argument(
        "--line-field",
        metavar="NAME",
        help="for logs in JSON: the field that holds each line, such as event.original; default "
        "the fields of known log shippers",
    )
    parser.add_argument(
        "--max-bad-ratio",
        default=_READING_DEFAULTS["max_bad_ratio"],
        type=parse_ratio,
        metavar="R",
        help="maximum share of unusable lines, which are set aside; default %(default)s",
    )


def add_recorded_arguments(parser: argparse.ArgumentParser, *, is_followed: bool = False) -> None:
    """Add the options that name recorded traffic: the output of an ingest, or audit logs.

    Args:
        is_followed: add ``--follow``, for a topic.
    """
    recorded = add_recorded_group(parser)
    if is_followed:
        recorded.add_argument(
            "--follow",
            metavar="TOPIC",
            help="a topic of audit lines, kafka://HOST:PORT[,HOST:PORT]/TOPIC; reports repeatedly",
        )
    add_engine_argument(parser)
    add_reading_arguments(parser)


def add_recorded_group(
    parser: argparse.ArgumentParser, *, is_required: bool = True
) -> argparse._MutuallyExclusiveGroup:
    """Add ``--events`` and ``--logs``, and return their group."""
    recorded = parser.add_mutually_exclusive_group(required=is_required)
    recorded.add_argument("--events", type=parse_path, metavar="DIR", help="results of ingest")
    recorded.add_argument(
        "--logs",
        type=parse_path,
        action="extend",
        nargs="+",
        metavar="PATH",
        help="audit logs, in place of --events: files, directories or globs",
    )
    return recorded


def add_engine_argument(
    parser: argparse.ArgumentParser, what: str = "where to evaluate: this process (local) or Spark"
) -> None:
    """Add ``--engine``."""
    parser.add_argument(
        "--engine",
        default="auto",
        choices=("auto", "local", "spark"),
        help=f"{what}; default: auto, by the inputs and their size",
    )


def add_window_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--lookback`` and ``--since``."""
    window = parser.add_mutually_exclusive_group()
    window.add_argument(
        "--lookback",
        type=_parse_lookback,
        metavar="TIME",
        help="evaluate only the time before the last event, such as 30d or 12h; a number is in "
        "days; default all",
    )
    window.add_argument(
        "--since",
        type=parse_moment,
        metavar="TIME",
        help="evaluate only events since a time in ISO 8601, in UTC unless it has a zone",
    )


def make_plan(parsed: argparse.Namespace, *, is_local: bool) -> IngestPlan:
    """Return the plan that the options describe.

    Raises:
        PathError: an input does not exist, the client settings cannot be read, or the output is not
            a directory.
    """
    addresses = [text for text in parsed.input if text.startswith(SCHEME)]
    if parsed.command_config and not addresses:
        refuse(parsed, "--command-config: expected a kafka:// address in --input")
    settings = read_client_settings(parsed.command_config)
    try:
        topics = tuple(parse_topic(text, settings) for text in addresses)
    except ValueError as error:
        refuse(parsed, f"--input: {error}")
    files = (text for text in parsed.input if not text.startswith(SCHEME))
    inputs = tuple(resolve_input(text, is_local=is_local) for text in files)
    # The job checks the directory's content: an existing table gets more events.
    out = resolve_output(parsed.out, is_local=is_local, overwrite=True)
    plan = replace(make_ingest_plan(parsed, inputs, out, topics), delta=parsed.delta)
    if parsed.expire is None:
        return plan
    first_day = datetime.now(UTC).date() - timedelta(days=parsed.expire)
    return replace(plan, first_day=first_day.isoformat())


def make_logs_plan(parsed: argparse.Namespace) -> IngestPlan:
    """Return the plan of an ingest of ``--logs`` into the directory ``events`` of ``--out``.

    Raises:
        PathError: an input does not exist, or the output directory is not empty.
    """
    if any(text.startswith(SCHEME) for text in parsed.logs):
        refuse(parsed, "--logs: expected files: ingest the topic, and name the table in --events")
    out = resolve_output(parsed.out, is_local=True, overwrite=parsed.overwrite)
    inputs = tuple(resolve_input(path, is_local=True) for path in parsed.logs)
    return make_ingest_plan(parsed, inputs, f"{out}/{EVENTS}")


def make_ingest_plan(
    parsed: argparse.Namespace, inputs: tuple[str, ...], out: str, topics: tuple[Topic, ...] = ()
) -> IngestPlan:
    """Return the plan of an ingest with the options for reading lines."""
    return IngestPlan(
        inputs=inputs,
        out=out,
        topics=topics,
        layout=LineLayout(format=parsed.format, time_zone=parsed.tz, field=parsed.line_field),
        bad_ratio_max=parsed.max_bad_ratio,
        overwrite=parsed.overwrite,
    )


def resolve_events(parsed: argparse.Namespace, *, is_local: bool) -> str:
    """Return the path of the results of ingest: those of ``--logs`` are below ``--out``.

    Raises:
        PathError: the events do not exist, or the output directory is not empty.
    """
    if parsed.logs:
        return make_logs_plan(parsed).out
    check_reading_arguments(parsed)
    return resolve_input(parsed.events, is_local=is_local)


def check_reading_arguments(parsed: argparse.Namespace) -> None:
    """Reject the options for reading lines, as there are no ``--logs``."""
    for flag, default in _READING_DEFAULTS.items():
        if getattr(parsed, flag) != default:
            name = flag.replace("_", "-")
            refuse(parsed, f"--{name}: expected --logs: fixed by the ingest of --events")


def _parse_days(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,4}", text):
        raise argparse.ArgumentTypeError(f"expected a number of days above 0, found {text!r}")
    return int(text)


def _zone(text: str) -> str:
    """Return ``text`` if it names a time zone."""
    try:
        find_zone(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _parse_lookback(text: str) -> float:
    """Return a number of days."""
    with suppress(argparse.ArgumentTypeError):
        return parse_duration(text) * 1000 / _DAY_MS
    with suppress(ValueError):
        days = float(text)
        if 0 < days < math.inf:
            return days
    raise argparse.ArgumentTypeError(
        f"expected a time such as 30d or 12h, or a number of days above 0, found {text!r}"
    )
