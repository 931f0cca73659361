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

    ``inputs`` are paths, globs or URIs. ``delta`` creates the Delta logs of the table.
    """

    inputs: tuple[str, ...]
    out: str
    topics: tuple[Topic, ...] = ()
    layout: LineLayout = LineLayout()
    bad_ratio_max: float = 0.01
    overwrite: bool = False
    delta: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """The inputs and the addresses of the topics."""
        return (*self.inputs, *(topic.uri for topic in self.topics))


class WhatIfPlan(msgspec.Struct, frozen=True, kw_only=True, tag="whatif"):
    """The plan of ``whatif``; without a ``baseline``, it compares with the recorded decisions.

    The record proves nothing with fewer than ``allowed_min`` allowed requests, or if none is as
    recent as ``newest_after_ms``.
    """

    events: str
    out: str
    candidate: AclSet
    baseline: AclSet | None = None
    overwrite: bool = False
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

    The window begins ``lookback_days`` before the last event, or at the first event if that is
    None. For a wide grant that served at most ``names_max`` names, the job suggests literal ACLs.
    ``assume_in_force`` treats ACLs of unknown age as older than the window.
    """

    events: str
    out: str
    acls: AclSet
    lookback_days: float | None = None
    names_max: int = 20
    overwrite: bool = False
    assume_in_force: bool = False


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """The plan of ``load``; docs/replay-load.md explains each field.

    ``target`` is ``HOST:PORT``, or ``unix:PATH`` for a stream. With TLS, it begins with ``tls://``
    or ``https://``, and ``cafile``, ``cert`` and ``key`` are paths on the machines that connect: no
    plan contains a key. ``load.plan.pacing`` parses ``rate`` and ``profile``, ``load.thresholds``
    parses ``fail_on``. ``loop`` 0 repeats the events until ``duration_s`` is over. ``token`` is a
    secret, and no result contains it.
    """

    events: str
    out: str
    target: str
    run_id: str
    surface: str = "stream"
    mode: str = "open"
    speed: float = 1.0
    rate: float | None = None
    profile: str = "constant"
    lanes: int = 1
    batch: int = 64
    depth: int = 8
    warm_up_s: float = 0.0
    duration_s: float | None = None
    max_gap_s: float | None = None
    loop: int = 1
    start_margin_s: float = 3.0
    max_send_lag_ms: float = 10.0
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
