"""The options of a load, and the checks before it starts, in the command and again in the job.

**Invariant:** a plan that passes is carried out unchanged; no value is silently corrected.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from authorizerd.replay.errors import LoadError
from authorizerd.replay.load.lanes.connection import parse_target
from authorizerd.replay.load.plan.pacing import parse_profile
from authorizerd.replay.load.surfaces import BATCH_MAX, HTTP, STREAM
from authorizerd.replay.load.thresholds import RECONNECTING, parse_thresholds
from authorizerd.replay.plans import LoadPlan

CHOICES: Final = {"surface": (STREAM, HTTP), "mode": ("open", "closed")}


class Option(NamedTuple):
    """An option: its field in the plan, its unit and help text, and a number's limits."""

    flag: str
    field: str
    unit: str | None
    help: str
    least: float | None = None
    most: float = 0

    @property
    def type(self) -> type[float | str]:
        return str if self.least is None else type(self.least)


OPTIONS: Final = (
    Option("target", "target", "HOST:PORT",
     "address of the daemon; tls://HOST:PORT or https://HOST:PORT with TLS; or unix:PATH"),
    Option("profile", "profile", "PROFILE",
     "how the rate changes: constant, ramp:FROM:TO:SECONDS, or step:RATE:SECONDS,RATE:SECONDS,…"),
    Option("fail-on", "fail_on", "THRESHOLDS",
     "exit with 3 if a threshold fails: p99<5ms,mismatch=0,errors=0,dropped=0,rate>=1000; with "
     "--reconnect also outage<5s,lost=0"),
    Option("surface", "surface", None, "decision port to use"),
    Option("mode", "mode", None, "open: follow a schedule; closed: as fast as answers arrive"),
    Option("speed", "speed", "FACTOR", "2 sends twice as fast as recorded", 1e-3, 1e7),
    Option("rate", "rate", "N", "questions per second, evenly spaced", 1e-3, 1e9),
    Option("max-gap", "max_gap_s", "SECONDS", "shorten longer gaps in the record", 1e-3, 1e9),
    Option("loop", "loop", "N", "times to send the events; 0 repeats until --duration", 0, 10**6),
    Option("warmup", "warm_up_s", "SECONDS", "time to exclude from latencies and rates", 0.0, 1e7),
    Option("duration", "duration_s", "SECONDS", "length of the load after the warm-up", 1e-3, 1e9),
    Option("lanes", "lanes", "N", "connections, a process or a task of Spark for each", 1, 10**6),
    Option("batch", "batch", "N", "questions per frame", 1, BATCH_MAX),
    Option("depth", "depth", "N", "frames in flight", 1, 10**6),
    Option("start-margin", "start_margin_s", "SECONDS",
     "time from the last lane being ready to the start; default 0.1, or 3 on Spark", 0.0, 1e7),
    Option("max-send-lag", "max_send_lag_ms", "MS",
     "the run is not valid if the p99 send lag exceeds this", 1e-3, 1e9),
    Option("reconnect", "reconnect_s", "SECONDS",
     "connect again if the connection breaks; the lane ends if no answer arrives within SECONDS, "
     "by default 30", 1e-3, 1e6),
)  # fmt: skip


def check_plan(plan: LoadPlan) -> None:
    """Check everything that can be checked before the events are read.

    Raises:
        LoadError: a value is unusable; the text names it.
    """
    for name, choices in CHOICES.items():
        if (value := getattr(plan, name)) not in choices:
            raise LoadError(f"{name} {value!r}: expected {' or '.join(choices)}")
    parse_target(plan)
    for threshold in parse_thresholds(plan.fail_on):
        if threshold.figure in RECONNECTING and plan.reconnect_s is None:
            raise LoadError(f"threshold {threshold.text!r}: requires --reconnect")
    token = plan.token
    if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
        raise LoadError("token: expected one line of printable ASCII")
    for each in OPTIONS:
        number = None if each.least is None else getattr(plan, each.field)
        if number is not None and not each.least <= number <= each.most:
            raise LoadError(f"{each.flag} {number:g}: expected {each.least:g} to {each.most:g}")
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
