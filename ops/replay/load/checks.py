"""Check the plan of a load before it starts, in the command and again in the job.

**Invariant:** a plan that passes is carried out unchanged; no value is silently corrected.
"""

from __future__ import annotations

from typing import Final

from authorizerd.replay.load.errors import LoadError
from authorizerd.replay.load.lanes.target import check_tls, parse_target
from authorizerd.replay.load.plan.pacing import parse_profile
from authorizerd.replay.load.plan.questions import BATCH_MAX, SURFACES
from authorizerd.replay.load.thresholds import parse_thresholds
from authorizerd.replay.plans import LoadPlan

MODES: Final = ("open", "closed")
_COUNT_MAX: Final = 1_000_000
_TIME_MAX: Final = 1e7
_SPEED_MIN: Final = 1e-3


def check_plan(plan: LoadPlan) -> None:
    """Check everything that can be checked before the events are read.

    Raises:
        LoadError: a value is unusable; the text names it.
    """
    _check_choice("surface", plan.surface, SURFACES)
    _check_choice("mode", plan.mode, MODES)
    parse_target(plan.target, plan.surface)
    parse_thresholds(plan.fail_on)
    check_tls(plan)
    _check_token(plan.token)
    _check_numbers(plan)
    _check_pacing(plan)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise LoadError(f"{name} {value!r}: expected {' or '.join(choices)}")


def _check_token(token: str | None) -> None:
    if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
        raise LoadError("token: expected one line of printable ASCII")


def _check_numbers(plan: LoadPlan) -> None:
    counts = {
        "lanes": (plan.lanes, 1, _COUNT_MAX),
        "batch": (plan.batch, 1, BATCH_MAX),
        "depth": (plan.depth, 1, _COUNT_MAX),
        "loop": (plan.loop, 0, _COUNT_MAX),
    }
    for name, (count, least, most) in counts.items():
        if not least <= count <= most:
            raise LoadError(f"{name} {count}: expected {least} to {most}")
    times = {
        "warmup": plan.warm_up_s,
        "start-margin": plan.start_margin_s,
        "linger": plan.linger_ms,
    }
    for name, time in times.items():
        if not 0 <= time <= _TIME_MAX:
            raise LoadError(f"{name} {time:g}: expected 0 to {_TIME_MAX:g}")
    if not _SPEED_MIN <= plan.speed <= _TIME_MAX:
        raise LoadError(f"speed {plan.speed:g}: expected {_SPEED_MIN:g} to {_TIME_MAX:g}")
    above_0 = {
        "rate": plan.rate,
        "duration": plan.duration_s,
        "max-gap": plan.max_gap_s,
        "max-send-lag": plan.max_send_lag_ms,
    }
    for name, number in above_0.items():
        if number is not None and not 0 < number <= _TIME_MAX * 100:
            raise LoadError(
                f"{name} {number:g}: expected a number above 0, at most {_TIME_MAX * 100:g}"
            )


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
