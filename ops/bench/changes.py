"""Updates, one at a time: what a committed change costs until its snapshot is there.

Each sample removes one ACL, or adds it again, by ``acl.snapshot.apply_changes``, with the garbage
collector at rest: when that runs is the daemon's choice. The two extra principals hold what a
design that copies lists would choke on.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from authorizerd.acl.model import (
    WILDCARD,
    Acl,
    AclAdded,
    AclRemoved,
    Change,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.acl.snapshot import AclSnapshot, apply_changes, at_offset
from ops.bench.figures import Absent, Line, peer_of, percentile
from ops.bench.kafka_peer import NAME, State

_STRIDE: Final = 7919


class UpdateTimes(msgspec.Struct, frozen=True):
    """Wall time of one update, in µs, the old snapshot's release included."""

    p50: float
    p99: float
    max: float


def measure_updates(
    snapshot: AclSnapshot, among: Sequence[AclAdded], updates: int
) -> tuple[UpdateTimes, AclSnapshot]:
    """Take ACLs of ``among`` away and put them back; return the times and the last snapshot."""
    samples: list[float] = []
    gc.disable()
    for number in range(updates // 2):
        added = among[number * _STRIDE % len(among)]
        for change in (AclRemoved(added.id), added):
            start = time.perf_counter_ns()
            snapshot = at_offset(apply_changes(snapshot, (change,)), snapshot.offset + 1)
            samples.append((time.perf_counter_ns() - start) / 1000)
    gc.enable()
    samples.sort()
    return UpdateTimes(percentile(samples, 50), percentile(samples, 99), samples[-1]), snapshot


def crowded(name: str, pattern_type: PatternType, acls: int) -> Iterator[AclAdded]:
    """Yield the ACLs of one principal that has ``acls`` patterns of one type."""
    for number in range(acls):
        yield AclAdded(
            f"{name}{number}".encode().rjust(16, b"\0")[-16:],
            Acl(
                ResourceType.TOPIC,
                f"{name}-resource-{number}",
                pattern_type,
                f"User:{name}",
                WILDCARD,
                Operation.READ,
                PermissionType.ALLOW,
            ),
        )


def measure_changes(
    snapshot: AclSnapshot,
    acls: Sequence[AclAdded],
    theirs: State | Absent,
    *,
    updates: int,
    crowd: int,
) -> list[Line]:
    """Return the lines of updates: any principal's, then those of two with ``crowd`` patterns."""
    times, snapshot = measure_updates(snapshot, acls, updates)
    lines = [
        _line(f"update at {len(acls):,} ACLs", times, field, theirs)
        for field in UpdateTimes.__struct_fields__
    ]
    for pattern_type, plural in (
        (PatternType.LITERAL, "literals"),
        (PatternType.PREFIXED, "prefixes"),
    ):
        added = list(crowded(plural, pattern_type, crowd))
        changes: tuple[Change, ...] = tuple(added)
        snapshot = at_offset(apply_changes(snapshot, changes), snapshot.offset + 1)
        times, snapshot = measure_updates(snapshot, added, updates)
        lines += [
            _line(f"update, a principal with {crowd:,} {plural}", times, field, None)
            for field in UpdateTimes.__struct_fields__
        ]
    return lines


def _line(what: str, times: UpdateTimes, field: str, theirs: State | Absent | None) -> Line:
    ours: float = getattr(times, field)
    pick = attrgetter(f"update_us.{field}")
    peer = None if theirs is None else peer_of(NAME, theirs, pick)
    return Line(what=f"{what}, {field}", unit="µs", ours=ours, peer=peer)
