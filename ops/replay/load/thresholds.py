"""Parse and judge the thresholds of a load, such as ``p99<5ms,mismatch=0``.

**Invariant:** a threshold fails if its figure was not measured.

    thresholds = threshold *( "," threshold )
    threshold  = ( "p50" | "p90" | "p99" | "p99.9" | "max" ) ( "<" | "<=" ) duration
               | ( "mismatch" | "errors" | "dropped" ) "=" "0"
               | "rate" ">=" number            ; answered questions per second
    duration   = number ( "us" | "ms" | "s" )

Percentiles are those of the corrected latency, which counts from the time a question was due.
"""

from __future__ import annotations

import operator
import re
from typing import Final

import msgspec

from authorizerd.replay.load.errors import LoadError

PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
RATE: Final = "rate"

_UNITS_NS: Final = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SHAPE: Final = re.compile(r"([a-z0-9.]+)\s*(<=|>=|<|>|=)\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")
_COMPARE: Final = {"<": operator.lt, "<=": operator.le, "=": operator.eq, ">=": operator.ge}
_COMPARISONS: Final = (
    dict.fromkeys(PERCENTILES, ("<", "<="))
    | dict.fromkeys(("mismatch", "errors", "dropped"), ("=",))
    | {RATE: (">=",)}
)
"""The comparisons of each figure."""


class Threshold(msgspec.Struct, frozen=True):
    """One condition; ``limit`` is in nanoseconds if ``figure`` is a percentile."""

    text: str
    figure: str
    comparison: str
    limit: float


class Verdict(msgspec.Struct, frozen=True):
    """A judged threshold; ``measured`` is None if there is no figure, and percentiles are in ms."""

    threshold: str
    measured: float | None
    passed: bool

    @property
    def measured_text(self) -> str:
        """The measured value with its unit."""
        if self.measured is None:
            return "nothing"
        is_time = self.threshold.startswith(("p", "max"))
        unit = " ms" if is_time else "/s" if self.threshold.startswith(RATE) else ""
        return f"{self.measured:.6g}{unit}"


def parse_thresholds(text: str) -> tuple[Threshold, ...]:
    """Return the thresholds in ``text``, which may be empty.

    Raises:
        LoadError: a threshold is malformed; the text names it.
    """
    return tuple(_parse(part.strip()) for part in text.split(",")) if text.strip() else ()


def _parse(text: str) -> Threshold:
    found = _SHAPE.fullmatch(text)
    if found is None:
        raise LoadError(f"threshold {text!r}: expected the form p99<5ms, mismatch=0 or rate>=1000")
    figure, comparison, number, unit = found.groups()
    complaint = _complaint(figure, comparison, float(number), unit)
    if complaint is not None:
        raise LoadError(f"threshold {text!r}: {complaint}")
    return Threshold(text, figure, comparison, float(number) * _UNITS_NS.get(unit, 1))


def _complaint(figure: str, comparison: str, number: float, unit: str) -> str | None:
    allowed = _COMPARISONS.get(figure)
    if allowed is None:
        return f"unknown figure {figure!r}: expected one of {', '.join(_COMPARISONS)}"
    if comparison not in allowed:
        return f"expected {' or '.join(allowed)} after {figure}"
    if figure in PERCENTILES and unit not in _UNITS_NS:
        return "expected a unit after the duration: us, ms or s"
    if figure not in PERCENTILES and unit:
        return f"expected no unit after {figure}"
    return f"expected 0 for {figure}" if comparison == "=" and number else None


def judge(threshold: Threshold, measured: float | None) -> Verdict:
    """Return the verdict on ``measured``, which has the unit of the limit."""
    if measured is None:
        return Verdict(threshold.text, None, False)
    passed = _COMPARE[threshold.comparison](measured, threshold.limit)
    shown = measured / 1e6 if threshold.figure in PERCENTILES else measured
    return Verdict(threshold.text, shown, passed)
