"""The plan: the complete input of a Spark job.

The command makes and checks the plan, and passes it to the application as one JSON file. If
spark-submit gets a command instead, the application makes the plan itself.

**Invariant:** a plan is complete. A job does not read the configuration, the ACLs or the clock of
the machine where the command runs.

A plan's tag names its command, the package of its job, and the summary (``TAG.json``) that the job
writes last into ``out``. If ``overwrite`` is set, ``out`` may contain earlier results.
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.acl.audit.recorded.event import LineFormat
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.topics import Topic


class LineLayout(msgspec.Struct, frozen=True, kw_only=True):
    """How the lines of a log are read.

    ``time_zone`` applies to times without a zone. ``field`` is the JSON field that holds the line,
    or None if only those of known wrappers do (``acl.audit.recorded.wrapping``).
    """

    format: LineFormat = "auto"
    time_zone: str = "UTC"
    field: str | None = None


class IngestPlan(msgspec.Struct, frozen=True, kw_only=True, tag="ingest"):
    """The plan of ``ingest``.

    ``inputs`` are paths, globs or URIs. Events before ``first_day`` (YYYY-MM-DD, in UTC) expire.
    ``delta`` creates the Delta logs of the table.
    """

    inputs: tuple[str, ...]
    out: str
    topics: tuple[Topic, ...] = ()
    layout: LineLayout = LineLayout()
    bad_ratio_max: float = 0.01
    first_day: str | None = None
    overwrite: bool = False
    delta: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """The inputs and the addresses of the topics."""
        return (*self.inputs, *(topic.uri for topic in self.topics))


class WhatIfPlan(msgspec.Struct, frozen=True, kw_only=True, tag="whatif"):
    """The plan of ``whatif``; without a ``baseline``, it compares with the recorded decisions.

    Only events of the window count, which begins ``lookback_days`` before the last one, or at
    ``since_ms``. They prove nothing with fewer than ``allowed_min`` allowed requests, or if the
    newest one, or that of a log, is older than ``newest_after_ms``.
    """

    events: str
    out: str
    candidate: AclSet
    baseline: AclSet | None = None
    overwrite: bool = False
    lookback_days: float | None = None
    since_ms: int | None = None
    allowed_min: int = 1
    newest_after_ms: int | None = None


class FollowPlan(msgspec.Struct, frozen=True, kw_only=True, tag="whatif.follow"):
    """The plan of ``whatif --follow``; ``whatif`` says which ACLs are compared.

    ``ingest`` has the topic, and says how its lines are read into the table of the watch.

    ``duration_s`` is None if only a signal ends the job. ``overwrite`` is always set, because
    ``out`` may contain this watch, which then continues; ``is_anew`` removes it first.
    """

    out: str
    ingest: IngestPlan
    whatif: WhatIfPlan
    interval_s: int
    duration_s: int | None = None
    from_beginning: bool = False
    is_anew: bool = False
    overwrite: bool = True

    @property
    def topic(self) -> Topic:
        return self.ingest.topics[0]


class UsagePlan(msgspec.Struct, frozen=True, kw_only=True, tag="usage"):
    """The plan of ``usage``.

    The window begins ``lookback_days`` before the last event, or at ``since_ms``, but not before
    the first event. For a wide grant that served at most ``names_max`` names, the job suggests
    literal ACLs. ``assume_in_force`` treats ACLs of unknown age as older than the window.
    """

    events: str
    out: str
    acls: AclSet
    lookback_days: float | None = None
    since_ms: int | None = None
    names_max: int = 20
    overwrite: bool = False
    assume_in_force: bool = False


class LoadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The pace and the limits of a load, as in ``load.json``; docs/replay-load.md explains each.

    ``speed`` is relative to the recorded times. It is 1 and has no effect with a ``rate``
    (questions per second), with a ``profile`` other than constant, and in a closed loop. ``loop`` 0
    repeats the events until ``duration_s`` is over.
    """

    speed: float = 1.0
    rate: float | None = None
    profile: str = "constant"
    loop: int = 1
    max_gap_s: float | None = None
    warm_up_s: float = 0.0
    duration_s: float | None = None
    lanes: int = 1
    batch: int = 64
    depth: int = 8
    max_send_lag_ms: float = 10.0
    reconnect_s: float | None = None


class LoadPlan(LoadSettings, frozen=True, kw_only=True, tag="load"):
    """The plan of ``load``.

    ``target`` is ``HOST:PORT``, or ``unix:PATH`` for a stream. With TLS, it begins with ``tls://``
    or ``https://``, and ``cafile``, ``cert`` and ``key`` are paths on the machines that connect: no
    plan contains a key. ``load.plan.pacing`` parses ``rate`` and ``profile``, ``load.thresholds``
    parses ``fail_on``. ``token`` is a secret, and no result contains it.
    """

    events: str
    out: str
    target: str
    run_id: str
    surface: str = "stream"
    mode: str = "open"
    start_margin_s: float | None = None
    fail_on: str = ""
    token: str | None = None
    cafile: str | None = None
    cert: str | None = None
    key: str | None = None
    mismatches_listed_max: int = 100
    dry_run: bool = False
    overwrite: bool = False

    def __repr__(self) -> str:
        """Return a text without the token, so that it is safe to log."""
        return f"LoadPlan(run_id={self.run_id!r}, target={self.target!r})"

    @property
    def settings(self) -> LoadSettings:
        """The part that ``load.json`` shows."""
        return LoadSettings(
            **{name: getattr(self, name) for name in LoadSettings.__struct_fields__}
        )

    @property
    def is_open(self) -> bool:
        return self.mode == "open"

    @property
    def ends_s(self) -> float | None:
        """Seconds from the start of the load to its end; None if the last question ends it."""
        return None if self.duration_s is None else self.warm_up_s + self.duration_s


class VerifyPlan(msgspec.Struct, frozen=True, kw_only=True, tag="verify"):
    """The plan of ``authorizerd verify`` on Spark.

    ``out`` is a directory on the driver's machine. ``judge`` is the history of the ACLs, and how to
    judge by it (``verify.judging``), as bytes.
    """

    logs: IngestPlan
    out: str
    judge: bytes
    overwrite: bool = False


Plan = IngestPlan | WhatIfPlan | FollowPlan | UsagePlan | LoadPlan | VerifyPlan

_decoder: Final[msgspec.json.Decoder[Plan]] = msgspec.json.Decoder(Plan)
_encoder: Final = msgspec.json.Encoder()


def encode_plan(plan: Plan) -> bytes:
    """Return the content of the plan file."""
    return _encoder.encode(plan)


def decode_plan(data: bytes) -> Plan:
    """Return the plan of a plan file.

    Raises:
        msgspec.DecodeError: ``data`` is not a plan file.
    """
    return _decoder.decode(data)
