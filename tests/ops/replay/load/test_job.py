"""The load on Spark: its frames are those of the load without Spark."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from authorizerd.replay.errors import LoadError
from authorizerd.replay.load.command import run_here
from authorizerd.replay.plans import LoadPlan
from tests.ops.replay.load.lanes.target_server import target_server
from tests.ops.replay.load.recorded_load import events_of, load
from tests.support.fixture_types import MonkeyPatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_sends_the_frames_that_are_planned_here(spark: SparkSession, tmp_path: Path) -> None:
    """First, three lanes are rejected: Spark has two slots. At last, the tasks fail."""
    from authorizerd.replay.load import job
    from authorizerd.replay.spark.failures import SPARK_ERRORS

    on_spark = partial(job.run, spark)
    events = [event._replace(at=event.at // 3) for event in events_of(300, every_ms=20)]
    for number, principal in enumerate(["User:*", "User:a", "User:b"]):
        odd = events[0]._replace(principal=principal)
        pattern = "PREFIXED" if number else "LITERAL"
        events.append(odd._replace(pattern_type=pattern, at=number * 900))
    options = {"loop": 3, "max_gap_s": 0.005, "speed": 2.0, "overwrite": True}
    here = load(run_here, tmp_path, events, dry_run=True, **options)[1]["plan"]
    assert (here["questions"], len(here["lanes"])) == (900, 2)
    assert here["not_asked"] == {"pattern type is not LITERAL": 2, "principal User:*": 1}
    with target_server() as server:
        with pytest.raises(LoadError, match="3 lanes need 3 task slots, but Spark has fewer"):
            load(on_spark, tmp_path, events, target=server.address, lanes=3, **options)
        assert server.hellos == 0
        code, report = load(on_spark, tmp_path, events, target=server.address, **options)
        assert server.hellos == 4, "each lane probes, then sends"
    assert (code, report["valid"], report["answered"], report["mismatches"]) == (0, True, 900, 0)
    assert report["plan"] == here
    assert len(report["start_skew_ms"]) == 2
    denied = [event._replace(allowed=False) for event in events]
    with target_server() as server:
        # The first mismatch raises a TypeError in its task.
        wrong = options | {"target": server.address, "mismatches_listed_max": "many"}
        with pytest.raises(SPARK_ERRORS):
            load(on_spark, tmp_path / "failing", denied, **wrong)
    failed = (tmp_path / "failing" / "out" / "load.json").read_text()
    assert '"the load did not end' in failed
    with pytest.raises(LoadError, match="target 127"):
        load(on_spark, tmp_path / "failing", denied, **options)
    assert (tmp_path / "failing" / "out" / "load.json").read_text() == failed


GOOD = LoadPlan(events="in", out="out", target="h:1", run_id="1")
TASK = "spark.task.maxFailures"
STAGE = "spark.stage.maxConsecutiveAttempts"
SPECULATION = "spark.speculation"


@pytest.mark.parametrize(("master", "settings", "complaint"), [
    ("local", {}, None),
    ("local[2]", {}, None),
    ("local[2,1]", {}, None),
    ("local[*]", {TASK: "4", SPECULATION: "false"}, None),
    ("local[2, 4]", {TASK: "1"}, f"{TASK} is 4: set it to 1"),
    ("local-cluster[2,1,1024]", {TASK: "1"}, f"{STAGE} is not set"),
    ("yarn", {TASK: "1", STAGE: "1", SPECULATION: "false"}, None),
    ("yarn", {STAGE: "1"}, f"{TASK} is not set, which means 4"),
    ("yarn", {TASK: "1"}, f"{STAGE} is not set, which means 4"),
    ("spark://h:7077", {TASK: "2", STAGE: "1"}, f"{TASK} is 2"),
    ("yarn", {TASK: "1", STAGE: "1", SPECULATION: "true"}, "spark.speculation is true"),
])  # fmt: skip
def test_settings_that_allow_a_second_attempt_are_rejected(
    master: str, settings: dict[str, str], complaint: str | None
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from authorizerd.replay.load.job import attempts_refusal

    refusal = attempts_refusal((settings | {"spark.master": master}).get)
    assert (refusal is None) is (complaint is None)
    assert complaint is None or complaint in str(refusal)


def test_files_that_spark_has_brought_come_first(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """Absolute paths, and paths of files that Spark has not copied, stay unchanged."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    from authorizerd.replay.load.job import locate_files

    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "ca.pem").touch()
    monkeypatch.setattr(pyspark.SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    plan = LoadPlan(
        events="in", out="out", target="tls://h:1", run_id="1",
        cafile="tls/ca.pem", cert="tls/client.pem", key="/etc/hosts",
    )  # fmt: skip
    located = locate_files(plan)
    assert located.cafile == f"{tmp_path}/tls/ca.pem"
    assert (located.cert, located.key) == ("tls/client.pem", "/etc/hosts")
    assert locate_files(GOOD) == GOOD
