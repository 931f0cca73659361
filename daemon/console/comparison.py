"""What ``verify --follow`` has counted, from its state file.

The verifier rewrites the file every 10 s. If the file is older, its figures are shown with that
time, because the verifier may be down.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from authorizerd.metadata.storage import DISK

STALE_S: Final = 60
BYTES_MAX: Final = 8 * 1024 * 1024
SHOWN_MAX: Final = 20


class Counts(msgspec.Struct, frozen=True):
    """The counts since the beginning, as in the file."""

    agreed: int
    other_rule: int
    not_judged: Mapping[str, int]
    disagreements: Mapping[str, int]
    lost_files: int


class Lag(msgspec.Struct, frozen=True):
    """The lines that are not counted yet, as in the file."""

    bytes: int
    oldest_ms: int | None


class Disagreement(msgspec.Struct, frozen=True):
    """Equal decisions that differ, as in the file."""

    line: str
    first_at: str
    events: int
    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    recorded_allowed: bool
    allowed: bool
    rule: str
    cause: str


class _File(msgspec.Struct, frozen=True):
    version: int
    read_ms: int
    counts: Counts
    lag: Lag
    latest: tuple[Disagreement, ...]


class Comparison(msgspec.Struct, frozen=True):
    """The figures at a time.

    Attributes:
        is_stale: nothing was written for so long that the verifier may be down.
        behind_s: the age of the oldest line that is not counted; 0 if there is none.
    """

    at: str
    is_stale: bool
    counts: Counts
    bytes_behind: int
    behind_s: float
    latest: tuple[Disagreement, ...]


def read_comparison(path: Path) -> Comparison:
    """Return the figures in a state file. Blocks.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a state of this version.
    """
    with DISK.open(path) as file:  # a pipe would block
        data = file.read(BYTES_MAX)
    found = msgspec.json.decode(data, type=_File)
    if found.version != 1:
        raise ValueError(f"version {found.version}")
    now_ms = time.time_ns() // 1_000_000
    oldest_ms = found.lag.oldest_ms
    return Comparison(
        at=datetime.fromtimestamp(found.read_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        is_stale=now_ms - found.read_ms > STALE_S * 1000,
        counts=found.counts,
        bytes_behind=found.lag.bytes,
        behind_s=0 if oldest_ms is None else max(0, now_ms - oldest_ms) / 1000,
        latest=found.latest[:SHOWN_MAX],
    )
