"""What a job is told: read and checked where the command is run, carried to it as one JSON file.

**Invariant:** a plan is complete. A job reads no configuration, no ACLs and no clock of the machine
that its command was typed on. Its tag is the command's name, the job's module and, with ``.json``,
the summary that the job writes last into ``out``; ``overwrite`` says that ``out`` may hold
something.
"""

from __future__ import annotations

from typing import Final

import msgspec

from authorizerd.replay.acl_set import AclSet


class IngestPlan(msgspec.Struct, frozen=True, kw_only=True, tag="ingest"):
    """``inputs`` are paths, globs or URIs; ``time_zone`` is that of times without one."""

    inputs: tuple[str, ...]
    out: str
    format: str = "auto"
    time_zone: str = "UTC"
    bad_ratio_max: float = 0.01
    overwrite: bool = False


class WhatIfPlan(msgspec.Struct, frozen=True, kw_only=True, tag="whatif"):
    """``baseline`` is None where the recorded decisions are what is compared with."""

    events: str
    out: str
    candidate: AclSet
    baseline: AclSet | None = None
    overwrite: bool = False


class UsagePlan(msgspec.Struct, frozen=True, kw_only=True, tag="usage"):
    """``lookback_days`` is how far before the last event the window begins; None: all of it.

    A wide grant that served up to ``names_max`` names is suggested as that many literal ones.
    ``assume_in_force`` takes ACLs whose age is unknown for older than the window.
    """

    events: str
    out: str
    acls: AclSet
    lookback_days: float | None = None
    names_max: int = 20
    overwrite: bool = False
    assume_in_force: bool = False


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True, tag="load"):
    """Recorded questions for a live daemon; see docs/replay-load.md for what each field does.

    ``target`` is ``HOST:PORT``, or ``unix:PATH`` of a stream. ``rate`` and ``profile`` are read by
    ``replay.load.pacing``, ``fail_on`` by ``replay.load.thresholds``; ``loop`` 0 is as
    often as ``duration_s`` needs. ``token`` is a secret, and stands in no result.
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
    linger_ms: float = 1.0
    warm_up_s: float = 0.0
    duration_s: float | None = None
    max_gap_s: float | None = None
    loop: int = 1
    start_margin_s: float = 3.0
    max_send_lag_ms: float = 10.0
    fail_on: str = ""
    token: str | None = None
    mismatches_listed_max: int = 100
    dry_run: bool = False
    overwrite: bool = False

    def __repr__(self) -> str:
        """Return what may stand in a log: no token."""
        return f"LoadPlan(run_id={self.run_id!r}, target={self.target!r})"

    @property
    def is_open(self) -> bool:
        return self.mode == "open"

    @property
    def ends_s(self) -> float | None:
        """When the load ends, in seconds from its start; None: with its last question."""
        return None if self.duration_s is None else self.warm_up_s + self.duration_s


Plan = IngestPlan | WhatIfPlan | UsagePlan | LoadPlan

_decoder: Final[msgspec.json.Decoder[Plan]] = msgspec.json.Decoder(Plan)
_encoder: Final = msgspec.json.Encoder()


def encode_plan(plan: Plan) -> bytes:
    return _encoder.encode(plan)


def decode_plan(data: bytes) -> Plan:
    """Return the plan of a file that ``encode_plan`` made.

    Raises:
        msgspec.DecodeError: it is another's.
    """
    return _decoder.decode(data)
