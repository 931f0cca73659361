"""Rows of figures: each has the project's own figure, and a peer's from the same run.

**Invariant:** a row has a peer's figure only if this run measured it; otherwise it has the reason.
The ratio says how many times better our figure is. A percentile needs ten samples above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median
from typing import Final, TypeVar, overload

import msgspec

from tests.kafka_rig.rig import Absent as Absent

T = TypeVar("T")
U = TypeVar("U")

MIB: Final = 1024 * 1024
PERCENTS: Final = (50, 90, 99)
_EXACT_FROM: Final = 100
_SAMPLES_ABOVE: Final = 10


class MeasurementError(Exception):
    """A measurement is not valid: the harness failed, or two sides gave different answers."""


class Peer(msgspec.Struct, frozen=True):
    """A peer's figure in our unit. If ``value`` is None, ``absent`` has the reason."""

    name: str
    value: float | None
    absent: str = ""
    spread: tuple[float, float] | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure: ``what`` names the case, ``metric`` what was measured.

    ``limit`` is the maximum that we allow; a run that exceeds an ``enforced`` limit fails. ``calm``
    is our figure without the load that the row is about. ``spread`` has the extremes of the rounds.
    """

    what: str
    metric: str
    unit: str
    ours: float
    peer: Peer | None = None
    limit: float | None = None
    enforced: bool = False
    calm: float | None = None
    spread: tuple[float, float] | None = None
    more_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """Return how many times better ours is; None without a peer, or if one is not positive."""
        theirs = None if self.peer is None else self.peer.value
        if theirs is None or min(theirs, self.ours) <= 0:
            return None
        return self.ours / theirs if self.more_is_better else theirs / self.ours

    @property
    def is_broken(self) -> bool:
        """True if the figure exceeds an enforced limit."""
        return self.enforced and self.limit is not None and self.ours > self.limit

    def __str__(self) -> str:
        ours, peer = _with_spread(self.ours, self.spread, self.unit), self.peer
        if self.calm is not None:
            return f"{ours} (calm {format_figure(self.calm)})"
        if self.limit is not None:
            return f"{ours} (limit {format_figure(self.limit)})"
        if peer is None:
            return ours
        if peer.value is None:
            return f"{ours} ({peer.name}: {peer.absent})"
        theirs = _with_spread(peer.value, peer.spread, self.unit)
        ratio = "" if self.ratio is None else f", {format_figure(self.ratio)}x"
        return f"{ours} ({peer.name}: {theirs}{ratio})"


Metric = tuple[str, str, Callable[[T], float | None]]
"""The name of a metric, its unit, and how to get it; None if it was not measured."""


@overload
def pick_from(side: T | Absent, pick: Callable[[T], U]) -> U | Absent: ...
@overload
def pick_from(side: T | Absent | None, pick: Callable[[T], U]) -> U | Absent | None: ...
def pick_from(side: T | Absent | None, pick: Callable[[T], U]) -> U | Absent | None:
    """Return a part of a peer's measurement, or the reason for its absence."""
    return side if side is None or isinstance(side, Absent) else pick(side)


def rows(what: str, *figures: tuple[str, str, float]) -> Iterator[Row]:
    """Yield rows of our figures without a peer, from the metric, unit and value of each."""
    for metric, unit, ours in figures:
        yield Row(what=what, metric=metric, unit=unit, ours=ours)


def rows_of(
    what: str, metrics: Iterable[Metric[T]], ours: T, peer: str = "",
    theirs: T | Absent | None = None,
) -> Iterator[Row]:  # fmt: skip
    """Yield a row for each metric, with the same metric of a peer measured in the same way."""
    for metric, unit, pick in metrics:
        if (value := pick(ours)) is not None:
            other = _peer(peer, theirs, pick)
            yield Row(what=what, metric=metric, unit=unit, ours=value, peer=other)


def _peer(name: str, side: T | Absent | None, pick: Callable[[T], float | None]) -> Peer | None:
    if side is None:
        return None
    return Peer(name, None, side.reason) if isinstance(side, Absent) else Peer(name, pick(side))


def row_of_rounds(
    what: str, metric: str, unit: str, ours: Sequence[float], peer: str = "",
    theirs: Sequence[float] | Absent | None = None, *, more_is_better: bool = False,
) -> Row:  # fmt: skip
    """Return the medians over rounds, each with the lowest and the highest value."""
    other = _peer(peer, theirs, median)
    if other is not None and theirs and not isinstance(theirs, Absent):
        other = msgspec.structs.replace(other, spread=(min(theirs), max(theirs)))
    return Row(
        what=what, metric=metric, unit=unit, ours=median(ours), spread=(min(ours), max(ours)),
        peer=other, more_is_better=more_is_better,
    )  # fmt: skip


def percentile_rows(
    what: str, ours: Sequence[float], peer: str = "",
    theirs: Sequence[float] | Absent | None = None, *, calm: Sequence[float] | None = None,
    of: str = "",
) -> Iterator[Row]:  # fmt: skip
    """Yield the median in ms, and the highest percentile that the samples of each side support.

    ``of`` begins the metric's name: "decisions" makes "decisions, p50". The median of too few
    samples for a percentile has their number in its name.
    """
    sides = [each for each in (ours, theirs, calm) if each is not None]
    samples = min(len(each) for each in sides if not isinstance(each, Absent))
    for percent in sorted({50, supported_percent(samples)}):

        def pick(side: Sequence[float], percent: int = percent) -> float:
            return percentile(side, percent)

        is_supported = samples * (100 - percent) >= 100 * _SAMPLES_ABOVE
        name = f"p{percent}" if is_supported else f"median (of {samples})"
        yield Row(
            what=what, metric=f"{of}, {name}".removeprefix(", "), unit="ms", ours=pick(ours),
            peer=_peer(peer, theirs, pick), calm=None if calm is None else pick(calm),
        )  # fmt: skip


def supported_percent(samples: int) -> int:
    """Return the highest of ``PERCENTS`` that this many samples support, but at least 50."""
    supported = [each for each in PERCENTS if samples * (100 - each) >= 100 * _SAMPLES_ABOVE]
    return supported[-1] if supported else PERCENTS[0]


def percentile(values: Iterable[float], percent: float) -> float:
    """Return the nearest-rank percentile; raise MeasurementError if there are no values."""
    ordered = sorted(values)
    if not ordered:
        raise MeasurementError("nothing was measured")
    # Round up: the nearest rank is the first that covers the percentage.
    return ordered[max(int(-(-len(ordered) * percent // 100)), 1) - 1]


def format_figure(value: float) -> str:
    """Return a figure with three significant digits, or all digits before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= _EXACT_FROM else f"{value:.3g}"


def _with_spread(value: float, spread: tuple[float, float] | None, unit: str) -> str:
    between = ""
    if spread is not None and spread[0] != spread[1]:
        between = f" [{format_figure(spread[0])}..{format_figure(spread[1])}]"
    return f"{format_figure(value)}{between} {unit}".rstrip()
