"""Check the plan of a load before it starts, in the command and again in the job.

**Invariant:** a plan that passes is carried out unchanged; no value is silently corrected.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.target import parse_target
from authorizerd.replay.load.plan.pacing import parse_profile
from authorizerd.replay.load.plan.questions import BATCH_MAX, SURFACES
from authorizerd.replay.load.thresholds import parse_thresholds
from authorizerd.replay.plans import LoadPlan

MODES: Final = ("open", "closed")


class NumberOption(NamedTuple):
    """A numeric option: its field in the plan, its limits, its unit, and its help text."""

    option: str
    field: str
    least: float
    most: float
    unit: str
    help: str

    @property
    def type(self) -> type[float]:
        return int if isinstance(self.least, int) else float


NUMBERS: Final = tuple(map(NumberOption._make, (
    ("speed", "speed", 1e-3, 1e7, "FACTOR", "2 sends twice as fast as recorded"),
    ("rate", "rate", 1e-3, 1e9, "N", "questions per second, evenly spaced"),
    ("max-gap", "max_gap_s", 1e-3, 1e9, "SECONDS", "shorten longer gaps in the record to this"),
    ("loop", "loop", 0, 10**6, "N", "times to send the events; 0 repeats until --duration"),
    ("warmup", "warm_up_s", 0.0, 1e7, "SECONDS", "time to exclude from latencies and rates"),
    ("duration", "duration_s", 1e-3, 1e9, "SECONDS", "length of the load after the warm-up"),
    ("lanes", "lanes", 1, 10**6, "N", "connections, one task each"),
    ("batch", "batch", 1, BATCH_MAX, "N", "questions per frame"),
    ("depth", "depth", 1, 10**6, "N", "frames in flight"),
    ("start-margin", "start_margin_s", 0.0, 1e7, "SECONDS",
     "time from the last lane being ready to the start"),
    ("max-send-lag", "max_send_lag_ms", 1e-3, 1e9, "MS",
     "the run is not valid if the p99 send lag exceeds this"),
)))  # fmt: skip


def check_plan(plan: LoadPlan) -> None:
    """Check everything that can be checked before the events are read.

    Raises:
        LoadError: a value is unusable; the text names it.
    """
    for name, value, choices in (("surface", plan.surface, SURFACES), ("mode", plan.mode, MODES)):
        if value not in choices:
            raise LoadError(f"{name} {value!r}: expected {' or '.join(choices)}")
    parse_target(plan)
    parse_thresholds(plan.fail_on)
    token = plan.token
    if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
        raise LoadError("token: expected one line of printable ASCII")
    for each in NUMBERS:
        number: float | None = getattr(plan, each.field)
        if number is not None and not each.least <= number <= each.most:
            raise LoadError(f"{each.option} {number:g}: expected {each.least:g} to {each.most:g}")
    _check_pacing(plan)


def _check_pacing(plan: LoadPlan) -> None:
    segments = parse_profile(plan.profile, plan.rate)
    if segments and plan.speed != 1:
        raise LoadError(
            "speed: has no effect with a rate or a profile, which replace the recorded times"
        )
    if not plan.is_open and (segments or plan.speed != 1):
        raise LoadError("mode closed: has no schedule, so remove speed, rate and profile")
    if not plan.loop and (plan.duration_s is None or not plan.is_open):
        raise LoadError(
            "loop 0: repeats until the duration is over, so it requires duration and mode open"
        )
