"""One entry of the catalogue of metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricEntry:
    """One metric, as the daemon exports it and as the documents explain it.

    Attributes:
        name: the name of the sample, including ``_total`` for a counter. For a histogram, the name
            of the family.
        unit: what the value counts or measures.
        help: the help text of the exposition, word for word.
        advice: what an operator should do about unusual values.
        condition: when the metric is exported, if not always.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    unit: str
    help: str
    advice: str
    condition: str = ""
