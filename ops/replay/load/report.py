"""The content of ``load.json``: one run of a load, for people and for programs.

**Invariant:** planned = sent + dropped + not sent, and sent = answered + errors + unanswered.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from authorizerd.replay.load.lanes.histogram import bucket_of
from authorizerd.replay.load.lanes.tally import Mismatch
from authorizerd.replay.load.thresholds import Verdict
from authorizerd.replay.messages import EXIT_DENIED, EXIT_DONE, EXIT_FAULT
from authorizerd.replay.plans import LoadPlan


class LoadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the run; docs/replay-load.md explains each.

    ``speed`` is relative to the recorded times. It is 1 and has no effect with a ``rate``
    (questions per second), with a ``profile`` other than constant, and in a closed loop.
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


class PlanReport(msgspec.Struct, frozen=True, kw_only=True):
    """The planned questions.

    ``hash`` covers every frame and its time, so equal plans have equal hashes. If a failure of
    Spark lost the plan, it is empty, and the sizes are 0. ``not_asked`` counts events that cannot
    be asked, by reason. ``rounds`` is the number of times that the events are asked. ``planned_s``
    is when the last frame is due.
    """

    hash: str
    events: int
    not_asked: dict[str, int]
    rounds: int
    questions: int
    frames: int
    lanes: list[int]
    """Questions, by lane."""
    planned_s: float


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles in milliseconds, at most 1/128 too large; None without samples.

    ``buckets`` are pairs of (bucket, questions): see ``ops/replay/load/lanes/histogram.py``.
    """

    samples: int
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    p99_9_ms: float | None
    max_ms: float | None
    buckets: list[tuple[Annotated[int, msgspec.Meta(le=bucket_of(2**63))], int]]


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """``corrected`` is measured from the time a question was due, ``service`` from its sending.

    ``corrected`` includes dropped and unanswered questions, with the time that they had waited.
    ``send_lag`` is the delay that the generator itself caused.
    """

    corrected: Percentiles
    service: Percentiles
    send_lag: Percentiles


class SecondReport(msgspec.Struct, frozen=True):
    """One second of the run. Latencies are the corrected ones of the questions due in it."""

    second: int
    offered: int
    served: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """When the connection to the target was lost, on which lane first, and why."""

    at: str
    after_s: float
    lane: int
    reason: str


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``load.json``. ``valid`` is None for a dry run, which asks nothing."""

    run_id: str
    target: str
    surface: str
    mode: str
    dry_run: bool
    settings: LoadSettings
    plan: PlanReport
    valid: bool | None = None
    invalid_reasons: list[str] = []
    started_at: str | None = None
    start_skew_ms: list[float] = []
    """For each lane, the delay between the agreed start and its own start."""
    sent: int = 0
    answered: int = 0
    not_ready: int = 0
    errors: dict[str, int] = {}
    unanswered: int = 0
    dropped: int = 0
    not_sent: int = 0
    late: int = 0
    warm_up: int = 0
    """Questions of the warm-up, which latencies and rates exclude."""
    mismatches: int = 0
    first_mismatches: list[Mismatch] = []
    offered_per_s: float | None = None
    served_per_s: float | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    latency: Latencies | None = None
    timeline: list[SecondReport] = []
    thresholds: list[Verdict] = []
    death: Death | None = None


def exit_code(report: LoadReport) -> int:
    """Return the command's exit code: an invalid run is a fault, whatever its thresholds say."""
    if report.valid is False:
        return EXIT_FAULT
    return EXIT_DONE if all(verdict.passed for verdict in report.thresholds) else EXIT_DENIED
