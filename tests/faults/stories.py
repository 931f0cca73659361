"""The kinds of stories, and counts over many schedules."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The probability of each event in the life of a process.

    ``crash`` ends the process at some call, ``power_loss`` the machine too. ``failure`` is an
    OSError, ``damage`` hits a checkpoint, and ``clean`` ends a life without a fault.
    """

    crash: float = 0.0
    failure: float = 0.0
    power_loss: float = 0.7
    damage: float = 0.0
    clean: float = 0.2
    checkpoint: float = 0.15
    is_large: bool = False
    segment_bytes_max: Sequence[int] = (300, 1500, 6000, 1 << 30)


STORIES: Final = {
    "power": Story(crash=0.8, power_loss=1.0),
    "kill": Story(crash=0.8, power_loss=0.3),
    "errors": Story(crash=0.1, failure=0.8, power_loss=0.5),
    "mixed": Story(crash=0.5, failure=0.4),
    "large": Story(
        crash=0.8, failure=0.1, checkpoint=0.05, is_large=True, segment_bytes_max=(20_000, 1 << 30)
    ),
    "checkpoints": Story(crash=0.6, failure=0.2, checkpoint=0.6),
    "damage": Story(crash=0.3, damage=0.6, clean=0.5, checkpoint=0.4),
}

COPY_STORIES: Final = {
    **{name: STORIES[name] for name in ("power", "kill", "errors", "mixed", "large")},
    "snapshots": Story(crash=0.5, failure=0.3, checkpoint=0.6),
    "damage": Story(crash=0.2, damage=0.5, clean=0.5, checkpoint=0.3),
}
"""The stories of the copy of a followed log."""


@dataclass(slots=True)
class Counts:
    """Counts of stories, events, faults and calls."""

    stories: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    calls: int = 0
