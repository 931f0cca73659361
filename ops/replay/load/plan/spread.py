"""Assign principals to lanes, so that each lane has about the same number of questions.

**Invariant:** each principal has one lane, so its questions keep the recorded order. The same
counts always give the same lanes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final
from zlib import crc32

PLACED_MAX: Final = 10_000
"""Maximum number of principals, the most frequent ones, that are assigned one by one. A checksum of
its name assigns every other principal."""


class Spread:
    """The lane of each principal.

    The principals with the most questions are assigned first, each to the lane that has the fewest
    questions so far.
    """

    def __init__(self, counts: Iterable[tuple[str, int]], lanes: int) -> None:
        self._lanes = lanes
        self._lane_of: dict[str, int] = {}
        loads = [(0, lane) for lane in range(lanes)]
        # Sort equal counts by name: the lanes must not depend on Spark's order.
        for principal, count in sorted(counts, key=lambda item: (-item[1], item[0]))[:PLACED_MAX]:
            load, lane = loads[0]
            self._lane_of[principal] = lane
            heapq.heapreplace(loads, (load + count, lane))

    def lane_of(self, principal: str) -> int:
        lane = self._lane_of.get(principal)
        # Not ``hash``, which Python salts: each worker would compute a different lane.
        return crc32(principal.encode()) % self._lanes if lane is None else lane
