"""The flags of recorded traffic, and the request of it, which ``traffic`` carries out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Literal

import msgspec

from authorizerd.cli.flags import Refuse


class TrafficRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded requests to judge: in logs, or in a report of ``authorizerd replay``."""

    refuse: Refuse
    traffic: tuple[str, ...]
    traffic_format: Literal["auto", "json", "kafka"]
    traffic_tz: str
    traffic_line_field: str | None
    traffic_max_bad_ratio: float
    traffic_report: Path | None = None


def add_traffic_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the flags that ``check_traffic`` reads."""
    add_traffic_logs(
        group, "audit logs, or directories of them: no recorded request may be newly denied"
    )
    group.add_argument(
        "--traffic-report",
        type=Path,
        metavar="FILE",
        help="for logs of many millions of lines, instead of --traffic: the whatif.json of "
        "authorizerd replay whatif --plan",
    )


def add_traffic_logs(group: argparse._ArgumentGroup, help: str) -> None:
    """Add ``--traffic``, with this help, and the flags that say how its files are read."""
    group.add_argument(
        "--traffic", action="extend", nargs="+", default=[], metavar="FILE", help=help
    )
    group.add_argument(
        "--traffic-format",
        default="auto",
        choices=("auto", "json", "kafka"),
        help="format of --traffic; auto detects it for each line (default: %(default)s)",
    )
    group.add_argument(
        "--traffic-tz",
        default="UTC",
        metavar="ZONE",
        help="time zone of times in --traffic that name none (default: %(default)s)",
    )
    group.add_argument(
        "--traffic-line-field",
        metavar="NAME",
        help="for --traffic in JSON: the field that holds each line, such as event.original; "
        "default: the fields of known log shippers",
    )
    group.add_argument(
        "--traffic-max-bad-ratio",
        default=0.01,
        type=_parse_ratio,
        metavar="R",
        help="maximum share of lines in --traffic that cannot be read (default: %(default)s)",
    )


def _parse_ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, found {text!r}")
    return ratio
