"""Figures, the peers' figures, and the table of both.

**Invariant:** the table has a peer's figure only if this run measured it; otherwise it has the
reason. The ratio always states how many times better our figure is. A percentile is shown only if
enough samples lie above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

HEADINGS: Final = ("what", "ours", "peer", "ours is better by")
PERCENTS: Final = (50, 90, 99)
"""The percentiles of a report, in ascending order."""

_EXACT_FROM: Final = 100
_SAMPLES_ABOVE: Final = 10
"""How many samples must lie above a percentile: 1,000 samples support the 99th."""

Spread = tuple[float, float]
"""The lowest and the highest figure of several rounds."""


class Peer(msgspec.Struct, frozen=True):
    """A peer's figure, in our unit. If ``value`` is None, ``absent`` has the reason."""

    name: str
    value: float | None
    absent: str = ""
    spread: Spread | None = None


class Absent(msgspec.Struct, frozen=True):
    """The reason why a peer was not measured."""

    reason: str


def make_peer(name: str, measured: T | Absent, pick: Callable[[T], float]) -> Peer:
    """Return the figure that ``pick`` takes from a measurement, or the reason for its absence."""
    if isinstance(measured, Absent):
        # A reason with line breaks would break the table.
        return Peer(name, None, " ".join(measured.reason.split()))
    return Peer(name, pick(measured))


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table.

    ``peer`` is None if there is no peer for this line. ``limit`` is the most that we allow, in the
    same unit; if it is ``enforced``, a run that exceeds it fails. ``calm`` is our own figure
    without the load that the line is about.
    """

    what: str
    unit: str
    ours: float
    peer: Peer | None = None
    limit: float | None = None
    enforced: bool = False
    calm: float | None = None
    spread: Spread | None = None
    more_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """Return how many times better ours is, or None if no peer was measured."""
        theirs = None if self.peer is None else self.peer.value
        # A figure of 0 has no ratio either.
        if not theirs or not self.ours:
            return None
        return self.ours / theirs if self.more_is_better else theirs / self.ours

    @property
    def is_broken(self) -> bool:
        """True if the figure exceeds a limit that must hold."""
        return self.enforced and self.limit is not None and self.ours > self.limit


def supported_percent(samples: int) -> int:
    """Return the highest of ``PERCENTS`` that so many samples support; 50 in any case."""
    supported = [each for each in PERCENTS if samples * (100 - each) >= 100 * _SAMPLES_ABOVE]
    return supported[-1] if supported else PERCENTS[0]


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of values in ascending order."""
    assert ordered, "nothing was measured"
    # Round up: the nearest rank is the first that covers the percentage.
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(int(rank), 1) - 1]


def format_figure(value: float) -> str:
    """Return a figure with three significant digits, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= _EXACT_FROM else f"{value:.3g}"


def format_table(lines: Iterable[Line]) -> str:
    """Return the lines as aligned columns of plain text."""
    rows: list[tuple[str, ...]] = [HEADINGS, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    rows.insert(1, tuple("-" * width for width in widths))
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in rows
    )


def _cells(line: Line) -> tuple[str, str, str, str]:
    return (
        line.what,
        _format_with_spread(line.ours, line.spread, line.unit),
        _peer_cell(line),
        _ratio_cell(line),
    )


def _format_with_spread(value: float, spread: Spread | None, unit: str) -> str:
    if spread is None or spread[0] == spread[1]:
        return f"{format_figure(value)} {unit}".rstrip()
    lowest, highest = map(format_figure, spread)
    return f"{format_figure(value)} [{lowest}..{highest}] {unit}".rstrip()


def _peer_cell(line: Line) -> str:
    if line.calm is not None:
        return f"{format_figure(line.calm)} {line.unit} (calm)"
    if line.peer is None:
        return "" if line.limit is None else _limit_cell(line, line.limit)
    if line.peer.value is None:
        return f"peer absent: {line.peer.absent}"
    shown = _format_with_spread(line.peer.value, line.peer.spread, line.unit)
    return f"{shown} ({line.peer.name})"


def _limit_cell(line: Line, limit: float) -> str:
    allowed = f"limit: at most {format_figure(limit)} {line.unit}".rstrip()
    return f"{allowed}: BROKEN" if line.is_broken else allowed


def _ratio_cell(line: Line) -> str:
    if line.calm:
        return f"{format_figure(line.ours / line.calm)}x calm"
    return "" if line.ratio is None else f"{format_figure(line.ratio)}x"
