from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from authorizerd.acl.model import Acl, Operation, ResourceType
from authorizerd.cli.acls.arguments import parse_arguments
from authorizerd.cli.acls.plan import Addition, make_plan
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of
from authorizerd.replay.errors import UsageError
from authorizerd.replay.judging.report import Count
from authorizerd.replay.local.table import TableEngine
from authorizerd.replay.plans import UsagePlan
from authorizerd.replay.text import format_time
from authorizerd.replay.usage import evaluation
from authorizerd.replay.usage.report import UsageReport, decode_usage, named
from tests.ops.replay.acl_sets import acl_set_of, topic_read
from tests.ops.replay.recorded_events import START, Event, real_events, write_events
from tests.support.fixture_types import Capture
from tests.support.recorded_use import ADMIN, read_recorded_use

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS = int(START.timestamp() * 1000)
DAY_MS = int(timedelta(days=1) / timedelta(milliseconds=1))
SERVER = ["--bootstrap-server", "h:9092"]


def read_of(name: str, *, at: int = 0, allowed: bool = True, principal: str = "User:a") -> Event:
    return Event(principal, "10.0.0.9", "READ", "TOPIC", name, allowed, at=at)


def run_usage(events: Sequence[Event], plan: UsagePlan) -> tuple[UsageReport, str]:
    """Write the events, and return the report of their use, and the script."""
    write_events(Path(plan.events), events)
    assert evaluation.run(plan, TableEngine(plan.events, plan.out)) == 0
    out = Path(plan.out)
    return decode_usage((out / "usage.json").read_text()), (out / "commands.sh").read_text()


def plan_of(folder: Path, acls: AclSet, **settings: object) -> UsagePlan:
    return UsagePlan(events=str(folder / "in"), out=str(folder / "out"), acls=acls, **settings)  # type: ignore[arg-type]


def commands_of(text: str) -> list[tuple[str, list[Acl]]]:
    """Return the ACLs that each command of a script adds or removes, as kafka-acls parses it."""
    found = []
    for line in text.splitlines():
        if line.startswith("$KAFKA_ACLS"):
            plan = make_plan(parse_arguments([*SERVER, *shlex.split(line)[2:]]))
            kind = "add" if isinstance(plan, Addition) else "remove"
            acls = [acl for group in plan.groups for acl in group.acls()]  # type: ignore[union-attr]
            found.append((kind, acls))
    return found


def test_use_is_reported_and_unused_grants_are_suggested(tmp_path: Path, capsys: Capture) -> None:
    wide, prefix = topic_read("*"), topic_read("log-", prefixed=True, principal="User:b")
    unused, literal = topic_read("unused"), topic_read("x")
    deny = Acl(ResourceType.TOPIC, "d", 3, "User:*", "*", Operation.ALL, 2)
    young, undated = topic_read("young"), topic_read("undated")
    dates = dict.fromkeys((wide, prefix, unused, literal, deny), START_MS - 1)
    ages: dict[Acl, int | None] = {**dates, young: START_MS, undated: None}
    acls = AclSet(
        source="test",
        acls=tuple(DatedAcl(acl, added_ms) for acl, added_ms in ages.items()),
        digest=digest_of([*dates, young, undated]), super_users=("User:root",),
        allow_everyone_if_no_acl_found=False,
    )  # fmt: skip
    events = [
        *(read_of(name, at=number) for number, name in enumerate(("x", "x", "y"))),
        *(read_of(f"log-2{n}", at=5, principal="User:b") for n in range(3)),
        *(read_of("d", at=6, allowed=False) for _ in range(20)),
        read_of("unused", at=7, principal="User:root"),
        read_of("z", at=8, principal="User:c"),
    ]
    report, script = run_usage(events, plan_of(tmp_path, acls, names_max=2))
    narrow = [topic_read("y"), topic_read("log-2", prefixed=True, principal="User:b")]
    assert commands_of(script) == [
        *(("add", [acl]) for acl in narrow),
        *(("remove", [acl]) for acl in (wide, prefix, unused)),
    ]
    used = {item.acl: item for item in report.used}
    assert set(used) == set(map(named, (wide, prefix, literal, deny)))
    assert used[named(wide)].alone == Count(events=1, tuples=1)
    assert used[named(wide)].with_others == Count(events=2, tuples=1)
    assert used[named(wide)].last_used_at == format_time(START_MS + 2)
    assert (used[named(prefix)].names, used[named(literal)].names) == (3, None)
    assert [item.acl for item in report.unused] == [named(unused)]
    assert {key: [item.acl for item in items] for key, items in report.not_judged.items()} == {
        "added_within": [named(young)],
        "age_unknown": [named(undated)],
    }
    assert report.by_super_users == report.disagreeing == Count(events=1, tuples=1)
    proof = report.suggestions.proof
    assert proof is not None
    assert (proof.tuples, proof.acls) == (8, 6)
    assert "suggested: 1 removal, 2 narrowings\n" in capsys.readouterr().out


def test_window_begins_with_its_time_and_skips_earlier_days_and_row_groups(
    spark: SparkSession, tmp_path: Path, capsys: Capture
) -> None:
    from authorizerd.replay.recorded.spark import sum_events

    write_events(tmp_path, [read_of(f"t{at}", at=at) for at in (0, DAY_MS - 1, DAY_MS)])
    recorded = spark.read.parquet(str(tmp_path / "events"))
    tuples = sum_events(recorded, START_MS + DAY_MS)
    assert [row.resource_name for row in tuples.collect()] == [f"t{DAY_MS}"]
    capsys.readouterr()
    tuples.explain("formatted")
    plan = capsys.readouterr().out
    assert re.search(r"PartitionFilters: .*\(day#\d+ >= 2026-11-22\)", plan)
    assert re.search(r"PushedFilters: .*GreaterThanOrEqual\(at,", plan)


def test_without_evidence_nothing_is_written_and_an_earlier_script_removed(
    spark: SparkSession, tmp_path: Path, capsys: Capture
) -> None:
    from authorizerd.replay.usage.job import run

    plan = plan_of(tmp_path, acl_set_of([topic_read("t")]), lookback_days=1.0)
    write_events(Path(plan.events), [read_of("t"), read_of("t", at=2 * DAY_MS, allowed=False)])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "commands.sh").write_text("of an earlier run")
    with pytest.raises(UsageError, match="no allowed request was recorded"):
        run(spark, plan)
    assert capsys.readouterr().out == ""
    assert not list((tmp_path / "out").iterdir())


def test_real_log_gives_the_use_of_a_scan(real_log_dir: Path, tmp_path: Path) -> None:
    """The window begins with the first client's request."""
    use, events = read_recorded_use(real_log_dir), list(real_events(real_log_dir))
    begins = min(event.at for event in events if event.principal not in ADMIN)
    lookback_days = (max(event.at for event in events) - begins) / DAY_MS
    report, _ = run_usage(events, plan_of(tmp_path, use.acls, lookback_days=lookback_days))
    alone = [each for each in report.used if each.alone.events]
    for found, expected in ((report.unused, use.unused), (alone, use.alone)):
        grants = [each.acl for each in found if each.acl.permission_type == "ALLOW"]
        assert grants == list(map(named, expected))
    admin = [event for event in events if event.principal in ADMIN and event.at >= begins]
    assert report.by_super_users.events == len(admin) > 0
    counts = map(len, (report.unused, report.used, report.not_judged["added_within"]))
    assert (*counts,) == (1_569, 47, 135)
    assert report.suggestions.removals
