"""The watch of a topic: its batches, and what it announces."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from authorizerd.replay.acl_set import AclSet, digest_of
from authorizerd.replay.errors import JobError
from authorizerd.replay.ingest.commit import Commit, read_newest
from authorizerd.replay.ingest.report import add_up
from authorizerd.replay.judging.report import JudgedBy
from authorizerd.replay.plans import FollowPlan, IngestPlan, WhatIfPlan
from authorizerd.replay.topics import Topic
from authorizerd.replay.whatif.follow.announcing import Announcer
from authorizerd.replay.whatif.report import Changed, Detail, PrincipalCount, ResourceCount, WhatIf
from tests.ops.replay.acl_sets import acl_set_of, topic_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def take(spark: SparkSession, plan: FollowPlan, number: int, records: Sequence[Record]) -> None:
    from authorizerd.replay.whatif.follow.batches import take_batch

    schema = "value binary, partition int, offset long"
    take_batch(plan, spark.createDataFrame(list(records), schema), number)


def report_of(out: Path, name: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
    return report


def test_crash_between_any_two_steps_counts_each_record_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark repeats a batch whose function did not return. Each batch crashes at another step."""
    from authorizerd.replay.whatif.follow import batches

    plan = plan_of(tmp_path)
    batches.open_watch(spark, plan)
    # Tuples, |commit, |ingest.json, whatif.json|: a crash at each of the three bars.
    steps = ("create_commit", "write_text", "write_report")
    for number, (step, records) in enumerate(zip(steps, BATCHES, strict=True)):
        with monkeypatch.context() as patch:
            if step != steps[-1]:
                patch.setattr(batches, "write_report", lambda *_: None)  # only the last one is read
            with patch.context() as inner:
                inner.setattr(batches, step, partial(crash, getattr(batches, step), step))
                with pytest.raises(CrashError):
                    take(spark, plan, number, records)
            take(spark, plan, number, records)
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
    topic = "kafka://127.0.0.1:1/audit"
    assert report["logs"] == {f"{topic}/{n}": last for n, last in enumerate(partitions)}
    denied, allowed = report["newly_denied"], report["newly_allowed"]
    assert [(one["resource_name"], one["events"]) for one in denied["details"]] == [
        ("t2", 3),
        ("t3", 1),
    ]
    assert [(one["resource_name"], one["events"]) for one in allowed["details"]] == [("t1", 1)]
    # Too many distinct requests end the watch, and the last report stays.
    monkeypatch.setattr(batches, "TUPLES_MAX", 3)
    with pytest.raises(JobError, match="more than 3 distinct requests"):
        take(spark, plan, 3, [(line(6, "t4"), 0, 5)])
    assert report_of(tmp_path, "whatif") == report
    commit = read_newest(tmp_path / "follow")
    assert (commit.number, commit.offsets) == (4, {"audit": {0: 5, 1: 9}})
    tuples = [path.name for path in (tmp_path / "follow/tuples").iterdir()]
    assert f"run={commit.tuples_run}" in tuples
    assert len([name for name in tuples if name < "run=00000005"]) <= 2, "old ones are removed"


def crash(step: Callable[..., object], name: str, *arguments: object) -> None:
    """Die before the step, or after the last one."""
    if name == "write_report":
        step(*arguments)
    raise CrashError


def test_watch_continues_only_its_own_directory(spark: SparkSession, tmp_path: Path) -> None:
    from authorizerd.replay.whatif.follow.batches import open_watch, read_figures

    plan = plan_of(tmp_path)
    with pytest.raises(JobError, match="expected the output of ingest"):
        take(spark, plan, 0, [])
    (tmp_path / "whatif.json").write_text("{}")
    with pytest.raises(JobError, match="not empty; --overwrite replaces"):
        open_watch(spark, plan)
    open_watch(spark, replace(plan, is_anew=True))
    assert not (tmp_path / "whatif.json").exists(), "the report of an earlier watch is removed"
    open_watch(spark, plan)
    with pytest.raises(JobError, match="a watch of the topic audit, not of other"):
        open_watch(spark, plan_of(tmp_path, topic="other"))
    checkpoint = tmp_path / "follow/checkpoint"
    checkpoint.mkdir()
    open_watch(spark, replace(plan, is_anew=True))
    assert not checkpoint.exists()
    assert read_figures(spark, plan).lines == 0
    (tmp_path / "follow/commits/00000002.json").write_text("{")
    with pytest.raises(JobError, match=r"00000002\.json: "):
        open_watch(spark, plan)


COUNTED = Commit(
    number=2,  # batch 0
    salt=0,
    runs=(),
    tuples_run=None,
    offsets={"audit": {0: 9, 1: 1}},
    ingested=add_up([], 0),
)


def part(partition: int, first_offset: int, last_offset: int) -> Any:  # noqa: ANN401 - a row
    from pyspark.sql import Row

    return Row(partition=partition, first_offset=first_offset, last_offset=last_offset)


@pytest.mark.parametrize(("batch", "places", "expected"), [
    (1, [], True),
    (1, [(0, 9, 20), (1, 3, 3), (2, 0, 0)], True),
    (0, [(0, 5, 8), (1, 0, 0)], False),
    (0, [], False),
    (2, [], None),  # a batch is missing
    (2, [(0, 9, 9)], None),
    (0, [(0, 9, 9)], None),  # the checkpoint was removed, and the numbers began again
    (0, [(2, 0, 0)], None),
    (1, [(0, 8, 9)], None),  # the last record was counted
    (1, [(0, 9, 9), (1, 0, 0)], None),
])  # fmt: skip
def test_only_the_next_batch_is_added(
    batch: int, places: list[tuple[int, int, int]], *, expected: bool | None
) -> None:
    """A batch that is neither the next nor the last one is rejected (None)."""
    from authorizerd.replay.whatif.follow.batches import is_next

    parts = [part(*place) for place in places]
    if expected is not None:
        assert is_next(COUNTED, "audit", batch, parts) is expected
        return
    with pytest.raises(JobError, match=f"batch {batch} does not continue batch 0"):
        is_next(COUNTED, "audit", batch, parts)


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


def test_new_principal_or_resource_is_announced_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    announcer = Announcer()
    first, second = denied("User:a", "t"), denied("User:b\x1b", "t", None)
    for tuples, said in (
        ([first], "User:a READ TOPIC t from 10.0.0.1"),
        ([first, second, denied("User:a", "t", "10.0.0.2")],
         "User:b\\x1b READ TOPIC t from an unknown host"),
        ([first, second, denied("User:a", "other")], "User:a READ TOPIC other from 10.0.0.1"),
    ):  # fmt: skip
        announcer.announce(report_with(*tuples))
        assert capsys.readouterr().out == f"newly denied: {said}: DefaultDeny\n"
    announcer.announce(report_with(first, second))
    assert capsys.readouterr().out == ""
    announcer.announce(report_with(first, unlisted=("User:z",)))
    assert capsys.readouterr().out == "newly denied: User:z, 1 event\n", "it is in no detail"
