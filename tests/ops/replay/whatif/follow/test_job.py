"""The watch of a topic: its batches, its end, and what it announces."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from authorizerd.replay.acl_set import AclSet, digest_of
from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.commit import read_newest
from authorizerd.replay.judging.report import JudgedBy
from authorizerd.replay.messages import EXIT_DENIED
from authorizerd.replay.plans import FollowPlan, IngestPlan, WhatIfPlan
from authorizerd.replay.topics import Topic
from authorizerd.replay.whatif.report import (
    Changed,
    Detail,
    PrincipalCount,
    ResourceCount,
    WhatIf,
    find_new_denials,
)
from tests.ops.replay.acl_sets import acl_set_of, topic_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Record = tuple[bytes | None, int, int]
"""Value, partition and offset."""


class CrashError(Exception):
    """A process that ends here."""


def plan_of(out: Path, topic: str = "audit") -> FollowPlan:
    """Return the plan of a watch whose candidate allows User:a to read t1."""
    candidate = acl_set_of([topic_read("t1")])
    whatif = WhatIfPlan(events=f"{out}/follow", out=str(out), candidate=candidate)
    topics = (Topic(servers="127.0.0.1:1", name=topic),)
    ingest = IngestPlan(inputs=(), out=f"{out}/follow", topics=topics)
    return FollowPlan(out=str(out), ingest=ingest, whatif=whatif, interval_s=1)


def line(second: int, topic: str, *, allowed: bool = True) -> bytes:
    answer, level = ("Allowed", "DEBUG") if allowed else ("Denied", "INFO")
    return (
        f"[2026-11-21 16:30:{second:02},000] {level} Principal = User:a is {answer} operation = "
        f"READ from host = 10.0.0.1 on resource = Topic:LITERAL:{topic} for request = Fetch with "
        "resourceRefCount = 1 based on rule DefaultDeny (kafka.authorizer.logger)"
    ).encode()


BATCHES: Sequence[Sequence[Record]] = (
    [(line(1, "t1"), 0, 0), (line(2, "t2"), 1, 5), (None, 0, 1)],
    [(line(3, "t1", allowed=False), 0, 2), (b"no audit line", 0, 3)],
    [(line(4, "t2"), 0, 4), (line(5, "t2"), 1, 7), (line(0, "t3"), 1, 8)],
)


class FakeTopic:
    """The records of two partitions, in place of those that Spark's connector reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from authorizerd.replay.whatif.follow import batches

        self.records: list[Record] = []
        monkeypatch.setattr(batches, "find_ends", self.find_ends)
        monkeypatch.setattr(batches, "read_records", self.read_records)

    def find_ends(self, *_: object) -> dict[int, int]:
        return {
            n: max((at + 1 for _, of, at in self.records if of == n), default=0) for n in (0, 1)
        }

    def read_records(
        self, spark: SparkSession, _topic: Topic, begins: Mapping[int, int], ends: Mapping[int, int]
    ) -> DataFrame:
        rows = [each for each in self.records if begins.get(each[1], 0) <= each[2] < ends[each[1]]]
        return spark.createDataFrame(rows, "value binary, partition int, offset long")


def report_of(out: Path, name: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
    return report


def test_crash_between_any_two_steps_counts_each_record_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch crashes at another step, and is followed by the beginning of the next job."""
    from authorizerd.replay.whatif.follow import batches

    plan, topic = replace(plan_of(tmp_path), from_beginning=True), FakeTopic(monkeypatch)
    batches.open_watch(spark, plan)
    # Tuples, |commit, |ingest.json, whatif.json|: a crash at each of the three bars.
    steps = ("create_commit", "write_text", "write_report")
    for step, records in zip(steps, BATCHES, strict=True):
        topic.records += records
        with monkeypatch.context() as patch:
            patch.setattr(batches, step, partial(crash, getattr(batches, step), step))
            with pytest.raises(CrashError):
                work(spark, plan)
        batches.open_watch(spark, plan)
        assert batches.count_records(spark, plan) is (step == "create_commit")
    assert batches.write_reports(spark, plan).events == 6
    ingested, report = report_of(tmp_path, "ingest"), report_of(tmp_path, "whatif")
    assert (ingested["lines"], ingested["blank_lines"], ingested["set_aside"]) == (8, 1, 1)
    assert ingested["reasons"] == {"no_decision": 1}
    assert ingested["levels"] == {"DEBUG": 5, "INFO": 1}
    assert not ingested["accepted"]
    assert (report["events"], report["allowed_events"], report["tuples"]) == (6, 5, 3)
    assert (report["first_at"], report["last_at"]) == (
        "2026-11-21T16:30:00.000Z",
        "2026-11-21T16:30:05.000Z",
    )
    partitions = [{"last_at": f"2026-11-21T16:30:0{second}.000Z"} for second in (4, 5)]
    name = "kafka://127.0.0.1:1/audit"
    assert report["logs"] == {f"{name}/{n}": last for n, last in enumerate(partitions)}
    denied, allowed = report["newly_denied"], report["newly_allowed"]
    assert [(one["resource_name"], one["events"]) for one in denied["details"]] == [
        ("t2", 3),
        ("t3", 1),
    ]
    assert [(one["resource_name"], one["events"]) for one in allowed["details"]] == [("t1", 1)]
    # Too many distinct requests end the watch, and the last report stays.
    monkeypatch.setattr(batches, "TUPLES_MAX", 3)
    topic.records.append((line(6, "t4"), 0, 5))
    with pytest.raises(JobError, match="more than 3 distinct requests"):
        batches.count_records(spark, plan)
    assert report_of(tmp_path, "whatif") == report
    commit = read_newest(tmp_path / "follow")
    assert (commit.number, commit.offsets) == (4, {"audit": {0: 5, 1: 9}})
    tuples = [path.name for path in (tmp_path / "follow/tuples").iterdir()]
    assert f"run={commit.tuples_run}" in tuples
    assert len([name for name in tuples if name < "run=00000005"]) <= 2, "old ones are removed"


def work(spark: SparkSession, plan: FollowPlan) -> None:
    from authorizerd.replay.whatif.follow.batches import count_records, write_reports

    assert count_records(spark, plan)
    write_reports(spark, plan)


def crash(step: Callable[..., object], name: str, *arguments: object) -> None:
    """Die before the step, or after the last one."""
    if name == "write_report":
        step(*arguments)
    raise CrashError


def test_watch_continues_only_its_own_directory(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from authorizerd.replay.whatif.follow.batches import count_records, open_watch, read_figures

    plan, topic = plan_of(tmp_path), FakeTopic(monkeypatch)
    with pytest.raises(JobError, match="expected the output of ingest"):
        count_records(spark, plan)
    (tmp_path / "whatif.json").write_text("{}")
    with pytest.raises(JobError, match="not empty; --overwrite replaces"):
        open_watch(spark, plan)
    topic.records += BATCHES[0]
    open_watch(spark, replace(plan, is_anew=True))
    assert not (tmp_path / "whatif.json").exists(), "the report of an earlier watch is removed"
    assert not count_records(spark, plan), "it begins with the next record"
    topic.records += BATCHES[1]
    assert count_records(spark, plan)
    open_watch(spark, plan)
    assert read_figures(spark, plan).lines == 2
    with pytest.raises(JobError, match="a watch of the topic audit, not of other"):
        open_watch(spark, plan_of(tmp_path, topic="other"))
    (tmp_path / "follow/checkpoint/offsets").mkdir(parents=True)
    with pytest.raises(JobError, match=r"a watch of version 1\.0, "):
        open_watch(spark, plan)
    open_watch(spark, replace(plan, is_anew=True))
    open_watch(spark, plan)
    assert read_figures(spark, plan).lines == 0
    assert not list((tmp_path / "follow/tuples").iterdir())
    topic.records[:] = BATCHES[0]
    with pytest.raises(JobError, match="the topic was recreated"):
        count_records(spark, plan)
    (tmp_path / "follow/commits/00000009.json").write_text("{")
    with pytest.raises(JobError, match=r"00000009\.json: "):
        open_watch(spark, plan)


def test_watch_without_time_counts_what_the_topic_has(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from authorizerd.replay.whatif.follow.job import run

    FakeTopic(monkeypatch).records += BATCHES[2]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        plan = replace(plan_of(tmp_path), from_beginning=True, duration_s=0)
        assert run(spark, plan) == EXIT_DENIED
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert report_of(tmp_path, "whatif")["events"] == 3
    said = "newly denied: User:a READ TOPIC t2 from 10.0.0.1: DefaultDeny\n"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(("duration_s", "stops_after", "counted", "reported"), [
    (None, 3, 3, 2),  # the first report, and that of new records
    (None, 0, 1, 1),
    (0, 9, 1, 1),
])  # fmt: skip
def test_watch_ends_after_a_batch(
    duration_s: int | None, stops_after: int, counted: int, reported: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from authorizerd.replay.whatif.follow import job

    counts: list[bool] = []
    reports: list[WhatIf] = []

    def count(*_: object) -> bool:
        counts.append(len(counts) == 1)  # only the second batch has records
        return counts[-1]

    def write(*_: object) -> WhatIf:
        reports.append(report_with())
        return reports[-1]

    monkeypatch.setattr(job, "count_records", count)
    monkeypatch.setattr(job, "write_reports", write)
    plan = replace(plan_of(tmp_path), duration_s=duration_s, interval_s=0)
    no_session: Any = None
    found = job._follow(no_session, plan, lambda: len(counts) >= stops_after)
    assert (found is reports[-1], len(counts), len(reports)) == (True, counted, reported)


def test_missing_connector_is_named_with_the_remedy(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.whatif.follow.job import run

    with pytest.raises(JobError) as found:
        run(spark, plan_of(tmp_path))
    assert "Spark has no connector for Kafka" in str(found.value)
    assert f"spark-sql-kafka-0-10_2.13:{spark.version}" in str(found.value)


def report_with(*details: Detail, unlisted: tuple[str, ...] = ()) -> WhatIf:
    """Return a report of newly denied tuples; ``unlisted`` are principals without details."""
    principals = [*(detail.principal for detail in details), *unlisted]
    denied = Changed(
        events=len(principals),
        tuples=len(principals),
        by_principal=[PrincipalCount(principal=name, events=1, tuples=1) for name in principals],
        by_resource=[
            ResourceCount(
                resource_type="TOPIC", resource_name=each.resource_name, events=1, tuples=1
            )
            for each in details
        ],
        details=details,
    )
    acls = AclSet(source="acls", acls=(), digest=digest_of([]))
    return WhatIf(
        events=9, allowed_events=9, tuples=9, first_at=None, last_at=None, not_evaluated={},
        candidate=JudgedBy.of(acls), baseline=None, newly_denied=denied,
        newly_allowed=Changed(),
    )  # fmt: skip


def denied(principal: str, topic: str, host: str | None = "10.0.0.1") -> Detail:
    return Detail(
        principal=principal, host=host, operation="READ", resource_type="TOPIC",
        resource_name=topic, events=1, first_at="", last_at="", baseline_rule=None,
        candidate_rule="DefaultDeny",
    )  # fmt: skip


def test_new_principal_or_resource_is_named_once() -> None:
    known: set[tuple[str, ...]] = set()
    first, second = denied("User:a", "t"), denied("User:b\x1b", "t", None)
    for report, *said in (
        (report_with(first), "User:a READ TOPIC t from 10.0.0.1: DefaultDeny"),
        (report_with(first, second, denied("User:a", "t", "10.0.0.2")),
         "User:b\\x1b READ TOPIC t from an unknown host: DefaultDeny"),
        (report_with(first, second, denied("User:a", "other")),
         "User:a READ TOPIC other from 10.0.0.1: DefaultDeny"),
        (report_with(first, second),),
        (report_with(first, unlisted=("User:z",)), "User:z, 1 event"),  # it is in no detail
    ):  # fmt: skip
        assert list(find_new_denials(report, known)) == [f"newly denied: {one}" for one in said]
