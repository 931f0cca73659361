"""A whole run of what-if on Spark; ``local/test_engines_agree`` compares it with other engines."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.replay.messages import EXIT_DENIED
from authorizerd.replay.plans import WhatIfPlan
from authorizerd.replay.whatif.report import decode_whatif
from tests.ops.replay.acl_sets import acl_set_of
from tests.ops.replay.local import judged
from tests.ops.replay.recorded_events import START, Event, write_events
from tests.oracles.recorded import Asked, Key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS = int(START.timestamp() * 1000)
PRINCIPALS = ("User:a", "User:b", "Group:a", "User:root", "User:ü, x")
HOSTS = (None, "10.0.0.1", "0:0:0:0:0:0:0:1")
NAMES = ("t", "ta", "*", "*x", "p-1", "")
OPERATIONS = ("READ", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS")
TYPES = ("TOPIC", "GROUP")
UNASKED = (
    Event("User:*", "h", "READ", "TOPIC", "t", True),
    Event("User:a", "h", "READ", "TOPIC", "t", True, "PREFIXED"),
    Event("User:a", "h", "UNKNOWN", "TOPIC", "t", False),
)


def generate_acls(chosen: random.Random) -> list[Acl]:
    acls = {
        Acl(
            ResourceType[chosen.choice(TYPES)], chosen.choice([name for name in NAMES if name]),
            chosen.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            chosen.choice((*PRINCIPALS, "User:*")), chosen.choice(("*", "*", *HOSTS[1:])),
            Operation[chosen.choice((*OPERATIONS, "ALL"))],
            chosen.choice((PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY)),
        )
        for _ in range(60)
    }  # fmt: skip
    return sorted(acls, key=str)


def generate_events(chosen: random.Random) -> list[Event]:
    """Return shuffled events of every tuple, some of which were decided both ways."""
    events = [
        Event(*key, chosen.random() < 0.5, rule=f"Rule{number}", at=chosen.randrange(10_000))
        for number, key in enumerate(product(PRINCIPALS, HOSTS, OPERATIONS, TYPES, NAMES))
        for _ in range(chosen.choice((1, 1, 2, 4)))
    ]
    chosen.shuffle(events)
    return [*UNASKED * 3, *events]


@pytest.mark.smoke
def test_generated_traffic_changes_like_a_scan(spark: SparkSession, tmp_path: Path) -> None:
    """The scan finds no rules: they are those of the last events with the recorded answers."""
    from authorizerd.replay.whatif.job import run

    chosen = random.Random(7)
    candidate = acl_set_of(generate_acls(chosen), super_users=("User:root",))
    events = generate_events(chosen)
    write_events(tmp_path / "in", events)
    out = tmp_path / "out"
    plan = WhatIfPlan(events=str(tmp_path / "in"), out=str(out), candidate=candidate)
    assert run(spark, plan) == EXIT_DENIED
    asked: defaultdict[Key, Asked] = defaultdict(Asked)
    last: dict[tuple[object, ...], tuple[int, str]] = {}
    for event in events:
        times = asked[event.key].allowed if event.allowed else asked[event.key].denied
        times.append(START_MS + event.at)
        place = (*event.key[:5], event.allowed)
        last[place] = max(last.get(place, (0, "")), (event.at, event.rule or ""))
    report = decode_whatif((out / "whatif.json").read_text())
    judged.check_whatif(report, asked, candidate, None)
    rows = pq.read_table(out / "changes").to_pylist()
    assert [row["change"] for row in rows] == [
        *["newly_allowed"] * report.newly_allowed.tuples,
        *["newly_denied"] * report.newly_denied.tuples,
    ]
    listed = [each for part in (report.newly_allowed, report.newly_denied) for each in part.details]
    for row, detail in zip(rows, listed, strict=True):
        key = tuple(row[name] for name in Event._fields[:5])
        assert key == tuple(getattr(detail, name) for name in Event._fields[:5])
        assert row["baseline_rule"] == last[*key, row["change"] == "newly_denied"][1]
