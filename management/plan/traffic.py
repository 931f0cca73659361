"""Changed decisions of recorded traffic: the evidence that a plan's document contains.

**Invariant:** the evidence names the requests that it is based on, and those that it does not
cover.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from authorizerd.acl.text.named_acl import NamedAcl

CAUSES_MAX: Final = 1_000
REQUESTS_MAX: Final = 100
"""Lower than the limit for causes, because people read a plan."""


class TrafficCount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of recorded requests (``events``), and of the distinct ones among them."""

    events: int = 0
    tuples: int = 0


class TrafficFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that was read: its size in bytes, and its SHA-256 in hexadecimal digits."""

    path: str
    bytes: int
    sha256: str


class TrafficLines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lines that were read: blank, an explanation, an event, or set aside for a reason."""

    all: int
    blank: int
    set_aside: int
    reasons: Mapping[str, int]
    explanations: int = 0


class TrafficCause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An ACL that the plan creates or deletes, and the requests that change because of it."""

    change: Literal["create", "delete"]
    acl: NamedAcl
    events: int
    tuples: int
    last_at: str


class TrafficRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A distinct request that changes, with the rules that decide it before and after the plan.

    ``host`` is null if it is unknown.
    """

    principal: str
    host: str | None
    operation: str
    resource_type: str
    resource_name: str
    events: int
    last_at: str | None
    rule_before: str | None
    rule_after: str


class TrafficChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The requests that are newly denied, or newly allowed.

    Lists begin with the most events, and have at most ``CAUSES_MAX`` and ``REQUESTS_MAX`` items.
    ``…_left_out`` counts the others.
    """

    events: int = 0
    tuples: int = 0
    causes: tuple[TrafficCause, ...] = ()
    causes_left_out: int = 0
    requests: tuple[TrafficRequest, ...] = ()
    requests_left_out: int = 0


class TrafficEvidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The changed decisions of recorded traffic.

    Attributes:
        engine: ``local`` if the logs were read here, ``spark`` for the report of a Spark job.
        inputs: the paths that were given.
        files, lines: what was read; empty and null for ``spark``.
        first_at, last_at: the times of the first and the last event, in UTC.
        not_evaluated: the requests that no ACL can decide, by reason.
        not_reproduced: the events whose recorded answer differs from that of the present ACLs.
        contradiction: the reason why the traffic proves nothing, as too many of these differ, or
            no allowed request was recorded; or null.
        warnings: the limits of the evidence, as sentences.
    """

    engine: Literal["local", "spark"]
    inputs: tuple[str, ...]
    files: tuple[TrafficFile, ...] = ()
    lines: TrafficLines | None = None
    events: int
    allowed_events: int
    tuples: int
    first_at: str | None
    last_at: str | None
    not_evaluated: Mapping[str, TrafficCount]
    not_reproduced: TrafficCount | None = None
    contradiction: str | None = None
    newly_denied: TrafficChange
    newly_allowed: TrafficChange
    warnings: tuple[str, ...] = ()

    @property
    def judged_events(self) -> int:
        return self.events - sum(count.events for count in self.not_evaluated.values())
