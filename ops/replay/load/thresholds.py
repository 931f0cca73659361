"""Parse and judge the thresholds of a load, such as ``p99<5ms,mismatch=0``.

**Invariant:** a threshold fails if its figure was not measured.

    thresholds = threshold *( "," threshold )
    threshold  = ( "p50" | "p90" | "p99" | "p99.9" | "max" ) ( "<" | "<=" ) duration
               | "outage" ( "<" | "<=" ) duration     ; the longest time without a connection
               | ( "mismatch" | "errors" | "dropped" | "lost" ) "=" "0"
               | "rate" ">=" number            ; answered questions per second
    duration   = number ( "us" | "ms" | "s" )

Percentiles are those of the corrected latency, which counts from the time a question was due.
"""

from __future__ import annotations

import operator
import re
from typing import Final

import msgspec

from authorizerd.replay.errors import LoadError

PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
RATE: Final = "rate"
OUTAGE: Final = "outage"
RECONNECTING: Final = (OUTAGE, "lost")
"""The figures of a load that connects again."""

_UNITS_NS: Final = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_NUMBER: Final = "([0-9]+(?:[.][0-9]+)?)"
_SHAPES: Final = tuple(
    re.compile(shape)
    for shape in (
        rf"(p50|p90|p99|p99[.]9|max|outage)\s*(<=?)\s*{_NUMBER}\s*(us|ms|s)",
        r"(mismatch|errors|dropped|lost)\s*(=)\s*(0)()",
        rf"(rate)\s*(>=)\s*{_NUMBER}()",
    )
)
_COMPARE: Final = {"<": operator.lt, "<=": operator.le, "=": operator.eq, ">=": operator.ge}


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
        is_time = self.threshold.startswith(("p", "max", OUTAGE))
        unit = " ms" if is_time else "/s" if self.threshold.startswith(RATE) else ""
        return f"{self.measured:.6g}{unit}"


def parse_thresholds(text: str) -> tuple[Threshold, ...]:
    """Return the thresholds in ``text``, which may be empty.

    Raises:
        LoadError: a threshold is malformed; the text names it.
    """
    return tuple(_parse(part.strip()) for part in text.split(",")) if text.strip() else ()


def _parse(text: str) -> Threshold:
    for shape in _SHAPES:
        if found := shape.fullmatch(text):
            figure, comparison, number, unit = found.groups()
            return Threshold(text, figure, comparison, float(number) * _UNITS_NS.get(unit, 1))
    raise LoadError(
        f"threshold {text!r}: expected p50, p90, p99, p99.9, max or outage below a time (p99<5ms,"
        " max<=1s), or mismatch=0, errors=0, dropped=0, lost=0, or rate>=N"
    )


def judge(threshold: Threshold, measured: float | None) -> Verdict:
    """Return the verdict on ``measured``, which has the unit of the limit."""
    if measured is None:
        return Verdict(threshold.text, None, False)
    passed = _COMPARE[threshold.comparison](measured, threshold.limit)
    shown = measured / 1e6 if threshold.figure in (*PERCENTILES, OUTAGE) else measured
    return Verdict(threshold.text, shown, passed)
