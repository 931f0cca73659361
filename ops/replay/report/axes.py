"""Axes of plots: where a value stands, and which values get a line and a number.

**Invariant:** every value that an axis was made for has its place between ``start`` and ``end``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_DECADES_OF_FEW = 3
_LINEAR_TICKS = 5
_TIME_TICKS = 10
_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Values ``first`` to ``last`` laid over pixels ``start`` to ``end``."""

    first: float
    last: float
    start: float
    end: float
    ticks: tuple[float, ...]
    is_log: bool

    def place(self, value: float) -> float:
        """Return the pixel of a value; one outside is put to the nearer end."""
        value = min(max(value, self.first), self.last)
        if self.is_log:
            part = math.log(value / self.first) / math.log(self.last / self.first)
        else:
            part = (value - self.first) / (self.last - self.first)
        return self.start + part * (self.end - self.start)


def linear_axis(highest: float, *, start: float, end: float) -> Axis:
    """Return an axis from 0 to ``highest`` or a little more: to a whole number of steps."""
    step = _step_above(max(highest, 1.0) / _LINEAR_TICKS)
    count = math.ceil(max(highest, 1.0) / step - 1e-9)
    ticks = tuple(number * step for number in range(count + 1))
    return Axis(first=0.0, last=ticks[-1], start=start, end=end, ticks=ticks, is_log=False)


def time_axis(first: float, last: float, *, start: float, end: float) -> Axis:
    """Return an axis from ``first`` to ``last``, later by one at least, and no further."""
    step = max(_step_above((last - first) / _TIME_TICKS), 1.0)
    number = math.ceil(first / step)
    ticks = tuple(step * (number + more) for more in range(_TIME_TICKS + 1))
    return Axis(
        first=first,
        last=last,
        start=start,
        end=end,
        ticks=tuple(tick for tick in ticks if tick <= last),
        is_log=False,
    )


def log_axis(values: Iterable[float], *, start: float, end: float) -> Axis:
    """Return an axis that all of the values above 0 stand on; its ticks are 1, 2 and 5, or 1."""
    above_0 = [value for value in values if value > 0] or [1.0]
    first, last = _step_below(min(above_0)), _step_above(max(above_0))
    if first == last:
        last = _step_above(first * 1.5)
    lowest, highest = math.floor(math.log10(first) + 1e-9), math.ceil(math.log10(last) - 1e-9)
    steps = _STEPS if highest - lowest <= _DECADES_OF_FEW else _STEPS[:1]
    ticks = (step * 10.0**power for power in range(lowest, highest + 1) for step in steps)
    slack = 1 + 1e-9
    return Axis(
        first=first,
        last=last,
        start=start,
        end=end,
        ticks=tuple(tick for tick in ticks if first / slack <= tick <= last * slack),
        is_log=True,
    )


def _step_above(value: float) -> float:
    """Return the least of 1, 2, 5, 10, 20… that is not below ``value``, which is above 0."""
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in _STEPS if step * power >= value), 10 * power)


def _step_below(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return max((step * power for step in _STEPS if step * power <= value), default=power)
