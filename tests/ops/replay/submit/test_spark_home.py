from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.replay.submit.errors import SubmissionError
from authorizerd.replay.submit.spark_home import find_spark_home, spark_version
from tests.ops.replay.submit.programs import write_spark


def test_option_precedes_environment_precedes_pyspark(tmp_path: Path) -> None:
    named, other = (
        write_spark(tmp_path / "named"),
        write_spark(tmp_path / "other", version="4.1.1-rc1"),
    )
    environment = {"SPARK_HOME": str(other)}
    assert find_spark_home(named, environment) == named
    assert find_spark_home(None, environment) == other
    assert spark_version(other) == "4.1.1-rc1"
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    assert find_spark_home(None, {}).name == "pyspark"


@pytest.mark.parametrize("version", ["3.5.6", "4.0.1", "5.0.0"])
def test_unsupported_version_is_rejected(version: str, tmp_path: Path) -> None:
    other = write_spark(tmp_path, version=version)
    expected = f"SPARK_HOME is {other}, with Spark {version}: expected Spark 4.1 or a later 4.x"
    with pytest.raises(SubmissionError, match=expected):
        find_spark_home(None, {"SPARK_HOME": str(other)})


def test_folder_without_spark_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        SubmissionError, match=f"--spark-home is {tmp_path}, but .*/bin/spark-submit does not exist"
    ):
        find_spark_home(tmp_path, {})
    old = write_spark(tmp_path / "old", version="3.5.6")
    (old / "jars/spark-core_2.13-3.5.6.jar").unlink()
    with pytest.raises(SubmissionError, match="no Spark was found in"):
        find_spark_home(old, {})


def test_missing_spark_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("authorizerd.replay.submit.spark_home.find_spec", lambda _: None)
    with pytest.raises(SubmissionError, match=r"install authorizerd\[replay\], set SPARK_HOME"):
        find_spark_home(None, {})
