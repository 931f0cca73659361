"""The last hour on the page *Live*: two pictures and a table of the same numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
import trio

from authorizerd.daemon.console.svg import Picture, draw_bars, draw_lines
from authorizerd.daemon.kafka.request_latency import BOUNDS_S
from authorizerd.daemon.process.utc_time import format_utc_ms
from authorizerd.daemon.telemetry.activity import SPAN_MS, SPANS_MAX, Activity, Span, list_begins

_DECISIONS: Final = Picture(
    "decisions-hour",
    "Decisions in each ten seconds of the last hour",
    "Bars upwards are allowed decisions, bars downwards are denied ones. There is no data where it"
    " is grey.",
)
_LATENCY: Final = Picture(
    "latency-hour",
    "Latency of Kafka requests in each ten seconds of the last hour",
    "The solid line is the median, the dashed line the 99th percentile. Without a line, there were"
    " no requests. There is no data where it is grey.",
)
_SLOWEST_MS: Final = BOUNDS_S[-1] * 1000


class Row(msgspec.Struct, frozen=True):
    """A row of the table: one span, or adjacent spans without data."""

    begin: str
    end: str
    span: Span | None


async def show_hour(activity: Activity, at_ms: int) -> dict[str, Any]:
    """Return the pictures and the rows, the newest row first."""
    begins, spans = list_begins(at_ms), activity.list_spans(at_ms)
    end_ms = begins[-1] + SPAN_MS
    labels = [_format_time(each) for each in (begins[0], begins[SPANS_MAX // 2], end_ms)]

    def values(read: Callable[[Span], float | None]) -> list[float | None]:
        return [None if span is None else read(span) for span in spans]

    decisions = draw_bars(
        _DECISIONS, values(lambda each: each.allowed), values(lambda each: each.denied), labels
    )
    await trio.lowlevel.checkpoint()  # so that no step takes 2 ms
    latency = None
    requests = values(lambda each: each.requests)
    if any(requests):
        percentiles = [values(lambda each: _cap(each.p50_s)), values(lambda each: _cap(each.p99_s))]
        latency = draw_lines(_LATENCY, percentiles, labels, format_ms, requests)
    return {
        "decisions_picture": decisions,
        "latency_picture": latency,
        "hour": _make_rows(begins, spans),
        "format_bound": format_bound,
    }


def _make_rows(begins: Sequence[int], spans: Sequence[Span | None]) -> list[Row]:
    rows: list[Row] = []
    pairs = zip(reversed(begins), reversed(spans), strict=True)
    # Adjacent spans without data are one row; any other span is a row of its own.
    for _, run in groupby(pairs, lambda pair: pair[1] and pair[0]):
        found = list(run)
        end_ms = found[0][0] + SPAN_MS
        rows.append(Row(_format_time(found[-1][0]), _format_time(end_ms), found[0][1]))
    return rows


def _cap(seconds: float | None) -> float | None:
    return None if seconds is None else min(seconds * 1000, _SLOWEST_MS)


def format_ms(milliseconds: float) -> str:
    """Return a bound of a histogram as text."""
    return f"{milliseconds:,g} ms"


def format_bound(seconds: float | None) -> str:
    """Return the upper bound of a percentile as text."""
    if seconds is None:
        return "no requests"
    if math.isinf(seconds):
        return f"above {format_ms(_SLOWEST_MS)}"
    return f"at most {format_ms(seconds * 1000)}"


def _format_time(time_ms: int) -> str:
    return format_utc_ms(time_ms)[11:19]
