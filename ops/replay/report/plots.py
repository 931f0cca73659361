"""Plots of a load, as curves on axes; ``templates/svg.jinja`` writes the SVG.

**Invariant:** every value is drawn within its axis, and a gap in the figures is a gap in the curve.
Curves differ in dashes and names as well as in colour. A plot over time has at most ``POINTS_MAX``
points on its x axis. A point that stands for several seconds shows the worst of their latencies or
the mean of their rates, and the caption says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from authorizerd.replay.load.lanes.tally import last_of
from authorizerd.replay.load.report import LoadReport, Percentiles, SecondReport
from authorizerd.replay.text import format_count

POINTS_MAX: Final = 300

_TICKS_MAX: Final = 10
_STEPS: Final = (1.0, 2.0, 5.0)
_TOLERANCE: Final = 1e-9
"""Allows for rounding: the computed logarithm of a power of ten may not be exact."""
_LATENCIES: Final = ("p50", "p99", "max")
_TIME: Final = "seconds since the start"
_NS_PER_MS: Final = 1e6
_GROUPS_MIN: Final = 2
_BINS_PER_DECADE: Final = 10

Point = tuple[float, float | None]
Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from ``first`` to ``last``, and the values that get a tick."""

    first: float
    last: float
    ticks: tuple[float, ...]
    is_log: bool = False

    def locate(self, value: float) -> float:
        """Return the position of ``value`` on the axis, from 0 to 1; values outside are clamped."""
        value = min(max(value, self.first), self.last)
        if self.is_log:
            return math.log(value / self.first) / math.log(self.last / self.first)
        return (value - self.first) / (self.last - self.first)


def linear_axis(first: float, last: float) -> Axis:
    """Return an axis with exactly these ends, and ticks at round numbers."""
    least = (last - first) / _TICKS_MAX
    power = 10.0 ** math.floor(math.log10(least))
    step = next((step * power for step in _STEPS if step * power >= least), 10 * power)
    numbers = range(math.ceil(first / step), math.floor(last / step + _TOLERANCE) + 1)
    return Axis(first, last, tuple(number * step for number in numbers))


def log_axis(values: Iterable[float], steps: Sequence[float] = _STEPS) -> Axis:
    """Return a logarithmic axis for the values above 0.

    It begins and ends at one of ``steps`` times a power of ten. All of these get ticks, or if there
    are many, only the powers of ten.
    """
    above_0 = [value for value in values if value > 0] or [1.0]
    least, most = min(above_0) * (1 + _TOLERANCE), max(above_0) / (1 + _TOLERANCE)
    powers = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 2)
    marks = [step * 10.0**power for power in powers for step in steps]
    first = max(mark for mark in marks if mark <= least)
    last = min(mark for mark in marks if mark >= most and mark > first)
    ticks = [mark for mark in marks if first <= mark <= last]
    if len(ticks) > _TICKS_MAX:
        ticks = [10.0**power for power in powers if first <= 10.0**power <= last]
    return Axis(first, last, tuple(ticks), is_log=True)


def format_tick(value: float) -> str:
    """Return a tick's label."""
    return f"{value:,.0f}" if value >= 1 and value == int(value) else f"{value:g}"


class Curve(NamedTuple):
    """Points by increasing x."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot with its axes and curves; ``markers`` are names of vertical lines, each at an x.

    The style sheet has ``curve-1`` for the first curve, and so on. Curves are drawn in the area
    from ``left`` and ``top`` to ``right`` and ``bottom``, in pixels.
    """

    label: str
    caption: str = ""
    x: Axis
    y: Axis
    x_title: str
    y_title: str
    x_number: Callable[[float], str] = format_tick
    curves: Sequence[Curve]
    markers: Sequence[tuple[str, float]] = ()
    width: int = 760
    height: int = 270
    left: float = 62.0
    top: float = 36.0

    @property
    def right(self) -> float:
        return self.width - 18.0

    @property
    def bottom(self) -> float:
        return self.height - 40.0

    def place_x(self, value: float) -> float:
        """Return the pixel of a value on the x axis."""
        return self.left + self.x.locate(value) * (self.right - self.left)

    def place_y(self, value: float) -> float:
        """Return the pixel of a value on the y axis."""
        return self.bottom + self.y.locate(value) * (self.top - self.bottom)

    def pieces(self, curve: Curve) -> Iterator[list[Place]]:
        """Yield each part of the curve between gaps; points within 0.1 pixel are merged."""
        for is_gap, points in groupby(curve.points, lambda point: point[1] is None):
            if not is_gap:
                places = (
                    (round(self.place_x(x), 1), round(self.place_y(y), 1))
                    for x, y in points
                    if y is not None
                )
                yield list(dict.fromkeys(places))


def group_seconds(seconds: Sequence[SecondReport]) -> tuple[int, list[SecondReport]]:
    """Return the number of seconds per group, and all groups from the first second to the last.

    A group's ``offered`` and ``served`` are sums. A group without any report has zeros.
    """
    if not seconds:
        return 1, []
    first, last = min(each.second for each in seconds), max(each.second for each in seconds)
    width = -(-(last - first + 1) // POINTS_MAX)
    grouped: dict[int, list[SecondReport]] = {each: [] for each in range(first, last + 1, width)}
    for each in seconds:
        grouped[each.second - (each.second - first) % width].append(each)
    return width, [_merge(second, group) for second, group in grouped.items()]


def _merge(second: int, group: Sequence[SecondReport]) -> SecondReport:
    latencies = ([getattr(each, f"{name}_ms") for each in group] for name in _LATENCIES)
    worst = [max((ms for ms in latency if ms is not None), default=None) for latency in latencies]
    offered, served = sum(each.offered for each in group), sum(each.served for each in group)
    return SecondReport(second, offered, served, *worst)


def plot_latency(load: LoadReport) -> Plot | None:
    """Return the plot of p50, p99 and maximum over time; None if no latency was measured.

    The service time has no timeline, so its p99 for the whole run is drawn as a horizontal line.
    """
    width, groups = group_seconds(load.timeline)
    # A logarithmic axis has no 0, so a latency of 0 is a gap.
    curves = [
        Curve(
            name,
            [(each.second + width / 2, getattr(each, f"{name}_ms") or None) for each in groups],
        )
        for name in _LATENCIES
    ]
    service_ms = load.latency.service.p99_ms if load.latency is not None else None
    if groups and service_ms:
        ends = (groups[0].second, groups[-1].second + width)
        curves.append(Curve("service p99, whole run", [(end, service_ms) for end in ends]))
    values = [y for curve in curves for _, y in curve.points if y is not None]
    if not values:
        return None
    return Plot(
        label="Latency over time: p50, p99 and maximum of each moment",
        caption="Latency over time, corrected: from when a question was due"
        + _describe_points(width, "the worst of"),
        x=linear_axis(groups[0].second, groups[-1].second + width),
        y=log_axis(values),
        x_title=_TIME,
        y_title="latency, ms (log)",
        curves=curves,
        markers=_mark_death(load),
    )


def plot_rates(load: LoadReport) -> Plot | None:
    """Return the plot of questions due and answered over time; None if there were none."""
    width, groups = group_seconds(load.timeline)
    # The last second is seldom complete, so it would look like a collapse. Keep it if the target
    # was lost: then the rate did collapse.
    is_cut = load.death is None and len(groups) > _GROUPS_MIN
    groups = groups[:-1] if is_cut else groups
    curves = [
        Curve(name, [(each.second + width / 2, getattr(each, name) / width) for each in groups])
        for name in ("served", "offered")
    ]
    highest = max((max(group.offered, group.served) / width for group in groups), default=0)
    if not highest:
        return None
    return Plot(
        label="Questions offered and served over time",
        caption="Rate: questions due, and questions answered, in each second"
        + _describe_points(width, "the mean of")
        + ("; the incomplete last second is left out" if is_cut else ""),
        x=linear_axis(groups[0].second, groups[-1].second + width),
        y=linear_axis(0, highest),
        x_title=_TIME,
        y_title="questions per s",
        curves=curves,
        markers=_mark_death(load),
    )


def _mark_death(load: LoadReport) -> Sequence[tuple[str, float]]:
    return [] if load.death is None else [("target lost", load.death.after_s)]


def _describe_points(width: int, how: str) -> str:
    return f"; each point is {how} {format_count(width, 'second')}" if width > 1 else ""


def plot_percentiles(measured: Sequence[tuple[str, Percentiles]]) -> Plot | None:
    """Return the plot of each latency against the share of questions that took longer."""
    curves = [Curve(name, exceedances(percentiles)) for name, percentiles in measured]
    points = [point for curve in curves for point in curve.points]
    if not points:
        return None
    return Plot(
        label=f"Percentiles: {', '.join(name for name, _ in measured)}",
        caption="Percentiles: p50 is 1 in 2, p90 is 1 in 10, p99 is 1 in 100",
        x=log_axis([1, *(x for x, _ in points)]),
        y=log_axis(y for _, y in points if y is not None),
        x_title="one question in N took longer",
        y_title="ms (log)",
        x_number=lambda value: f"1 in {value:,.0f}" if value > 1 else "all",
        curves=curves,
    )


def exceedances(percentiles: Percentiles) -> list[Point]:
    """Return points (n, ms): one question in n took longer than ms. The last is the maximum."""
    left = percentiles.samples
    points: list[Point] = []
    for value_ms, samples in _list_latencies(percentiles):
        left -= samples
        if value_ms > 0:
            points.append((percentiles.samples / max(left, 1), value_ms))
    return points


def _list_latencies(percentiles: Percentiles) -> Iterator[tuple[float, int]]:
    """Yield the upper bound in milliseconds, and the samples, of each bucket."""
    highest = math.inf if percentiles.max_ms is None else percentiles.max_ms
    for bucket, samples in sorted(percentiles.buckets):
        yield min(last_of(bucket) / _NS_PER_MS, highest), samples


class Bin(NamedTuple):
    """Latencies from ``first_ms`` to ``last_ms``, and each run's share of samples in percent."""

    first_ms: float
    last_ms: float
    shares: Sequence[float]


def bin_latencies(measured: Sequence[Percentiles]) -> list[Bin]:
    """Return bins of equal ratios, from the first with a sample to the last; none without any."""
    counts = [Counter[int]() for _ in measured]
    for percentiles, counted in zip(measured, counts, strict=True):
        for value_ms, samples in _list_latencies(percentiles):
            decades = math.log10(max(value_ms, 1 / _NS_PER_MS))
            counted[math.floor(decades * _BINS_PER_DECADE)] += samples
    used = [number for counted in counts for number in counted]
    return [
        Bin(
            10 ** (number / _BINS_PER_DECADE),
            10 ** ((number + 1) / _BINS_PER_DECADE),
            [100 * counted[number] / max(counted.total(), 1) for counted in counts],
        )
        for number in (range(min(used), max(used) + 1) if used else ())
    ]


def plot_histogram(what: str, names: Sequence[str], bins: Sequence[Bin]) -> Plot | None:
    """Return the outlines of one histogram for each name, drawn over each other."""
    if not bins:
        return None
    return Plot(
        label=f"Histogram of {what} in both runs",
        caption=f"Histogram of {what}: the share of questions in each bin",
        x=log_axis(edge for each in bins for edge in each[:2]),
        y=linear_axis(0, max(max(each.shares) for each in bins)),
        x_title="ms (log)",
        y_title="% of questions",
        curves=[
            Curve(name, [(edge, each.shares[number]) for each in bins for edge in each[:2]])
            for number, name in enumerate(names)
        ],
    )
