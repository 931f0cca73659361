from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from authorizerd.acl.model import Acl, Operation, ResourceType
from authorizerd.cli.acls.arguments import parse_arguments
from authorizerd.cli.acls.plan import Addition, make_plan
from authorizerd.replay.acl_set import AclSet, DatedAcl, digest_of
from authorizerd.replay.acls.reading import read_acl_source
from authorizerd.replay.errors import UsageError
from authorizerd.replay.judging.report import Count
from authorizerd.replay.local.table import TableEngine
from authorizerd.replay.plans import UsagePlan, WhatIfPlan
from authorizerd.replay.recorded.rows import LocalRows
from authorizerd.replay.text import format_time
from authorizerd.replay.usage import evaluation
from authorizerd.replay.usage.report import UsageReport, decode_usage, named
from authorizerd.replay.whatif.evaluation import change_finder, make_report
from authorizerd.replay.whatif.report import NOTHING_CHANGED
from tests.ops.replay.acl_sets import acl_set_of, question_of, topic_read
from tests.ops.replay.recorded_events import START, Event, real_events, write_events
from tests.oracles.scan import decide
from tests.oracles.usage import Recorded, is_wide, used_acls
from tests.support.fixture_types import Capture

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


def test_lookback_limits_the_window(tmp_path: Path) -> None:
    old, kept = topic_read("old"), topic_read("kept")
    acls = acl_set_of([old, kept])
    events = [
        read_of("old", at=0),
        read_of("other", at=2 * DAY_MS, principal="User:b"),
        Event("User:b", None, "READ", "TOPIC", "p", True, "PREFIXED", at=2 * DAY_MS),
        *(read_of("kept", at=3 * DAY_MS, allowed=False) for _ in range(2)),
        # Most events must be decided as recorded.
        *(read_of("none", at=3 * DAY_MS, allowed=False) for _ in range(80)),
    ]
    report, _ = run_usage(events, plan_of(tmp_path, acls, lookback_days=1.0))
    assert report.window.begins_at == format_time(START_MS + 2 * DAY_MS)
    assert (report.window.allowed_events, report.window.denied_events) == (2, 82)
    assert report.not_evaluated == {"pattern type is not LITERAL": Count(events=1, tuples=1)}
    assert [item.acl for item in report.unused] == [named(old), named(kept)]
    assert report.suggestions.removals == (named(old),)
    (left_out,) = report.suggestions.left_out
    assert left_out.acl == named(kept)
    assert left_out.reason == "2 events would be newly denied, such as those of User:a on kept"
    proof = report.suggestions.proof
    assert proof is not None
    assert (proof.tuples, proof.newly_denied) == (3, Count())


def test_window_reads_only_its_own_days(
    spark: SparkSession, tmp_path: Path, capsys: Capture
) -> None:
    """The event of a day is exactly at midnight, so a window may begin with it."""
    from authorizerd.replay.recorded.spark import sum_events

    to_midnight = DAY_MS - START_MS % DAY_MS
    midnights = [to_midnight + day * DAY_MS for day in range(4)]
    write_events(tmp_path, [read_of(f"t{day}", at=ms) for day, ms in enumerate(midnights)])
    days = sorted((tmp_path / "events").glob("run=*/day=*"))
    recorded = spark.read.parquet(str(tmp_path / "events"))
    for first_day, at in ((1, DAY_MS), (2, 2 * DAY_MS), (2, 2 * DAY_MS + 1)):
        # Reading a file of an earlier day now raises an error.
        for folder in days[:first_day]:
            (folder / "part-0.parquet").write_bytes(b"no Parquet")
        tuples = sum_events(recorded, START_MS + to_midnight + at)
        expected = [f"t{day}" for day in range(4) if midnights[day] >= to_midnight + at]
        assert sorted(row.resource_name for row in tuples.collect()) == expected
        capsys.readouterr()
        tuples.explain("formatted")
        plan = capsys.readouterr().out
        day = days[first_day].name.removeprefix("day=")
        assert re.search(rf"PartitionFilters: .*\(day#\d+ >= {day}\)", plan)
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


class Real(NamedTuple):
    """The use of ACLs by the broker's own log, from the first client's request on."""

    plan: UsagePlan
    report: UsageReport
    events: list[Event]
    suggested: list[Acl]


@pytest.fixture(scope="module")
def real(real_log_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Real:
    """Judge by the 1,751 ACLs at the end of the metadata log: 1,616 are older than the events."""
    acls = read_acl_source(
        str(real_log_dir), super_users=["User:admin"], allow_everyone_if_no_acl_found=False
    )
    events = list(real_events(real_log_dir))
    begins = min(event.at for event in events if event.principal != "User:admin")
    lookback_days = (max(event.at for event in events) - begins) / DAY_MS
    folder = tmp_path_factory.mktemp("real-usage")
    plan = plan_of(folder, acls, names_max=3, lookback_days=lookback_days)
    report, script = run_usage(events, plan)
    suggested = dict.fromkeys(item.acl for item in acls.acls)
    for kind, changed in commands_of(script):
        for acl in changed:
            if kind == "add":
                suggested[acl] = None
            else:
                del suggested[acl]
    return Real(plan, report, [event for event in events if event.at >= begins], [*suggested])


def test_real_log_gives_the_results_of_a_scan(real: Real) -> None:
    report, events = real.report, real.events
    recorded = [
        Recorded(question_of(event), event.allowed, START_MS + event.at) for event in events
    ]
    by_name = {named(item.acl): item.acl for item in real.plan.acls.acls}
    added_ms = {item.acl: item.added_ms or 0 for item in real.plan.acls.acls}
    assert len(by_name) == len(added_ms) == 1_751
    scanned = {
        acl: used
        for acl, used in used_acls([*added_ms], ("User:admin",), recorded).items()
        if used.last_ms >= added_ms[acl]
    }
    assert {by_name[item.acl] for item in report.used} == set(scanned)
    for item in report.used:
        expected = scanned[by_name[item.acl]]
        assert item.alone == Count(events=expected.events_alone, tuples=len(expected.alone))
        assert item.with_others == Count(events=expected.events_shared, tuples=len(expected.shared))
        assert item.last_used_at == format_time(expected.last_ms)
        is_counted = is_wide(by_name[item.acl])
        assert item.names == (len(expected.names) if is_counted else None)
    begins_ms = START_MS + min(event.at for event in events)
    unused = set(added_ms) - set(scanned)
    in_force = {acl for acl in unused if 0 < added_ms[acl] < begins_ms}
    assert {by_name[item.acl] for item in report.unused} == in_force
    young = {by_name[item.acl] for item in report.not_judged["added_within"]}
    assert young == unused - in_force
    assert (len(in_force), len(scanned), len(young)) == (1_569, 47, 135)
    admin = [event for event in events if event.principal == "User:admin"]
    assert report.by_super_users.events == len(admin) > 0


def test_suggestions_for_a_real_cluster_change_no_answer(real: Real) -> None:
    proof = real.report.suggestions.proof
    assert real.report.suggestions.narrowings
    assert proof is not None
    assert proof.digest == digest_of(real.suggested)
    acls = [item.acl for item in real.plan.acls.acls]
    for question in {question_of(each) for each in real.events if each.principal != "User:admin"}:
        spoken = [
            [acl for acl in part if acl.principal in (question.principal, "User:*")]
            for part in (acls, real.suggested)
        ]
        before, after = (decide(part, False, question)[0] for part in spoken)
        assert before == after
    candidate = real.plan.acls.with_acls(real.suggested, "suggested")
    checked = WhatIfPlan(
        events=real.plan.events, out="", candidate=candidate, baseline=real.plan.acls
    )
    source = TableEngine(real.plan.events, "")
    changes = LocalRows(list(change_finder(checked)(source.tuples())))
    found = make_report(checked, source, source.tuples(), changes)
    assert found.newly_denied == found.newly_allowed == NOTHING_CHANGED
    assert found.baseline is not None
    assert found.candidate.acls != found.baseline.acls
