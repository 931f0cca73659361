"""The limits of a stretch, as counts that correspond to 2 ms of CPU time.

Changing or describing configs and credentials takes at most 10 ms, whatever the request.

Calibrated with ``python -m tests.loop`` on a machine of 2026. A line took 16 to 60 ns, usually 40.
A byte took 0.3 to 0.5 ns in small objects, and less in copies. A container took 60 ns, and 1 µs if
it is a node of a map of ACLs, the most frequent container.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIMITS: Final[Mapping[str, int]] = {
    "lines": 50_000,
    "bytes": 4 * 1024 * 1024,
    "containers": 4_500,
    "uncollected containers": 2_500,
    "slow calls": 0,
}
"""Limits by the unit of a meter."""

ADMINISTRATIVE: Final = ("AlterConfigs", "DescribeConfigs", "AlterUserScramCredentials")
"""Words in the names of requests that may take ``ADMINISTRATIVE_FACTOR`` times as long."""
ADMINISTRATIVE_FACTOR: Final = 5


def limit_of(input: str, unit: str) -> int:
    """Return the limit of a stretch that an input causes."""
    is_administrative = any(name in input for name in ADMINISTRATIVE)
    return LIMITS[unit] * (ADMINISTRATIVE_FACTOR if is_administrative else 1)
