"""Figures and the table of them: what was measured, beside whom.

**Invariant:** a peer's figure stands in the table only if this run measured it; otherwise the
reason stands there. The ratio says how many times better ours is, whichever way better lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

HEADINGS: Final = ("what", "ours", "peer", "ours is better by")
_EXACT_FROM: Final = 100


class Peer(msgspec.Struct, frozen=True):
    """Somebody else's figure, in the unit of ours; ``value`` is None where ``absent`` says why."""

    name: str
    value: float | None
    absent: str = ""


class Absent(msgspec.Struct, frozen=True):
    """Stands for a missing measurement of a peer."""

    reason: str


def peer_of(name: str, measured: T | Absent, pick: Callable[[T], float]) -> Peer:
    """Return the figure that ``pick`` finds in what was measured, or why there is none."""
    if isinstance(measured, Absent):
        return Peer(name, None, " ".join(measured.reason.split()))
    return Peer(name, pick(measured))


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table.

    ``peer`` is None where there is nobody to compare with. ``law`` is the most that we allow
    ourselves, in the same unit.
    """

    what: str
    unit: str
    ours: float
    peer: Peer | None = None
    law: float | None = None
    more_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """Return how many times better ours is, None where no peer was measured."""
        theirs = None if self.peer is None else self.peer.value
        if not theirs or not self.ours:
            return None
        return self.ours / theirs if self.more_is_better else theirs / self.ours


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the nearest-rank percentile of values in rising order."""
    assert ordered, "nothing was measured"
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(int(rank), 1) - 1]


def shown(value: float) -> str:
    """Return a figure with three digits that matter, or all of a larger number's."""
    return f"{value:,.0f}" if abs(value) >= _EXACT_FROM else f"{value:.3g}"


def table(lines: Iterable[Line]) -> str:
    """Return the lines as columns of plain text, each no wider than it must be."""
    rows: list[tuple[str, ...]] = [HEADINGS, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    rows.insert(1, tuple("-" * width for width in widths))
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        + "\n"
        for row in rows
    )


def _cells(line: Line) -> tuple[str, str, str, str]:
    ratio = line.ratio
    return (
        line.what,
        f"{shown(line.ours)} {line.unit}".rstrip(),
        _peer_cell(line),
        "" if ratio is None else f"{shown(ratio)}x",
    )


def _peer_cell(line: Line) -> str:
    if line.peer is None:
        return "" if line.law is None else f"law: at most {shown(line.law)} {line.unit}"
    if line.peer.value is None:
        return f"peer absent: {line.peer.absent}"
    return f"{shown(line.peer.value)} {line.unit}".rstrip() + f" ({line.peer.name})"
