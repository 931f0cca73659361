from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.replay.plans import LoadPlan

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
    from authorizerd.replay.load.lanes.stage import attempts_refusal

    refusal = attempts_refusal((settings | {"spark.master": master}).get)
    assert (refusal is None) is (complaint is None)
    assert complaint is None or complaint in str(refusal)


def test_files_that_spark_has_brought_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Absolute paths, and paths of files that Spark has not copied, stay unchanged."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    from authorizerd.replay.load.lanes.stage import locate_files

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
