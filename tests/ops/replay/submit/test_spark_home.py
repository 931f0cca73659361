"""The Spark that submits: found by name, by environment or as installed; of version 4."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.replay.submit.errors import SubmissionError
from authorizerd.replay.submit.spark_home import find_spark_home, spark_version
from tests.ops.replay.submit.programs import write_spark


def test_the_named_spark_wins_over_the_environment_s_and_that_over_pyspark_s(
    tmp_path: Path,
) -> None:
    """From the nearest to whoever typed the command to the furthest."""
    named, other = write_spark(tmp_path / "named"), write_spark(tmp_path / "other", version="4.0.1")
    environment = {"SPARK_HOME": str(other)}
    assert find_spark_home(named, environment) == named
    assert find_spark_home(None, environment) == other
    assert spark_version(other) == "4.0.1"
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    assert find_spark_home(None, {}).name == "pyspark"


def test_what_is_no_spark_4_is_refused(tmp_path: Path) -> None:
    """By what it lacks, or by the version that it is."""
    with pytest.raises(
        SubmissionError, match=f"--spark-home is {tmp_path}, but .*/bin/spark-submit does not exist"
    ):
        find_spark_home(tmp_path, {})
    old = write_spark(tmp_path / "old", version="3.5.6")
    with pytest.raises(
        SubmissionError, match=r"SPARK_HOME is .*old, with Spark 3\.5\.6: expected Spark 4"
    ):
        find_spark_home(None, {"SPARK_HOME": str(old)})
    (old / "jars/spark-core_2.13-3.5.6.jar").unlink()
    with pytest.raises(SubmissionError, match="no Spark was found in"):
        find_spark_home(old, {})


def test_no_spark_at_all_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyspark is an extra: many have none."""
    monkeypatch.setattr("authorizerd.replay.submit.spark_home.find_spec", lambda _: None)
    with pytest.raises(SubmissionError, match=r"install authorizerd\[replay\], set SPARK_HOME"):
        find_spark_home(None, {})
