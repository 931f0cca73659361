"""What a stretch may take: the counts that make 2 ms of CPU time.

Calibrated with ``python -m tests.loop`` on a machine of 2026: a line took 16 to 60 ns, 40 ns as a
rule; a byte 0.3 to 0.5 ns where it is of small objects, less where it is copied; a container some
60 ns, and 1 µs where it is a node of a map of ACLs, which is what a collection finds most of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIMITS: Final[Mapping[str, int]] = {
    "lines": 50_000,
    "bytes": 4 * 1024 * 1024,
    "containers": 4_000,
}
"""By the unit of a meter."""
