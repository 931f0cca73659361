"""Axes of plots: the pixel of each value, and the values that get a tick.

**Invariant:** every value that an axis is made for is drawn between ``start`` and ``end``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_DECADES_WITH_STEPS_MAX: Final = 3
_LINEAR_TICKS: Final = 5
_TIME_TICKS: Final = 10
_STEPS: Final = (1.0, 2.0, 5.0)
_TOLERANCE: Final = 1e-9
"""Allows for rounding: the computed logarithm of a power of ten may not be exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Values from ``first`` to ``last``, drawn on the pixels from ``start`` to ``end``."""

    first: float
    last: float
    start: float
    end: float
    ticks: tuple[float, ...]
    is_log: bool

    def place(self, value: float) -> float:
        """Return the pixel of a value; a value outside of the axis is drawn at its nearer end."""
        value = min(max(value, self.first), self.last)
        if self.is_log:
            part = math.log(value / self.first) / math.log(self.last / self.first)
        else:
            part = (value - self.first) / (self.last - self.first)
        return self.start + part * (self.end - self.start)


def linear_axis(highest: float, *, start: float, end: float) -> Axis:
    """Return an axis from 0 to ``highest``, rounded up to a whole number of steps."""
    step = _round_up(max(highest, 1.0) / _LINEAR_TICKS)
    count = math.ceil(max(highest, 1.0) / step - _TOLERANCE)
    ticks = tuple(number * step for number in range(count + 1))
    return Axis(first=0.0, last=ticks[-1], start=start, end=end, ticks=ticks, is_log=False)


def time_axis(first: float, last: float, *, start: float, end: float) -> Axis:
    """Return an axis that ends exactly at ``last``, which is at least a second after ``first``."""
    step = max(_round_up((last - first) / _TIME_TICKS), 1.0)
    number = math.ceil(first / step)
    ticks = (step * (number + more) for more in range(_TIME_TICKS + 1))
    return Axis(
        first=first,
        last=last,
        start=start,
        end=end,
        ticks=tuple(tick for tick in ticks if tick <= last),
        is_log=False,
    )


def log_axis(values: Iterable[float], *, start: float, end: float) -> Axis:
    """Return a logarithmic axis for the values above 0.

    It has ticks at the powers of ten and, if it spans few of them, at 2 and 5 times each.
    """
    above_0 = [value for value in values if value > 0] or [1.0]
    first, last = _round_down(min(above_0)), _round_up(max(above_0))
    if first == last:
        last = _round_up(first * 1.5)
    lowest, highest = _decades(first, last)
    steps = _STEPS if highest - lowest <= _DECADES_WITH_STEPS_MAX else _STEPS[:1]
    ticks = (step * 10.0**power for power in range(lowest, highest + 1) for step in steps)
    slack = 1 + _TOLERANCE
    return Axis(
        first=first,
        last=last,
        start=start,
        end=end,
        ticks=tuple(tick for tick in ticks if first / slack <= tick <= last * slack),
        is_log=True,
    )


def decade_axis(values: Iterable[float], *, start: float, end: float) -> Axis:
    """Return a logarithmic axis of whole powers of ten, at least one; ``values`` are above 0.

    Axes of whole powers allow a reader to compare plots of different measurements by eye.
    """
    listed = list(values)
    lowest, highest = _decades(min(listed), max(listed))
    ticks = tuple(10.0**power for power in range(lowest, max(highest, lowest + 1) + 1))
    return Axis(first=ticks[0], last=ticks[-1], start=start, end=end, ticks=ticks, is_log=True)


def _decades(first: float, last: float) -> tuple[int, int]:
    return math.floor(math.log10(first) + _TOLERANCE), math.ceil(math.log10(last) - _TOLERANCE)


def _round_up(value: float) -> float:
    """Return ``value``, above 0, rounded up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in _STEPS if step * power >= value), 10 * power)


def _round_down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return max((step * power for step in _STEPS if step * power <= value), default=power)
