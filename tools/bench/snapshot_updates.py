"""Updates in memory, one at a time: the cost of a committed change until its snapshot exists.

Each sample removes one ACL, or adds it again, with ``acl.snapshot.apply_changes``. Each pair is
about another ACL, so a removal finds the processor's caches cold, and an addition warm. The garbage
collector is off, because the daemon decides when it runs. Two extra principals have so many ACLs
that an implementation that copies lists would be slow.
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
from tools.bench.figures import Absent, Line, make_peer, percentile
from tools.bench.kafka_peer import NAME, State

# A prime, so that consecutive updates touch unrelated ACLs.
_STRIDE: Final = 7919


class UpdateTimes(msgspec.Struct, frozen=True):
    """Wall time of one update in µs, including the release of the old snapshot."""

    p50: float
    p99: float
    max: float


def measure_updates(
    snapshot: AclSnapshot, among: Sequence[AclAdded], updates: int
) -> tuple[UpdateTimes, AclSnapshot]:
    """Remove and add again ACLs of ``among``; return the times and the last snapshot."""
    samples: list[float] = []
    gc.disable()
    for number in range(updates // 2):
        added = among[number * _STRIDE % len(among)]
        for change in (AclRemoved(added.id), added):
            start = time.perf_counter_ns()
            # Rebinding the name also frees the old snapshot within the sample.
            snapshot = at_offset(apply_changes(snapshot, (change,)), snapshot.offset + 1)
            samples.append((time.perf_counter_ns() - start) / 1000)
    gc.enable()
    samples.sort()
    return UpdateTimes(percentile(samples, 50), percentile(samples, 99), samples[-1]), snapshot


def crowd_acls(name: str, pattern_type: PatternType, acls: int) -> Iterator[AclAdded]:
    """Yield ``acls`` ACLs of one principal, with patterns of one type."""
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


def measure_snapshot_updates(
    snapshot: AclSnapshot,
    acls: Sequence[AclAdded],
    theirs: State | Absent,
    *,
    updates: int,
    crowd: int,
) -> list[Line]:
    """Return the lines: updates of any principal, then of two with ``crowd`` patterns each."""
    times, snapshot = measure_updates(snapshot, acls, updates)
    lines = [
        _line(f"update at {len(acls):,} ACLs", times, field, theirs)
        for field in UpdateTimes.__struct_fields__
    ]
    for pattern_type, plural in (
        (PatternType.LITERAL, "literals"),
        (PatternType.PREFIXED, "prefixes"),
    ):
        added = list(crowd_acls(plural, pattern_type, crowd))
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
    peer = None if theirs is None else make_peer(NAME, theirs, pick)
    return Line(what=f"{what}, {field}", unit="µs", ours=ours, peer=peer)
