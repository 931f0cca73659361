"""Assign principals to lanes, so that each lane has about the same number of questions.

**Invariant:** each principal has one lane, so its questions keep the recorded order. The same
counts always give the same lanes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

PLACED_MAX: Final = 10_000
"""Maximum number of principals, the most frequent ones, that are assigned one by one. A checksum of
its name assigns every other principal."""


def spread(counts: Iterable[tuple[str, int]], lanes: int) -> list[tuple[str, int]]:
    """Return each principal with its lane, from the number of its questions.

    The principals with the most questions come first, each in the lane that has the fewest so far.
    """
    loads = [(0, lane) for lane in range(lanes)]
    placed: list[tuple[str, int]] = []
    # Sort equal counts by name: the lanes must not depend on Spark's order.
    for principal, count in sorted(counts, key=lambda item: (-item[1], item[0])):
        load, lane = loads[0]
        placed.append((principal, lane))
        heapq.heapreplace(loads, (load + count, lane))
    return placed
