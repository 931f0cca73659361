"""Decisions, updates, loads and memory of sets in memory, with Kafka's StandardAuthorizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.bench.figures import Absent, Metric, Row, rows_of
from tools.bench.in_memory import measure_set
from tools.bench.kafka_peer import VERSION, VERSION_WITH_RANGES, InMemory
from tools.bench.run import Run
from tools.bench.sets import AclSet, kind, ranges, wide

_DECISIONS: Final[tuple[Metric[InMemory], ...]] = (
    ("allowed", "", lambda it: it.answers.count("A")),
    ("authorize, median", "ns", lambda it: it.cpu_ns_median),
    ("authorize, best", "ns", lambda it: it.cpu_ns_min),
    # Kafka's ``authorize`` always finds the rule.
    ("with its rule, median", "ns", lambda it: it.explain_ns_median or it.cpu_ns_median),
)
_LOADS: Final[tuple[Metric[InMemory], ...]] = (
    ("load, best (peer: warm)", "s", lambda it: min(it.loads_s)),
    ("load, worst (peer: cold)", "s", lambda it: max(it.loads_s)),
    ("load for each ACL", "µs", lambda it: min(it.loads_s) / it.acls * 1e6),
    ("memory for each ACL", "B", lambda it: it.bytes_per_acl),
)
UPDATES: Final[tuple[Metric[InMemory], ...]] = (
    ("update, p50", "µs", lambda it: it.update_us.p50),
    ("update, p99", "µs", lambda it: it.update_us.p99),
    ("update, max", "µs", lambda it: it.update_us.max),
)
_GROWTH: Final[tuple[Metric[InMemory], ...]] = (
    _DECISIONS[1], *UPDATES[:2], ("load (peer: warm)", "s", lambda it: min(it.loads_s)), _LOADS[3],
)  # fmt: skip


def measure_decisions(run: Run) -> Iterator[Row]:
    """Measure one decision."""
    for acl_set in run.pick((kind(), wide(5000, 10), wide(50_000, 10)), (kind(),)):
        ours, theirs = _measure(run, acl_set)
        yield from rows_of(_name(acl_set, ours), _DECISIONS, ours, f"Kafka {VERSION}", theirs)


def measure_ranges(run: Run) -> Iterator[Row]:
    """Measure one decision with ranges of hosts."""
    for acl_set in run.pick((ranges(0), ranges(10), ranges(1000)), (ranges(10),)):
        ours, theirs = _measure(run, acl_set, VERSION_WITH_RANGES)
        peer = f"Kafka {VERSION_WITH_RANGES}"
        yield from rows_of(_name(acl_set, ours), _DECISIONS, ours, peer, theirs)


def measure_state(run: Run) -> Iterator[Row]:
    """Measure updates and loads."""
    acl_set, crowd = run.pick(wide(50_000, 10), wide(1000, 2)), run.pick(100_000, 100)
    ours, theirs = _measure(run, acl_set, loads=run.pick(3, 1), crowd=crowd)
    yield from rows_of(_name(acl_set, ours), (*UPDATES, *_LOADS), ours, f"Kafka {VERSION}", theirs)
    for name, times in ours.crowd_us.items():
        for field in ("p50", "p99", "max"):
            what = f"a principal with {crowd:,} {name}"
            yield Row(what=what, metric=f"update, {field}", unit="µs", ours=getattr(times, field))


def measure_growth(run: Run) -> Iterator[Row]:
    """Measure what grows with the number of ACLs of a wide set."""
    for resources in run.pick((1000, 10_000, 50_000), (1000, 2000)):
        acl_set = wide(resources, 10)
        ours, theirs = _measure(run, acl_set)
        yield from rows_of(f"{ours.acls:,} ACLs", _GROWTH, ours, f"Kafka {VERSION}", theirs)


def _measure(
    run: Run, acl_set: AclSet, version: str = VERSION, *, loads: int = 1, crowd: int = 0
) -> tuple[InMemory, InMemory | Absent]:
    place, has_ranges = run.new_place("in-memory"), version == VERSION_WITH_RANGES
    return measure_set(
        acl_set, run.log_of(acl_set), run.kafka(version), place, seconds=run.pick(2.0, 0.02),
        loads=loads, updates=run.pick(10_000, 100), crowd=crowd, has_ranges=has_ranges,
    )  # fmt: skip


def _name(acl_set: AclSet, ours: InMemory) -> str:
    return f"{acl_set.name} ({ours.acls:,} ACLs)"
