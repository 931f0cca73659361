"""Whole runs of what-if: on Spark, and in this process, which gives the same files."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.replay.acl_set import AclSet
from authorizerd.replay.acls.reading import read_acl_source
from authorizerd.replay.local.table import TableEngine
from authorizerd.replay.plans import WhatIfPlan
from authorizerd.replay.whatif import evaluation
from tests.ops.replay.acl_sets import acl_set_of, allowed_by_scan, topic_read
from tests.ops.replay.recorded_events import START, Event, real_events, write_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Traffic = tuple[Path, list[Event]]
"""The directory of an ingest, and its events."""
Change = tuple[str, str, str | None, str, str, str, int]
"""A change: the kind, the tuple, and its events."""

LAST_CLIENT_LINE = "2026-11-21T16:31:06.718Z"
ADMIN = ("User:admin",)
DAY_MS = 86_400_000


def run(
    events: Path,
    out: Path,
    candidate: AclSet,
    spark: SparkSession | None = None,
    **more: Any,  # noqa: ANN401
) -> int:
    """Run the command, on Spark if there is a session."""
    from authorizerd.replay.whatif.job import run as run_job

    plan = WhatIfPlan(events=str(events), out=str(out), candidate=candidate, **more)
    if spark is None:
        return evaluation.run(plan, TableEngine(plan.events, plan.out))
    return run_job(spark, plan)


def report_of(out: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((out / "whatif.json").read_text())
    return report


def changes_of(out: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(out / "changes").to_pylist()
    return rows


def changed(rows: Sequence[dict[str, Any]]) -> list[Change]:
    names = ("change", "principal", "host", "operation", "resource_type", "resource_name", "events")
    return [tuple(row[name] for name in names) for row in rows]


def expected_changes(
    events: Sequence[Event], candidate: AclSet, baseline: AclSet | None
) -> set[Change]:
    """Return the changes, event by event, without tuples, index or Spark."""
    counts: dict[tuple[str, Any], int] = defaultdict(int)
    answers: dict[Any, tuple[bool, bool | None]] = {}
    for event in events:
        if event.key not in answers:
            before = None if baseline is None else allowed_by_scan(baseline, event)
            answers[event.key] = allowed_by_scan(candidate, event), before
        after, judged_before = answers[event.key]
        was_allowed = event.allowed if judged_before is None else judged_before
        if after != was_allowed:
            counts["newly_allowed" if after else "newly_denied", event.key[:5]] += 1
    return {(kind, *key, count) for (kind, key), count in counts.items()}


def check_sums(
    report: dict[str, Any], rows: Sequence[dict[str, Any]], listed_max: int = 1000
) -> None:
    """Check that every figure of the report follows from ``changes``, in its order."""
    for kind in ("newly_denied", "newly_allowed"):
        mine = [row for row in rows if row["change"] == kind]
        told = report[kind]
        assert (told["events"], told["tuples"]) == (sum(r["events"] for r in mine), len(mine))
        for name, keys in (
            ("by_principal", ("principal",)),
            ("by_resource", ("resource_type", "resource_name")),
            ("by_operation", ("operation",)),
        ):
            sums: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
            for row in mine:
                total = sums[tuple(row[key] for key in keys)]
                total[0] += row["events"]
                total[1] += 1
            ordered = sorted(sums.items(), key=lambda item: (-item[1][0], -item[1][1], item[0]))
            assert told[name] == [
                {**dict(zip(keys, key, strict=True)), "events": events, "tuples": tuples}
                for key, (events, tuples) in ordered[:listed_max]
            ]
            assert told.get(f"{name}_left_out", 0) == max(0, len(ordered) - listed_max)
        ordered_rows = sorted(mine, key=_by_count)
        assert changed([{"change": kind, **detail} for detail in told["details"]]) == changed(
            ordered_rows[:listed_max]
        )
        assert told["details_left_out"] == max(0, len(mine) - listed_max)


def _by_count(row: dict[str, Any]) -> tuple[object, ...]:
    """Sort by frequency, then by name; an unknown host comes first."""
    _, principal, host, *rest, events = changed([row])[0]
    return (-events, principal, host is not None, host or "", *rest)


@pytest.fixture(scope="module")
def real(real_log_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    """Return a directory with the broker's audit log, as ingest writes it, and its events."""
    events = list(real_events(real_log_dir))
    return write_events(tmp_path_factory.mktemp("real-events"), events), events


def real_acls(real_log_dir: Path, as_of: str | None) -> AclSet:
    return read_acl_source(str(real_log_dir), as_of=as_of, super_users=ADMIN)


def test_later_acls_change_what_a_scan_finds(
    real: Traffic, real_log_dir: Path, tmp_path: Path
) -> None:
    events, recorded = real
    then, candidate = (real_acls(real_log_dir, as_of) for as_of in (LAST_CLIENT_LINE, None))
    assert run(events, tmp_path, then) == 0
    report = report_of(tmp_path)
    assert changes_of(tmp_path) == []
    check_sums(report, [])
    assert (report["events"], report["candidate"]["acls"]) == (len(recorded), 1616)
    assert report["tuples"] == len({event.key for event in recorded})
    assert (report["not_evaluated"], report["baseline"]) == ({}, None)
    allowed = sum(event.allowed and event.principal not in ADMIN for event in recorded)
    assert report["judged_allowed_events"] == allowed > 0
    assert run(events, tmp_path, candidate) == 0
    rows = changes_of(tmp_path)
    group = ("User:payments-svc-0", "127.0.0.1", "DESCRIBE", "GROUP", "catalog-ingest-249")
    assert changed(rows) == [("newly_allowed", *group, 2)]
    sample = [event for event in recorded if event.key[:5] == group or hash(event.at) % 40 == 0]
    assert set(changed(rows)) == expected_changes(sample, candidate, None)
    (detail,) = report_of(tmp_path)["newly_allowed"]["details"]
    assert detail["baseline_rule"] == "DefaultDeny"
    assert "patternType=PREFIXED, principal=User:payments-svc-0" in detail["candidate_rule"]
    assert report_of(tmp_path)["candidate"]["offset"] == candidate.offset == 3059
    check_sums(report_of(tmp_path), rows)


def test_removed_grant_is_newly_denied(
    real: Traffic, real_log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events, recorded = real
    baseline = real_acls(real_log_dir, LAST_CLIENT_LINE)
    uses: dict[str, int] = defaultdict(int)
    for event in recorded:
        if event.allowed and event.rule is not None and "MatchingAcl" in event.rule:
            uses[event.rule] += 1
    rule = max(uses, key=lambda text: (uses[text], text))
    kept = [dated.acl for dated in baseline.acls if f"MatchingAcl(acl={dated.acl})" != rule]
    assert len(kept) == len(baseline.acls) - 1
    candidate = baseline.with_acls(kept, "without one")
    assert run(events, tmp_path, candidate) == 3
    rows = changes_of(tmp_path)
    mine = [event for event in recorded if event.rule == rule]
    assert set(changed(rows)) == expected_changes(mine, candidate, None) != set()
    assert {row["baseline_rule"] for row in rows} == {rule}
    moments = [START + timedelta(milliseconds=event.at) for event in mine]
    assert min(row["first_at"] for row in rows) == min(moments)
    assert max(row["last_at"] for row in rows) == max(moments)
    check_sums(report_of(tmp_path), rows)
    shown = capsys.readouterr().out
    lost = sum(row["events"] for row in rows)
    assert f"newly denied: {lost:,} events of {len(rows):,} tuple" in shown
    assert f"  {mine[0].principal}: " in shown


PRINCIPALS = ("User:a", "User:b", "Group:a", "User:root", "User:ü, x")
HOSTS = (None, "10.0.0.1", "0:0:0:0:0:0:0:1")
NAMES = ("t", "ta", "tab", "*", "*x", "!", "p-1", "p-2", "")
OPERATIONS = ("READ", "WRITE", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS", "ALL")
TYPES = ("TOPIC", "GROUP")


def generated_acls(seed: int, count: int) -> list[Acl]:
    chosen = random.Random(seed)
    acls = {
        Acl(
            ResourceType[chosen.choice(TYPES)], chosen.choice([name for name in NAMES if name]),
            chosen.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            chosen.choice((*PRINCIPALS, "User:*")), chosen.choice(("*", "*", *HOSTS[1:])),
            Operation[chosen.choice(OPERATIONS)],
            chosen.choice((PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY)),
        )
        for _ in range(count)
    }  # fmt: skip
    return sorted(acls, key=str)


def generated_events() -> list[Event]:
    """Return shuffled events of every tuple, some of which were decided both ways."""
    chosen = random.Random(7)
    events = [
        Event(*key, chosen.random() < 0.5, rule=f"Rule{number}", at=chosen.randrange(10_000))
        for number, key in enumerate(product(PRINCIPALS, HOSTS, OPERATIONS, TYPES, NAMES))
        for _ in range(chosen.choice((1, 1, 2, 4)))
    ]
    chosen.shuffle(events)
    return events


UNASKED = {
    "principal User:*": Event("User:*", "h", "READ", "TOPIC", "t", True),
    "pattern type is not LITERAL": Event("User:a", "h", "READ", "TOPIC", "t", True, "PREFIXED"),
    "unknown operation": Event("User:a", "h", "UNKNOWN", "TOPIC", "t", False),
    "unknown resource type": Event("User:a", "h", "READ", "NOTHING", "t", False),
}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    """Return a folder with generated events, and the events that ACLs can decide."""
    asked = generated_events()
    unasked = [event for event in UNASKED.values() for _ in range(3)]
    return write_events(tmp_path_factory.mktemp("generated"), [*unasked, *asked]), asked


CANDIDATE = acl_set_of(generated_acls(1, 60), super_users=("User:root",))
NARROW_ACLS = [acl for acl in generated_acls(2, 60) if acl.resource_name != "*"]
BASELINE = acl_set_of(NARROW_ACLS, super_users=("User:b",), allow_everyone=True)


@pytest.mark.smoke
def test_generated_traffic_changes_like_a_scan(
    spark: SparkSession, generated: Traffic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, asked = generated
    monkeypatch.setattr("authorizerd.replay.whatif.evaluation.LISTED_MAX", 10)
    assert run(folder, tmp_path, CANDIDATE, spark) == 3
    rows, report = changes_of(tmp_path), report_of(tmp_path)
    assert set(changed(rows)) == expected_changes(asked, CANDIDATE, None)
    check_sums(report, rows, listed_max=10)
    assert report["not_evaluated"] == {reason: {"events": 3, "tuples": 1} for reason in UNASKED}
    by_key: dict[Any, list[tuple[int, str | None]]] = defaultdict(list)
    for event in asked:
        by_key[event.key[:5], event.allowed].append((event.at, event.rule))
    for row, (kind, *key, _) in zip(rows, changed(rows), strict=True):
        told = by_key[tuple(key), kind == "newly_denied"]
        assert row["first_at"] == START + timedelta(milliseconds=min(told)[0])
        assert row["last_at"] == START + timedelta(milliseconds=max(told)[0])
        assert row["baseline_rule"] == max(told)[1]


def test_baseline_is_judged_with_the_same_settings(
    generated: Traffic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, asked = generated
    monkeypatch.setattr("authorizerd.replay.whatif.evaluation.LISTED_MAX", 10)
    assert run(folder, tmp_path / "one", CANDIDATE, baseline=BASELINE) == 3
    rows = changes_of(tmp_path / "one")
    assert set(changed(rows)) == expected_changes(asked, CANDIDATE, BASELINE)
    assert {row["baseline_rule"] for row in rows} >= {"DefaultAllow", "SuperUser"}
    check_sums(report_of(tmp_path / "one"), rows, listed_max=10)
    assert run(folder, tmp_path / "two", CANDIDATE, baseline=BASELINE) == 3
    one, two = ((tmp_path / name / "whatif.json").read_bytes() for name in ("one", "two"))
    assert one == two
    assert changes_of(tmp_path / "two") == rows


def test_identical_acls_change_nothing(
    generated: Traffic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backwards = replace(BASELINE, acls=BASELINE.acls[::-1], source="other")
    # The recorded answers are random, so the baseline contradicts them.
    assert run(generated[0], tmp_path, backwards, baseline=BASELINE) == 3
    assert changes_of(tmp_path) == []
    report = report_of(tmp_path)
    assert report["newly_denied"]["tuples"] == report["newly_allowed"]["tuples"] == 0
    assert report["candidate"]["digest"] == report["baseline"]["digest"]
    assert "identical ACLs: nothing changes" in capsys.readouterr().out


def test_window_and_lacking_evidence_are_alike_on_both_engines(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The window of the second day has only denials, and earlier events prove nothing in it."""
    read = ("User:a", "h", "READ", "TOPIC", "t")
    grants = acl_set_of([topic_read("t")])
    asked = [Event(*read, True, rule="A", at=1), Event(*read, False, rule="B", at=DAY_MS)]
    begin_ms = int(START.timestamp() * 1000)
    cases: list[tuple[list[Event], dict[str, Any], int, tuple[int, int], list[Any]]] = [
        (asked, {}, 0, (2, 1), [None]),
        (asked, {"since_ms": begin_ms}, 0, (2, 1), [None]),
        (asked, {"since_ms": begin_ms + 2}, 5, (1, 0), [spark, None]),
        (asked, {"lookback_days": 0.5, "allowed_min": 0}, 0, (1, 0), [None]),
        (asked, {"since_ms": begin_ms + 2 * DAY_MS, "baseline": grants}, 5, (0, 0), [spark, None]),
        (asked[1:], {"lookback_days": 30.0}, 5, (1, 0), [None]),
        ([], {"lookback_days": 30.0}, 5, (0, 0), [spark, None]),
    ]  # fmt: skip
    for number, (events, plan, code, figures, engines) in enumerate(cases):
        place = write_events(tmp_path / str(number), events)
        files = []
        for session in engines:
            out = place / ("here" if session is None else "spark")
            assert run(place, out, grants, session, **plan) == code
            report = report_of(out)
            assert (report["events"], report["allowed_events"]) == figures
            assert report["judged_allowed_events"] == figures[1]
            files.append((changes_of(out), (out / "whatif.json").read_bytes()))
        assert files[0] == files[-1]
