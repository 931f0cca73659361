"""The plots of a load: latency and rate over time, and its percentiles.

**Invariant:** a plot over time has at most ``POINTS_MAX`` points on its x axis. If one point stands
for several seconds, it shows the worst of their latencies or the mean of their rates, and the
caption says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from authorizerd.replay.load.lanes.histogram import bucket_of, last_of
from authorizerd.replay.load.report import Latencies, LoadReport, Percentiles, SecondReport
from authorizerd.replay.report.axes import Axis, linear_axis, log_axis, time_axis
from authorizerd.replay.report.plots import PAGE_FRAME, Curve, Marker, Plot, Point
from authorizerd.replay.report.wording import format_milliseconds, format_rate
from authorizerd.replay.text import format_count

POINTS_MAX: Final = 300
_NS_PER_MS: Final = 1e6
_GROUPS_MIN: Final = 2
_BUCKET_MAX: Final = bucket_of(2**63)
"""Only a damaged file has a higher bucket, whose bound could be a number that takes all memory."""


def group_seconds(seconds: Sequence[SecondReport]) -> tuple[int, list[SecondReport]]:
    """Return the number of seconds in a group, and all groups from the first second to the last.

    A group's ``offered`` and ``served`` are sums. A group without any report has zeros.
    """
    if not seconds:
        return 1, []
    first, last = min(each.second for each in seconds), max(each.second for each in seconds)
    width = -(-(last - first + 1) // POINTS_MAX)
    grouped: dict[int, list[SecondReport]] = {}
    for each in seconds:
        grouped.setdefault((each.second - first) // width, []).append(each)
    groups = range((last - first) // width + 1)
    return width, [_merge(first + group * width, grouped.get(group, [])) for group in groups]


def _merge(second: int, group: Sequence[SecondReport]) -> SecondReport:
    return SecondReport(
        second,
        sum(each.offered for each in group),
        sum(each.served for each in group),
        _worst(each.p50_ms for each in group),
        _worst(each.p99_ms for each in group),
        _worst(each.max_ms for each in group),
    )


def _worst(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def plot_latency(load: LoadReport) -> Plot | None:
    """Return the plot of p50, p99 and maximum over time; None if no latency was measured.

    The service time has no timeline, so its p99 for the whole run is drawn as a horizontal line.
    """
    width, groups = group_seconds(load.timeline)
    curves = [
        Curve(name=name, style=f"curve-{number}", points=[*_points(groups, width, attribute)])
        for number, (name, attribute) in enumerate(
            (("p50", "p50_ms"), ("p99", "p99_ms"), ("max", "max_ms")), start=1
        )
    ]
    service_ms = load.latency.service.p99_ms if load.latency is not None else None
    if groups and service_ms:
        ends = (groups[0].second, groups[-1].second + width)
        level = [(float(end), service_ms) for end in ends]
        curves.append(Curve(name="service p99, whole run", style="curve-4", points=level))
    values = [y for curve in curves for _, y in curve.points if y is not None]
    if not values:
        return None
    return Plot(
        label="Latency over time: p50, p99 and maximum of each moment",
        x=_time_axis(groups, width),
        y=log_axis(values, start=PAGE_FRAME.bottom, end=PAGE_FRAME.top),
        x_title="seconds since the start",
        y_title="latency, ms (log)",
        x_number=_format_tick,
        y_number=_format_tick,
        curves=curves,
        caption="Latency over time, corrected: from when a question was due"
        + _grouping(width, "the worst of"),
        markers=[*_mark_death(load)],
        hints=[(each.second, each.second + width, _latency_hint(each)) for each in groups],
    )


def _points(groups: Sequence[SecondReport], width: int, attribute: str) -> Iterator[Point]:
    for each in groups:
        # A logarithmic axis has no 0, so a latency of 0 is a gap.
        yield each.second + width / 2, getattr(each, attribute) or None


def _latency_hint(each: SecondReport) -> str:
    return (
        f"{each.second:,} s: p50 {format_milliseconds(each.p50_ms)}, "
        f"p99 {format_milliseconds(each.p99_ms)}, max {format_milliseconds(each.max_ms)}"
    )


def plot_rates(load: LoadReport) -> Plot | None:
    """Return the plot of questions due and answered over time; None if there were none."""
    width, groups = group_seconds(load.timeline)
    # The last second is seldom complete, and would look like a collapse. If the target was lost,
    # the rate did collapse, and the second stays.
    is_cut = load.death is None and len(groups) > _GROUPS_MIN
    groups = groups[:-1] if is_cut else groups
    curves = [
        Curve(name="served", style="curve-1", points=_rates(groups, width, "served")),
        Curve(name="offered", style="curve-2", points=_rates(groups, width, "offered")),
    ]
    highest = max((y for curve in curves for _, y in curve.points if y is not None), default=0)
    if not highest:
        return None
    caption = "Rate: questions due, and questions answered, in each second" + _grouping(
        width, "the mean of"
    )
    if is_cut:
        caption += "; the incomplete last second is left out"
    return Plot(
        label="Questions offered and served over time",
        x=_time_axis(groups, width),
        y=linear_axis(highest, start=PAGE_FRAME.bottom, end=PAGE_FRAME.top),
        x_title="seconds since the start",
        y_title="questions per s",
        x_number=_format_tick,
        y_number=_format_tick,
        curves=curves,
        markers=[*_mark_death(load)],
        caption=caption,
        hints=[(each.second, each.second + width, _rate_hint(each, width)) for each in groups],
    )


def _rate_hint(group: SecondReport, width: int) -> str:
    return (
        f"{group.second:,} s: {format_rate(group.offered / width)} offered, "
        f"{format_rate(group.served / width)} served"
    )


def _rates(groups: Sequence[SecondReport], width: int, attribute: str) -> list[Point]:
    return [(each.second + width / 2, getattr(each, attribute) / width) for each in groups]


def plot_percentiles(latency: Latencies) -> Plot | None:
    """Return the plot of latency against the share of questions that took longer."""
    curves = [
        Curve(name=name, style=f"curve-{number}", points=exceedances(of))
        for number, (name, of) in enumerate(
            (
                ("service", latency.service),
                ("corrected", latency.corrected),
                ("send lag", latency.send_lag),
            ),
            start=1,
        )
    ]
    points = [point for curve in curves for point in curve.points]
    values = [y for _, y in points if y is not None]
    if not values:
        return None
    return Plot(
        label="Percentiles of corrected latency, service time and send lag",
        x=log_axis([1, *(x for x, _ in points)], start=PAGE_FRAME.left, end=PAGE_FRAME.right),
        y=log_axis(values, start=PAGE_FRAME.bottom, end=PAGE_FRAME.top),
        x_title="one question in N took longer",
        y_title="ms (log)",
        x_number=lambda value: f"1 in {value:,.0f}" if value > 1 else "all",
        y_number=_format_tick,
        curves=curves,
        caption="Percentiles: p50 is 1 in 2, p90 is 1 in 10, p99 is 1 in 100. Where corrected is"
        " above service, questions waited for those before them",
    )


def exceedances(percentiles: Percentiles) -> list[Point]:
    """Return points (n, ms): one question in n took longer than ms. The last is the maximum."""
    left = percentiles.samples
    points: list[Point] = []
    highest = percentiles.max_ms
    for bucket, samples in sorted(percentiles.buckets):
        left -= samples
        value = last_of(min(bucket, _BUCKET_MAX)) / _NS_PER_MS
        value = value if highest is None else min(value, highest)
        if value > 0:
            points.append((percentiles.samples / max(left, 1), value))
    return points


def _time_axis(groups: Sequence[SecondReport], width: int) -> Axis:
    return time_axis(
        groups[0].second, groups[-1].second + width, start=PAGE_FRAME.left, end=PAGE_FRAME.right
    )


def _mark_death(load: LoadReport) -> Iterator[Marker]:
    if load.death is not None:
        yield Marker(name="target lost", x=load.death.after_s)


def _grouping(width: int, how: str) -> str:
    return f"; each point is {how} {format_count(width, 'second')}" if width > 1 else ""


def _format_tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
