"""What a load was told to do, as ``load.json`` keeps it beside what came of it."""

from __future__ import annotations

import msgspec

from authorizerd.replay.plans import LoadPlan


class LoadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, beside ``mode``; see docs/replay-load.md for what each does.

    ``speed`` is a factor of the recorded times; where there is a ``rate`` (questions a second) or a
    ``profile`` other than constant, as in a closed loop, it is 1 and counts for nothing.
    """

    speed: float
    rate: float | None
    profile: str
    loop: int
    max_gap_s: float | None
    warm_up_s: float
    duration_s: float | None
    lanes: int
    batch: int
    depth: int
    max_send_lag_ms: float

    @classmethod
    def of(cls, plan: LoadPlan) -> LoadSettings:
        return cls(**{name: getattr(plan, name) for name in cls.__struct_fields__})
