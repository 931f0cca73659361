from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.replay.plans import LoadPlan

GOOD = LoadPlan(events="in", out="out", target="h:1", run_id="1")


@pytest.mark.parametrize(("master", "failures", "speculation", "complaint"), [
    ("local", None, None, None),
    ("local[2]", None, None, None),
    ("local[2,1]", None, None, None),
    ("local[*]", "4", "false", None),
    ("local[2, 4]", "1", None, "spark.task.maxFailures is 4"),
    ("yarn", "1", "false", None),
    ("yarn", None, None, "spark.task.maxFailures is not set, which means 4"),
    ("spark://h:7077", "2", None, "spark.task.maxFailures is 2"),
    ("yarn", "1", "true", "spark.speculation is true"),
])  # fmt: skip
def test_settings_that_allow_a_second_attempt_are_rejected(
    master: str, failures: str | None, speculation: str | None, complaint: str | None
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from authorizerd.replay.load.lanes.stage import attempts_refusal

    refusal = attempts_refusal(master, failures=failures, speculation=speculation)
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
